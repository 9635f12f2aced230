#include "common/tensors/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "common/base/cuda_check.hpp"
#include "common/contract/expected.hpp"

namespace rmsnorm {
namespace {

GuardedTensor make_tensor(
    const TensorSpec& tensor, const WorkloadSpec& spec, int sets, int misalign) {
  return {
      spec.memory, dtype_of(tensor, spec.types), size_of(tensor, spec.rows, spec.hidden), sets,
      misalign};
}

/// The random numbers of a tensor that is read.
void fill(const GuardedTensor& to, const TensorSpec& tensor, const WorkloadSpec& spec) {
  const Content guard = is_written(tensor) ? Content::poison : Content::nan;
  to.fill(content_of(tensor), spec.seed ^ tensor.salt, spec.hidden, guard);
}

/// Poison where it is written, NaN elsewhere.
void fill_empty(const GuardedTensor& to, const TensorSpec& tensor) {
  to.fill(is_written(tensor) ? Content::poison : Content::nan);
}

const char* size_in_words(const TensorSpec& tensor) {
  switch (tensor.extent) {
    case Extent::matrix:
      return "rows * hidden";
    case Extent::row:
      return "hidden";
    case Extent::column:
      return "rows";
    case Extent::groups:
      return "rows * groups";
    case Extent::one:
      return "1";
  }
  return "";
}

}  // namespace

Workload::Workload(const Operation& operation, const WorkloadSpec& spec)
    : operation_(operation), spec_(spec) {
  if (!spec.types.weight && spec.types.weight_bias != 0) {
    throw std::runtime_error(fmt::format(
        "weight_bias is {}, and there is no weight: it needs to be 0", spec.types.weight_bias));
  }
  allocate();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorSpec& tensor = operation.tensors[i];
    if (before_[i]) rmsnorm::fill(*before_[i], tensor, spec);
    const bool is_random = tensor.role == Role::input || before_[i];
    is_random ? rmsnorm::fill(tensors_[i], tensor, spec) : fill_empty(tensors_[i], tensor);
  }
  for (int set = 0; set < spec.sets; ++set) operation.derive(problem(set), spec.memory);
}

Workload::Workload(const Workload& other, Elsewhere)
    : operation_(other.operation_), spec_(other.spec_), is_random_(other.is_random_) {
  allocate();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    fill_empty(tensors_[i], operation_.tensors[i]);
    if (before_[i]) before_[i]->fill(Content::nan);
  }
}

void Workload::allocate() {
  int first = spec_.misalign;
  for (const TensorSpec& tensor : operation_.tensors) {
    const bool is_shifted = std::ssize(tensors_) == spec_.shifted;
    const int misalign = first + (is_shifted ? 1 : 0);
    tensors_.push_back(make_tensor(tensor, spec_, spec_.sets, misalign));
    before_.emplace_back();
    if (tensor.role == Role::in_place) {
      before_.back().emplace(make_tensor(tensor, spec_, 1, misalign));
    }
    first += spec_.spread;
  }
}

Workload Workload::moved() const {
  return {*this, Elsewhere()};
}

void Workload::take(const Workload& from, cudaStream_t stream) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!is_read(operation_.tensors[i])) continue;
    const GuardedTensor& source = from.before_[i] ? *from.before_[i] : from.tensors_[i];
    const std::size_t bytes = source.size() * bytes_of(source.dtype());
    if (before_[i]) copy_bytes(before_[i]->data(), source.data(), bytes);
    cuda_check(
        cudaMemcpyAsync(tensors_[i].data(), source.data(), bytes, cudaMemcpyDeviceToDevice, stream),
        "moving an input");
    if (from.before_[i]) continue;
    cuda_check(cudaMemsetAsync(source.data(), 0xff, bytes, stream), "clearing an input");
  }
}

Problem Workload::problem(int set) const {
  Problem p;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (is_there(operation_.tensors[i], spec_.types)) p.tensors[i] = tensors_[i].data(set);
  }
  p.rows = spec_.rows;
  p.hidden = spec_.hidden;
  p.eps = spec_.eps;
  p.weight_bias = spec_.types.weight_bias;
  p.dtype = spec_.types.dtype;
  p.weight_dtype = spec_.types.weight.value_or(spec_.types.dtype);
  p.has_weight = spec_.types.weight.has_value();
  return p;
}

