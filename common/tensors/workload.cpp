#include "common/tensors/workload.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "common/contract/regime.hpp"

namespace rmsnorm {

FencedTensor matrix_of(const WorkloadSpec& spec) {
  return {spec.memory, spec.types.dtype, matrix_size(spec), spec.sets, spec.misalign};
}

FencedTensor weights_of(const WorkloadSpec& spec) {
  const auto size = static_cast<std::size_t>(spec.hidden);
  return {spec.memory, weight_dtype(spec), size, spec.sets, spec.misalign};
}

WorkloadInputs::WorkloadInputs(const WorkloadSpec& spec)
    : x(matrix_of(spec)), weight(weights_of(spec)) {
  if (!spec.types.weight && spec.types.weight_bias != 0) {
    throw std::runtime_error(fmt::format(
        "weight_bias is {}, and there is no weight: it needs to be 0", spec.types.weight_bias));
  }
  x.fill(Content::x, spec.seed, spec.hidden);
  weight.fill(Content::weight, spec.seed, spec.hidden);
}

Workload::Workload(const WorkloadSpec& spec) : spec_(spec), inputs_(spec), y_(matrix_of(spec)) {
  if (spec.residual) {
    residual_.emplace(matrix_of(spec));
    residual_->fill(Content::residual, spec.seed, spec.hidden);
    WorkloadSpec one_set = spec;
    one_set.sets = 1;
    residual_before_.emplace(matrix_of(one_set));
    residual_before_->fill(Content::residual, spec.seed, spec.hidden);
  }
  y_.poison();
}

TypedProblem Workload::typed_problem(int set) const {
  auto p = inputs_.problem<TypedProblem>(spec_, set);
  p.y = y_.data(set);
  p.residual = residual_ ? residual_->data(set) : nullptr;
  p.eps = spec_.eps;
  return p;
}

Problem Workload::problem(int set) const {
  return Problem{
      .x = static_cast<const float*>(inputs_.x.data(set)),
      .weight = static_cast<const float*>(inputs_.weight.data(set)),
      .y = static_cast<float*>(y_.data(set)),
      .rows = spec_.rows,
      .hidden = spec_.hidden,
      .eps = spec_.eps};
}

void Workload::restore_residual() const {
  if (!residual_) return;
  copy_bytes(
      residual_->data(), residual_before(), residual_->size() * bytes_of(residual_->dtype()));
}

const void* Workload::residual_before() const {
  return residual_before_ ? residual_before_->data() : nullptr;
}

std::uint64_t Workload::hash_of_untouchables() const {
  return inputs_.x.hash() + inputs_.weight.hash() + y_.hash_without_first() +
         (residual_ ? residual_->hash_without_first() : 0);
}

void Workload::set_x(const std::vector<float>& values) const {
  inputs_.x.set(values);
}

void Workload::set_weight(const std::vector<float>& values) const {
  inputs_.weight.set(values);
}

void Workload::set_residual(const std::vector<float>& values) const {
  if (!residual_) return;
  residual_before_->set(values);
  restore_residual();
}

std::int64_t Workload::bytes_to_move() const {
  return bytes_of_rows({spec_.rows, spec_.hidden}, spec_.types.dtype, spec_.residual);
}

std::size_t Workload::bytes(const WorkloadSpec& spec) {
  const Dtype dtype = spec.types.dtype;
  const std::size_t matrices =
      (spec.residual ? 3 : 2) * FencedTensor::bytes(dtype, matrix_size(spec), spec.sets);
  return matrices + FencedTensor::bytes(weight_dtype(spec), spec.hidden, spec.sets) +
         (spec.residual ? FencedTensor::bytes(dtype, matrix_size(spec), 1) : 0);
}

}  // namespace rmsnorm
