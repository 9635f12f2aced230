/// \file
/// ./rmsnorm check: a program with the kernels of one file.

#include "common/contract/registry.hpp"
#include "common/programs/check.hpp"

int main(int argc, char** argv) {
  return rmsnorm::run_check(argc, argv, rmsnorm::all_implementations());
}
