#include "library/kernels/forward_plan.hpp"
#include "tests/plan_of_row.hpp"

using namespace rmsnorm::kernels;

namespace tests {

int staged_bytes_of_row(int vectors, int most) {
  ForwardPlan plan{};
  const ForwardShape shape = shape_by_formula(vectors, false);
  plan.threads = shape.threads;
  plan.staged = staged_of(vectors, shape);
  stage_at_most(most, plan);
  return staged_bytes(plan);
}

std::vector<std::int64_t> order_of_additions(const PlannedRows& rows) {
  const std::int64_t bytes = bytes_of(rows.dtype) * std::int64_t{rows.hidden};
  const Rows at = {reinterpret_cast<void*>(rows.address), bytes * rows.inner, bytes};
  float rstd = 0;
  const Tensor tensor = {at, at, nullptr, rows.wants_rstd ? &rstd : nullptr, rows.rows, rows.inner};
  const Forward op = {{tensor, {}}, rows.hidden, rows.dtype, rows.dtype, 0, 0};
  ForwardShape shape;
  shape_on_device(op, &shape);
  const ForwardPlan plan = plan_for(op, shape);
  return {
      static_cast<int>(plan.kind),
      plan.threads,
      plan.vectors,
      plan.rounds,
      plan.cluster,
      plan.part,
      plan.staged};
}

}  // namespace tests
