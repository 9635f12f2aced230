/// \file
/// gauntlet_program SLUG: runs one lesson or mutant through the gauntlet, in a process of its own,
/// since some mutants cost it the GPU. Prints the complaint and, in a second line, where. Exit
/// code: as all programs' (options.hpp).

#include <fmt/format.h>

#include <string>

#include "common/cuda_check.hpp"
#include "common/gpu.hpp"
#include "common/options.hpp"
#include "common/registry.hpp"
#include "tests/gauntlet.hpp"

int main(int argc, char** argv) {
  using namespace rmsnorm;
  const std::string slug = argc == 2 ? argv[1] : "";
  try {
    find_gpu();
    for (const Lesson& lesson : all_lessons()) {
      if (lesson.slug != slug) continue;
      const tests::Verdict verdict = tests::run_gauntlet(lesson);
      fmt::print("{}\n{}\n", verdict.complaint, verdict.where);
      return verdict.complaint.empty() ? kAllVerified : kLessonWrong;
    }
  } catch (const NoGpu& reason) {
    fmt::print("{}\n", reason.what());
    return kNoDevice;
  } catch (const CudaError& error) {
    fmt::print("{}\n", error.what());
    return kLessonWrong;
  }
  fmt::print(stderr, "usage: gauntlet_program SLUG\n");
  return kBadUsage;
}
