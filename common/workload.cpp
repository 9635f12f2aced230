#include "common/workload.hpp"

#include "common/regime.hpp"

namespace rmsnorm {
namespace {

FencedTensor matrix_of(const WorkloadSpec& spec, int sets) {
  return {spec.memory, spec.types.dtype, matrix_size(spec), sets, spec.misalign};
}

}  // namespace

Workload::Workload(const WorkloadSpec& spec)
    : spec_(spec),
      x_(matrix_of(spec, spec.sets)),
      weight_(spec.memory, weight_dtype(spec), spec.hidden, spec.sets, spec.misalign),
      y_(matrix_of(spec, spec.sets)) {
  x_.fill(Content::x, spec.seed, spec.hidden);
  weight_.fill(Content::weight, spec.seed, spec.hidden);
  if (spec.residual) {
    residual_.emplace(matrix_of(spec, spec.sets));
    residual_->fill(Content::residual, spec.seed, spec.hidden);
    residual_before_.emplace(matrix_of(spec, 1));
    residual_before_->fill(Content::residual, spec.seed, spec.hidden);
  }
  y_.poison();
}

TypedProblem Workload::typed_problem(int set) const {
  TypedProblem p;
  p.x = x_.data(set);
  p.weight = spec_.types.weight ? weight_.data(set) : nullptr;
  p.y = y_.data(set);
  p.residual = residual_ ? residual_->data(set) : nullptr;
  p.rows = spec_.rows;
  p.hidden = spec_.hidden;
  p.eps = spec_.eps;
  p.weight_bias = spec_.types.weight_bias;
  p.dtype = spec_.types.dtype;
  p.weight_dtype = weight_.dtype();
  return p;
}

Problem Workload::problem(int set) const {
  return Problem{
      .x = static_cast<const float*>(x_.data(set)),
      .weight = static_cast<const float*>(weight_.data(set)),
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
  return x_.hash() + weight_.hash() + y_.hash_without_first() +
         (residual_ ? residual_->hash_without_first() : 0);
}

void Workload::set_x(const std::vector<float>& values) const {
  x_.set(values);
}

void Workload::set_weight(const std::vector<float>& values) const {
  weight_.set(values);
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
