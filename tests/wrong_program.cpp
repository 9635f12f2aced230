/// \file
/// A lesson program like all others, but with a lesson that is wrong, and a right one that needs a
/// GPU and has a foil that is wrong: to see what a user would see.

#include "common/programs/program.hpp"
#include "tests/faults.hpp"

int main(int argc, char** argv) {
  const rmsnorm::Lesson wrong =
      tests::lesson_with(tests::faults().front().launch, rmsnorm::Memory::host);
  rmsnorm::Lesson on_gpu = tests::lesson_with(tests::launch_right, rmsnorm::Memory::device);
  on_gpu.slug = "99_on_gpu";
  rmsnorm::Lesson foil = wrong;
  foil.slug = "99_on_gpu/foil";
  foil.memory = rmsnorm::Memory::device;
  return rmsnorm::run_program(argc, argv, {wrong, on_gpu, foil});
}
