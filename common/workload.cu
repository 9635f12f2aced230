#include <algorithm>

#include "common/cuda_check.hpp"
#include "common/device_kernels.hpp"
#include "common/element_check.hpp"
#include "common/random.hpp"
#include "common/workload.hpp"

namespace rmsnorm {
namespace {

enum class Content { x, weight, residual, nan, poison };

/// Element i of a tensor (rows, hidden) of the given content, as the bits of its type.
__host__ __device__ std::uint32_t element(
    Content content, Dtype dtype, std::uint64_t seed, std::uint64_t i, std::uint64_t hidden) {
  constexpr std::uint64_t kResidual = 0x4e51d;  // another seed than that of x
  if (content == Content::x) return bits_of(dtype, random_x(seed, i / hidden, i % hidden, hidden));
  if (content == Content::weight) return bits_of(dtype, random_weight(seed, i));
  if (content == Content::residual) {
    return bits_of(dtype, random_x(seed ^ kResidual, i / hidden, i % hidden, hidden));
  }
  return content == Content::nan ? bits_of(dtype, float_of(0x7fc00000)) : poison_bits(dtype);
}

__global__ void fill_on_device(
    void* to, std::size_t size, Content content, Dtype dtype, std::uint64_t seed,
    std::uint64_t hidden) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step) {
    set_bits(to, dtype, i, element(content, dtype, seed, i, hidden));
  }
}

void fill(
    Memory memory, void* to, std::size_t size, Content content, Dtype dtype, std::uint64_t seed = 0,
    int hidden = 1) {
  if (size == 0) return;
  if (memory == Memory::device) {
    constexpr int kThreads = 256;
    const auto blocks = static_cast<unsigned>(std::min<std::size_t>(size / kThreads + 1, 4096));
    fill_on_device<<<blocks, kThreads>>>(to, size, content, dtype, seed, hidden);
    cuda_check(cudaGetLastError(), "filling a tensor");
  } else {
    for (std::size_t i = 0; i < size; ++i) {
      set_bits(to, dtype, i, element(content, dtype, seed, i, hidden));
    }
  }
}

/// Bytes from the start of one set's tensor to the next's: the tensor, up to a 256-byte boundary,
/// one more such step for a misaligned start, and a guard.
std::size_t stride_of(Dtype dtype, std::size_t size) {
  return (size * bytes_of(dtype) + 255) / 256 * 256 + 256 + Workload::kGuardBytes;
}

std::size_t matrix_size(const WorkloadSpec& spec) {
  return static_cast<std::size_t>(spec.rows) * spec.hidden;
}

Dtype weight_dtype(const WorkloadSpec& spec) {
  return spec.types.weight.value_or(spec.types.dtype);
}

}  // namespace

Workload::Tensors Workload::allocate(
    const WorkloadSpec& spec, Dtype dtype, std::size_t size, int sets) {
  const std::size_t stride = stride_of(dtype, size);
  return {dtype, size, stride, Buffer(spec.memory, kGuardBytes + stride * sets)};
}

Workload::Workload(const WorkloadSpec& spec)
    : spec_(spec),
      x_(allocate(spec, spec.types.dtype, matrix_size(spec), spec.sets)),
      weight_(allocate(spec, weight_dtype(spec), spec.hidden, spec.sets)),
      y_(allocate(spec, spec.types.dtype, matrix_size(spec), spec.sets)) {
  const auto fill_all = [&](const Tensors& tensors, Content content) {
    fill(
        spec.memory, tensors.buffer.data(), tensors.buffer.bytes() / bytes_of(tensors.dtype),
        Content::nan, tensors.dtype);
    for (int set = 0; set < spec.sets; ++set) {
      fill(
          spec.memory, tensor(tensors, set), tensors.size, content, tensors.dtype, spec.seed + set,
          spec.hidden);
    }
  };
  fill_all(x_, Content::x);
  fill_all(weight_, Content::weight);
  if (spec.residual) {
    residual_.emplace(allocate(spec, spec.types.dtype, matrix_size(spec), spec.sets));
    fill_all(*residual_, Content::residual);
    residual_before_.emplace(allocate(spec, spec.types.dtype, matrix_size(spec), 1));
    fill(
        spec.memory, tensor(*residual_before_, 0), residual_before_->size, Content::residual,
        spec.types.dtype, spec.seed, spec.hidden);
  }
  poison_y();
}

