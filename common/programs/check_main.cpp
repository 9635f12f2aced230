#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/files.hpp"
#include "common/contract/registry.hpp"
#include "common/programs/check.hpp"
#include "common/programs/program.hpp"

namespace {

/// Notes the registers of kernels that ptxas names in a text, two lines for each.
void note_registers(const std::string& text) {
  std::istringstream lines(text);
  std::string kernel;
  for (std::string line; std::getline(lines, line);) {
    const auto behind = [&](std::string_view begin) {
      const std::size_t at = line.find(begin);
      return at == line.npos ? "" : line.substr(at + begin.size());
    };
    if (const std::string name = behind("Compiling entry function '"); !name.empty()) {
      kernel = name.substr(0, name.find('\''));
    }
    if (const std::string used = behind("Used "); !used.empty()) {
      rmsnorm::set_registers(kernel, std::atoi(used.c_str()));
    }
  }
}

}  // namespace

/// With `--operation NAME`, only kernels of that operation. With `--small`, problems stay below
/// 2^31 elements: for tools under which a kernel is very slow. With `--time`, the kernels are
/// verified and timed in their regimes, and nothing else. With `--seed N`, random problems are
/// others. With `--name FILE`, kernels of a lesson are called after the file.
/// With `--only TEXT`, the one problem runs that check calls so. With `--registers FILE`,
/// launches may not need more registers than there are, of which kernels have as many as nvcc says
/// in that file.
int main(int argc, char** argv) {
  std::vector<rmsnorm::Implementation> implementations = rmsnorm::all_implementations();
  bool small = false;
  bool timed = false;
  std::string name;
  rmsnorm::GauntletLimits limits;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    small = small || argument == "--small";
    timed = timed || argument == "--time";
    if (argument == "--seed" && i + 1 < argc) limits.seed = std::strtoull(argv[++i], nullptr, 10);
    if (argument == "--name" && i + 1 < argc) name = argv[++i];
    if (argument == "--only" && i + 1 < argc) limits.only = argv[++i];
    if (argument == "--registers" && i + 1 < argc) note_registers(rmsnorm::read_file(argv[++i]));
    if (argument != "--operation" || i + 1 == argc) continue;
    const std::string_view operation = argv[++i];
    std::erase_if(implementations, [&](const rmsnorm::Implementation& implementation) {
      return implementation.operation->name != operation;
    });
    if (!implementations.empty()) continue;
    fmt::print(stderr, "the file registers no kernel that does '{}'\n", operation);
    return rmsnorm::kBadUsage;
  }
  if (timed) {
    const char* const every_kernel[] = {argv[0], "--variants"};
    return rmsnorm::run_program(2, every_kernel, implementations);
  }
  if (!name.empty()) rmsnorm::name_after_file(implementations, name);
  limits.beyond_32_bits = !small;
  return rmsnorm::check_implementations(implementations, limits);
}
