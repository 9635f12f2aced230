#include <string_view>

#include "common/contract/registry.hpp"
#include "common/programs/check.hpp"

/// With `--small`, problems stay below 2^31 elements: for tools under which a kernel is very slow.
int main(int argc, char** argv) {
  const bool small = argc == 2 && std::string_view(argv[1]) == "--small";
  return rmsnorm::check_lessons(rmsnorm::all_lessons(), {.beyond_32_bits = !small});
}
