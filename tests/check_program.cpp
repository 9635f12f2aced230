/// \file
/// check_program SLUG [SECONDS]: what ./rmsnorm check does, for one lesson or mutant, in a process
/// of its own, since some cost it the GPU and some never end. SECONDS: for one problem. Two more
/// slugs stand for 02_naive: "false_traffic" with another prediction, "refuses_all" without use.

#include <cstdlib>
#include <string>
#include <vector>

#include "common/contract/registry.hpp"
#include "common/programs/check.hpp"

int main(int argc, char** argv) {
  using namespace rmsnorm;
  const std::string slug = argc > 1 ? argv[1] : "";
  std::vector<Lesson> lessons = all_lessons();
  Lesson false_traffic = find_lessons(lessons, "02_naive").at(0);
  Lesson refuses_all = false_traffic;
  false_traffic.slug = "false_traffic";
  false_traffic.traffic = +[](int hidden) { return Traffic{8.0 * hidden, 4.0 * hidden}; };
  refuses_all.slug = "refuses_all";
  refuses_all.refuses = +[](const Problem&) { return std::string("it is tired"); };
  lessons.insert(lessons.end(), {false_traffic, refuses_all});
  std::erase_if(lessons, [&](const Lesson& lesson) { return lesson.slug != slug; });
  GauntletLimits limits;
  if (argc > 2) limits.seconds_for_one = static_cast<unsigned>(std::atoi(argv[2]));
  return check_lessons(lessons, limits);
}
