#include "library/kernels/forward_plan.hpp"
#include "tests/staged_row.hpp"

namespace tests {

int staged_bytes_of_row(int vectors, int most) {
  rmsnorm::kernels::ForwardPlan plan{};
  rmsnorm::kernels::shape_aligned(vectors, plan);
  rmsnorm::kernels::stage_at_most(most, plan);
  return rmsnorm::kernels::staged_bytes(plan);
}

}  // namespace tests
