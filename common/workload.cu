#include <algorithm>
#include <cstring>

#include "common/cuda_check.hpp"
#include "common/device_kernels.hpp"
#include "common/element_check.hpp"
#include "common/random.hpp"
#include "common/workload.hpp"

namespace rmsnorm {
namespace {

enum class Content { x, weight, nan, poison };

/// Element i of a tensor (rows, hidden) of the given content.
__host__ __device__ float element(
    Content content, std::uint64_t seed, std::uint64_t i, std::uint64_t hidden) {
  if (content == Content::x) return random_x(seed, i / hidden, i % hidden, hidden);
  if (content == Content::weight) return random_weight(seed, i);
  const std::uint32_t bits = content == Content::nan ? 0x7fc00000 : kPoisonBits;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

__global__ void fill_on_device(
    float* to, std::size_t size, Content content, std::uint64_t seed, std::uint64_t hidden) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step) {
    to[i] = element(content, seed, i, hidden);
  }
}

void fill(
    Memory memory, float* to, std::size_t size, Content content, std::uint64_t seed = 0,
    int hidden = 1) {
  if (size == 0) return;
  if (memory == Memory::device) {
    constexpr int kThreads = 256;
    const auto blocks = static_cast<unsigned>(std::min<std::size_t>(size / kThreads + 1, 4096));
    fill_on_device<<<blocks, kThreads>>>(to, size, content, seed, hidden);
    cuda_check(cudaGetLastError(), "filling a tensor");
  } else {
    for (std::size_t i = 0; i < size; ++i) to[i] = element(content, seed, i, hidden);
  }
}

/// Floats from the start of one set's tensor to the next's: the tensor, up to a 256-byte boundary,
/// one more such step for a misaligned start, and a guard.
std::size_t stride_of(std::size_t size) {
  return (size + 63) / 64 * 64 + 64 + Workload::kGuard;
}

std::size_t matrix_size(int rows, int hidden) {
  return static_cast<std::size_t>(rows) * hidden;
}

}  // namespace

Workload::Workload(const WorkloadSpec& spec)
    : spec_(spec),
      matrix_stride_(stride_of(matrix_size(spec.rows, spec.hidden))),
      vector_stride_(stride_of(spec.hidden)),
      x_(spec.memory, kGuard + matrix_stride_ * spec.sets),
      weight_(spec.memory, kGuard + vector_stride_ * spec.sets),
      y_(spec.memory, kGuard + matrix_stride_ * spec.sets) {
  fill(spec.memory, x_.data(), x_.size(), Content::nan);
  fill(spec.memory, weight_.data(), weight_.size(), Content::nan);
  for (int set = 0; set < spec.sets; ++set) {
    const Problem p = problem(set);
    const std::uint64_t seed = spec.seed + set;
    fill(
        spec.memory, const_cast<float*>(p.x), matrix_size(p.rows, p.hidden), Content::x, seed,
        p.hidden);
    fill(spec.memory, const_cast<float*>(p.weight), p.hidden, Content::weight, seed);
  }
  poison_y();
}

Problem Workload::problem(int set) const {
  const std::size_t matrix = kGuard + matrix_stride_ * set + spec_.misalign;
  const std::size_t vector = kGuard + vector_stride_ * set + spec_.misalign;
  return Problem{
      .x = x_.data() + matrix,
      .weight = weight_.data() + vector,
      .y = y_.data() + matrix,
      .rows = spec_.rows,
      .hidden = spec_.hidden,
      .eps = spec_.eps};
}

void Workload::poison_y() const {
  fill(spec_.memory, y_.data(), y_.size(), Content::poison);
  if (spec_.memory == Memory::device) cuda_check(cudaDeviceSynchronize(), "filling y");
}

const float* Workload::y_guard(int side) const {
  const Problem p = problem();
  return side == 0 ? p.y - kGuard : p.y + matrix_size(p.rows, p.hidden);
}

std::uint64_t Workload::hash(const float* data, std::size_t size) const {
  if (spec_.memory == Memory::host) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < size; ++i) {
      std::uint32_t bits;
      memcpy(&bits, data + i, sizeof bits);
      sum += random_bits(bits, i);
    }
    return sum;
  }
  unsigned long long sum = 0;
  const Buffer on_device(Memory::device, sizeof sum / sizeof(float));
  auto* device_sum = reinterpret_cast<unsigned long long*>(on_device.data());
  cuda_check(cudaMemset(device_sum, 0, sizeof sum), "preparing a check of the memory");
  cuda_check(launch_hash(data, size, device_sum, nullptr), "checking the memory");
  cuda_check(
      cudaMemcpy(&sum, device_sum, sizeof sum, cudaMemcpyDeviceToHost), "checking the memory");
  return sum;
}

std::uint64_t Workload::hash_of_untouchables() const {
  const Problem p = problem();
  const auto y_begin = static_cast<std::size_t>(p.y - y_.data());
  const std::size_t y_end = y_begin + matrix_size(p.rows, p.hidden);
  return hash(x_.data(), x_.size()) + hash(weight_.data(), weight_.size()) +
         hash(y_.data(), y_begin) + hash(y_.data() + y_end, y_.size() - y_end);
}

void Workload::set_x(const std::vector<float>& values) const {
  from_host(values, const_cast<float*>(problem().x));
}

void Workload::set_weight(const std::vector<float>& values) const {
  from_host(values, const_cast<float*>(problem().weight));
}

std::size_t Workload::bytes(int rows, int hidden, int sets) {
  const std::size_t one_set = 2 * stride_of(matrix_size(rows, hidden)) + stride_of(hidden);
  return (3 * kGuard + one_set * sets) * sizeof(float);
}

}  // namespace rmsnorm
