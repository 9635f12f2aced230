#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "common/base/exit_code.hpp"
#include "common/contract/registry.hpp"
#include "common/programs/check.hpp"

/// With `--operation NAME`, only kernels of that operation. With `--small`, problems stay below 2^31
/// elements: for tools under which a kernel is very slow.
int main(int argc, char** argv) {
  std::vector<rmsnorm::Implementation> implementations = rmsnorm::all_implementations();
  bool small = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    small = small || argument == "--small";
    if (argument != "--operation" || i + 1 == argc) continue;
    const std::string_view operation = argv[++i];
    std::erase_if(implementations, [&](const rmsnorm::Implementation& implementation) {
      return implementation.operation->name != operation;
    });
    if (!implementations.empty()) continue;
    fmt::print(stderr, "the file registers no kernel that does '{}'\n", operation);
    return rmsnorm::kBadUsage;
  }
  return rmsnorm::check_implementations(implementations, {.beyond_32_bits = !small});
}
