/// \file
/// A lesson program like all others, but with a lesson that is wrong, and a right one that needs a
/// GPU and has a variant that is wrong: to see what a user would see.

#include "common/programs/program.hpp"
#include "tests/faults.hpp"

int main(int argc, char** argv) {
  using namespace rmsnorm;
  const Operation& operation = *tests::operations()[0];
  const auto doubled = [](const Problem& p) {
    constexpr int kY = 2;
    tests::put(p.tensors[kY], p.dtype, 0, 2 * tests::get(p.tensors[kY], p.dtype, 0));
  };
  Implementation wrong = tests::right_and_then(operation, Memory::host, doubled);
  Implementation on_gpu = tests::right(operation, Memory::device);
  on_gpu.slug = "99_on_gpu";
  on_gpu.is_typed = false;
  Implementation variant = tests::right_and_then(operation, Memory::device, doubled);
  variant.slug = "99_on_gpu/variant";
  variant.is_typed = false;
  return run_program(argc, argv, {wrong, on_gpu, variant});
}
