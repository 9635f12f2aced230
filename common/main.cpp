#include "common/program.hpp"
#include "common/registry.hpp"

int main(int argc, char** argv) {
  return rmsnorm::run_program(argc, argv, rmsnorm::all_lessons());
}
