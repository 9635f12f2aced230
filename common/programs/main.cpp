#include "common/contract/registry.hpp"
#include "common/programs/program.hpp"

int main(int argc, char** argv) {
  return rmsnorm::run_program(argc, argv, rmsnorm::all_implementations());
}
