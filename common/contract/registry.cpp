#include "common/contract/registry.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace rmsnorm {
namespace {

// A function's static variable exists before the first registration, whatever the link order is.
std::vector<Lesson>& registered() {
  static std::vector<Lesson> lessons;
  return lessons;
}

}  // namespace

Registration::Registration(const Lesson& lesson) {
  registered().push_back(lesson);
}

std::vector<Lesson> all_lessons() {
  std::vector<Lesson> lessons = registered();
  std::sort(lessons.begin(), lessons.end(), [](const Lesson& a, const Lesson& b) {
    return std::strcmp(a.slug, b.slug) < 0;
  });
  return lessons;
}

std::vector<Lesson> find_lessons(const std::vector<Lesson>& among, const std::string& name) {
  const bool is_number =
      !name.empty() && name.size() <= 2 &&
      std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  const std::string prefix = is_number ? (name.size() == 1 ? "0" : "") + name + "_" : name + "/";

  std::vector<Lesson> found;
  for (const Lesson& lesson : among) {
    const std::string_view slug = lesson.slug;
    if (slug == name || slug.substr(0, prefix.size()) == prefix) found.push_back(lesson);
  }
  return found;
}

}  // namespace rmsnorm
