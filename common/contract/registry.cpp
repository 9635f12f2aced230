#include "common/contract/registry.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace rmsnorm {
namespace {

// A function's static variable exists before the first registration, whatever the link order is.
std::vector<Implementation>& registered() {
  static std::vector<Implementation> implementations;
  return implementations;
}

}  // namespace

void add_implementation(Implementation implementation) {
  registered().push_back(std::move(implementation));
}

std::vector<Implementation> all_implementations() {
  std::vector<Implementation> all = registered();
  std::ranges::sort(all, [](const Implementation& a, const Implementation& b) {
    const int by_slug = std::strcmp(a.slug, b.slug);
    return by_slug != 0 ? by_slug < 0 : std::strcmp(a.operation->name, b.operation->name) < 0;
  });
  return all;
}

std::vector<Implementation> find_implementations(
    const std::vector<Implementation>& among, const std::string& name) {
  const bool is_number = !name.empty() && name.size() <= 2 &&
                         std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  const std::string prefix = is_number ? (name.size() == 1 ? "0" : "") + name + "_" : name + "/";

  std::vector<Implementation> found;
  for (const Implementation& implementation : among) {
    const std::string_view slug = implementation.slug;
    if (slug == name || slug.substr(0, prefix.size()) == prefix) found.push_back(implementation);
  }
  return found;
}

}  // namespace rmsnorm