void* Workload::tensor(const Tensors& tensors, int set) const {
  const std::size_t offset =
      kGuardBytes + tensors.stride * set + spec_.misalign * bytes_of(tensors.dtype);
  return tensors.buffer.data() + offset;
}

TypedProblem Workload::typed_problem(int set) const {
  TypedProblem p;
  p.x = tensor(x_, set);
  p.weight = spec_.types.weight ? tensor(weight_, set) : nullptr;
  p.y = tensor(y_, set);
  p.residual = residual_ ? tensor(*residual_, set) : nullptr;
  p.rows = spec_.rows;
  p.hidden = spec_.hidden;
  p.eps = spec_.eps;
  p.weight_bias = spec_.types.weight_bias;
  p.dtype = spec_.types.dtype;
  p.weight_dtype = weight_.dtype;
  return p;
}

Problem Workload::problem(int set) const {
  return Problem{
      .x = static_cast<const float*>(tensor(x_, set)),
      .weight = static_cast<const float*>(tensor(weight_, set)),
      .y = static_cast<float*>(tensor(y_, set)),
      .rows = spec_.rows,
      .hidden = spec_.hidden,
      .eps = spec_.eps};
}

void Workload::poison_y() const {
  fill(
      spec_.memory, y_.buffer.data(), y_.buffer.bytes() / bytes_of(y_.dtype), Content::poison,
      y_.dtype);
  if (spec_.memory == Memory::device) cuda_check(cudaDeviceSynchronize(), "filling y");
}

void Workload::restore_residual() const {
  if (!residual_) return;
  copy_bytes(
      tensor(*residual_, 0), residual_before(), residual_->size * bytes_of(residual_->dtype));
}

const void* Workload::residual_before() const {
  return residual_before_ ? tensor(*residual_before_, 0) : nullptr;
}

const void* Workload::y_guard(int side) const {
  const auto* y = static_cast<const std::byte*>(tensor(y_, 0));
  return side == 0 ? y - kGuardBytes : y + y_.size * bytes_of(y_.dtype);
}

std::uint64_t Workload::hash(const void* data, std::size_t bytes) const {
  if (spec_.memory == Memory::host) {
    std::uint64_t sum = 0;
    const auto* halves = static_cast<const std::uint16_t*>(data);
    for (std::size_t i = 0; i < bytes / 2; ++i) sum += random_bits(halves[i], i);
    return sum;
  }
  unsigned long long sum = 0;
  const Buffer on_device(Memory::device, sizeof sum);
  auto* device_sum = reinterpret_cast<unsigned long long*>(on_device.data());
  cuda_check(cudaMemset(device_sum, 0, sizeof sum), "preparing a check of the memory");
  cuda_check(launch_hash(data, bytes, device_sum, nullptr), "checking the memory");
  cuda_check(
      cudaMemcpy(&sum, device_sum, sizeof sum, cudaMemcpyDeviceToHost), "checking the memory");
  return sum;
}

/// A hash of the sets but for the first, and of all guards.
std::uint64_t Workload::hash_without_first(const Tensors& tensors) const {
  const std::byte* const first = static_cast<const std::byte*>(tensor(tensors, 0));
  const std::byte* const after = first + tensors.size * bytes_of(tensors.dtype);
  const std::byte* const begin = tensors.buffer.data();
  return hash(begin, first - begin) + hash(after, begin + tensors.buffer.bytes() - after);
}

std::uint64_t Workload::hash_of_untouchables() const {
  return hash(x_.buffer.data(), x_.buffer.bytes()) +
         hash(weight_.buffer.data(), weight_.buffer.bytes()) + hash_without_first(y_) +
         (residual_ ? hash_without_first(*residual_) : 0);
}

void Workload::set_x(const std::vector<float>& values) const {
  from_floats(values, tensor(x_, 0), x_.dtype);
}

void Workload::set_weight(const std::vector<float>& values) const {
  from_floats(values, tensor(weight_, 0), weight_.dtype);
}

std::size_t Workload::bytes(const WorkloadSpec& spec) {
  const std::size_t matrix = stride_of(spec.types.dtype, matrix_size(spec));
  const int matrices = spec.residual ? 3 : 2;
  const std::size_t one_set = matrices * matrix + stride_of(weight_dtype(spec), spec.hidden);
  return (matrices + 1) * kGuardBytes + one_set * spec.sets + (spec.residual ? matrix : 0);
}

}  // namespace rmsnorm
