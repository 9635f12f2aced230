#include "common/tensors/backward_workload.hpp"

#include "common/base/cuda_check.hpp"
#include "common/contract/types.hpp"
#include "common/operations/reference.hpp"
#include "common/verify/backward_kernels.hpp"

namespace rmsnorm {

BackwardWorkload::BackwardWorkload(const WorkloadSpec& spec)
    : spec_(spec),
      inputs_(spec),
      rstd_(spec.memory, Dtype::fp32, spec.rows, spec.sets, spec.misalign),
      dy_(matrix_of(spec)),
      dx_(matrix_of(spec)),
      dweight_(weights_of(spec)) {
  dy_.fill(Content::dy, spec.seed, spec.hidden);
  rstd_.fill(Content::nan, spec.seed, 1);
  for (int set = 0; set < spec.sets; ++set) compute_rstd(set);
  dx_.poison();
  dweight_.poison();
}

void BackwardWorkload::compute_rstd(int set) const {
  auto* const rstd = static_cast<float*>(rstd_.data(set));
  const BackwardProblem p = problem(set);
  if (spec_.memory == Memory::device) {
    cuda_check(launch_rstd(p, spec_.eps, rstd, nullptr), "computing rstd");
    return;
  }
  const std::vector<float> x = to_floats(p.x, p.dtype, matrix_size(spec_));
  for (int row = 0; row < p.rows; ++row) {
    const float* const begin = x.data() + static_cast<std::size_t>(row) * p.hidden;
    rstd[row] = static_cast<float>(reference_row_rstd(begin, p.hidden, spec_.eps));
  }
}

BackwardProblem BackwardWorkload::problem(int set) const {
  auto p = inputs_.problem<BackwardProblem>(spec_, set);
  p.rstd = static_cast<const float*>(rstd_.data(set));
  p.dy = dy_.data(set);
  p.dx = dx_.data(set);
  p.dweight = spec_.types.weight ? dweight_.data(set) : nullptr;
  return p;
}

FencedTensor BackwardWorkload::workspace_for(const Backward& lesson) const {
  const std::size_t bytes = lesson.workspace_bytes(problem());
  FencedTensor workspace(spec_.memory, Dtype::fp32, (bytes + 3) / 4, 1, 0);
  workspace.poison();
  return workspace;
}

std::uint64_t BackwardWorkload::hash_of_untouchables() const {
  return inputs_.x.hash() + inputs_.weight.hash() + rstd_.hash() + dy_.hash() +
         dx_.hash_without_first() +
         (spec_.types.weight ? dweight_.hash_without_first() : dweight_.hash());
}

std::uint64_t BackwardWorkload::hash_of_results() const {
  return dx_.hash_of_first() + dweight_.hash_of_first();
}

void BackwardWorkload::set_x(const std::vector<float>& values) const {
  inputs_.x.set(values);
  compute_rstd(0);
}

void BackwardWorkload::set_dy(const std::vector<float>& values) const {
  dy_.set(values);
}

std::int64_t BackwardWorkload::bytes_to_move() const {
  return static_cast<std::int64_t>(3 * matrix_size(spec_) * bytes_of(spec_.types.dtype));
}

std::size_t BackwardWorkload::bytes(const WorkloadSpec& spec) {
  return 3 * FencedTensor::bytes(spec.types.dtype, matrix_size(spec), spec.sets) +
         2 * FencedTensor::bytes(weight_dtype(spec), spec.hidden, spec.sets) +
         FencedTensor::bytes(Dtype::fp32, spec.rows, spec.sets);
}

}  // namespace rmsnorm
