#include "lessons/11_any_tensor/plan.hpp"
#include "tests/staged_row.hpp"

namespace tests {

int staged_bytes_of_row(int vectors, int most) {
  rmsnorm::any_tensor::Plan plan{};
  rmsnorm::any_tensor::shape_aligned(vectors, plan);
  rmsnorm::any_tensor::stage_at_most(most, plan);
  return rmsnorm::any_tensor::staged_bytes(plan);
}

}  // namespace tests
