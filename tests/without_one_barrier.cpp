/// \file
/// The program of all lessons and of the library, without one barrier: to see what a user would
/// see. Its arguments are the barrier's file and line, and then those of a lesson.

#include <string>

#include "common/base/exit_code.hpp"
#include "common/contract/registry.hpp"
#include "common/cpu_device/block.hpp"
#include "common/programs/program.hpp"

int main(int argc, char** argv) {
  using namespace rmsnorm;
  if (argc < 3) return kBadUsage;
  cpu_device::leave_out_barrier(argv[1], std::stoi(argv[2]));
  return run_program(argc - 2, argv + 2, all_implementations());
}