Problem Workload::before() const {
  Problem p = problem();
  for (std::size_t i = 0; i < before_.size(); ++i) {
    if (before_[i]) p.tensors[i] = before_[i]->data();
  }
  return p;
}

const GuardedTensor& Workload::tensor(std::string_view name) const {
  return tensors_[operation_.index_of(name)];
}

void Workload::set(std::string_view name, const std::vector<float>& values) const {
  const int i = operation_.index_of(name);
  tensors_[i].set(values);
  if (before_[i]) before_[i]->set(values);
  is_random_ = false;
  operation_.derive(problem(), spec_.memory);
}

void Workload::reset() const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const GuardedTensor& tensor = tensors_[i];
    if (before_[i]) {
      copy_bytes(tensor.data(), before_[i]->data(), tensor.size() * bytes_of(tensor.dtype()));
    } else if (is_written(operation_.tensors[i])) {
      tensor.fill(Content::poison);
    }
  }
}

std::uint64_t Workload::hash_of_untouchables() const {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorSpec& tensor = operation_.tensors[i];
    const bool may_change = is_written(tensor) && is_there(tensor, spec_.types);
    hash += may_change ? tensors_[i].hash_without_first() : tensors_[i].hash();
  }
  return hash;
}

std::uint64_t Workload::hash_of_results() const {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (is_written(operation_.tensors[i])) hash += tensors_[i].hash_of_first();
  }
  return hash;
}

std::string Workload::complaint_about_guards() const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorSpec& tensor = operation_.tensors[i];
    if (!is_written(tensor)) continue;
    std::string complaint =
        rmsnorm::complaint_about_guards(tensors_[i], tensor.name, size_in_words(tensor));
    if (!complaint.empty()) return complaint;
  }
  return "";
}

std::int64_t Workload::bytes_to_move() const {
  return rmsnorm::bytes_to_move(operation_, spec_.rows, spec_.hidden, spec_.types);
}

std::size_t Workload::bytes(const Operation& operation, const WorkloadSpec& spec) {
  std::size_t bytes = 0;
  for (const TensorSpec& tensor : operation.tensors) {
    const Dtype dtype = dtype_of(tensor, spec.types);
    const std::size_t size = size_of(tensor, spec.rows, spec.hidden);
    bytes += GuardedTensor::bytes(dtype, size, spec.sets);
    if (tensor.role == Role::in_place) bytes += GuardedTensor::bytes(dtype, size, 1);
  }
  return bytes;
}

Content content_of(const TensorSpec& tensor) {
  if (tensor.extent == Extent::one) return Content::scale;
  return tensor.extent == Extent::matrix ? Content::x : Content::weight;
}

GuardedTensor make_workspace(Memory memory, std::size_t bytes) {
  GuardedTensor workspace(memory, Dtype::fp32, (bytes + 3) / 4, 1, 0);
  workspace.fill(Content::poison);
  return workspace;
}

std::string complaint_about_guards(
    const GuardedTensor& tensor, std::string_view name, std::string_view size) {
  for (const int side : {0, 1}) {
    const std::size_t elements = GuardedTensor::kGuardBytes / bytes_of(tensor.dtype());
    const std::vector<float> guard = to_floats(tensor.guard(side), tensor.dtype(), elements);
    const auto is_overwritten = [](float value) { return !is_poison(value); };
    const auto overwritten = std::count_if(guard.begin(), guard.end(), is_overwritten);
    if (overwritten == 0) continue;
    const auto first = std::find_if(guard.begin(), guard.end(), is_overwritten) - guard.begin();
    return side == 0 ? fmt::format("wrote {} elements before the start of {}", overwritten, name)
                     : fmt::format(
                           "wrote {} elements after the end of {}, the first at {}[{} + {}]",
                           overwritten, name, name, size, first);
  }
  return "";
}

}  // namespace rmsnorm
