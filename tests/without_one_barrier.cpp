/// \file
/// The program of all lessons and of the library, without one barrier: to see what a user would
/// see. Its arguments are the barrier's file and line, the most blocks of a cluster or 0, and then
/// those of a lesson.

#include <string>

#include "common/base/exit_code.hpp"
#include "common/contract/registry.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/cpu_device/scheduler/block.hpp"
#include "common/programs/program.hpp"

int main(int argc, char** argv) {
  using namespace rmsnorm;
  if (argc < 4) return kBadUsage;
  cpu_device::omit_barrier(argv[1], std::stoi(argv[2]));
  limit_clusters(std::stoi(argv[3]));
  return run_program(argc - 3, argv + 3, all_implementations());
}
