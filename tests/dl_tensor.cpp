#include "tests/dl_tensor.hpp"

#include <cstring>
#include <numeric>
#include <utility>

#include "common/cuda_check.hpp"
#include "common/half.hpp"
#include "common/random.hpp"

using rmsnorm::Dtype;

namespace tests {
namespace {

std::uint16_t to_half(Dtype dtype, float value) {
  return dtype == Dtype::fp16 ? rmsnorm::float_to_fp16(value) : rmsnorm::float_to_bf16(value);
}

float from_half(Dtype dtype, std::uint16_t bits) {
  return dtype == Dtype::fp16 ? rmsnorm::fp16_to_float(bits) : rmsnorm::bf16_to_float(bits);
}

}  // namespace

DLDataType dl_type(Dtype dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  return {static_cast<std::uint8_t>(dtype == Dtype::bf16 ? kDLBfloat : kDLFloat), bits, 1};
}

int size_of(Dtype dtype) {
  return dtype == Dtype::fp32 ? 4 : 2;
}

DeviceArray::DeviceArray(Dtype dtype, std::int64_t size, std::uint64_t seed)
    : dtype_(dtype), before_(static_cast<std::size_t>(size)) {
  std::vector<std::uint16_t> halves;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    before_[i] = rmsnorm::random_weight(seed, i);
    if (dtype == Dtype::fp32) continue;
    halves.push_back(to_half(dtype, before_[i]));
    before_[i] = from_half(dtype, halves.back());
  }
  const void* const host =
      dtype == Dtype::fp32 ? static_cast<const void*>(before_.data()) : halves.data();
  const std::size_t bytes = before_.size() * size_of(dtype);
  rmsnorm::cuda_check(cudaMalloc(&data_, bytes + 1), "allocating an array");
  rmsnorm::cuda_check(cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice), "filling it");
}

DeviceArray::~DeviceArray() {
  cudaFree(data_);
}

std::vector<float> DeviceArray::now() const {
  rmsnorm::cuda_check(cudaDeviceSynchronize(), "waiting for the kernels");
  std::vector<float> numbers(before_.size());
  std::vector<std::uint16_t> halves(before_.size());
  void* const host = dtype_ == Dtype::fp32 ? static_cast<void*>(numbers.data()) : halves.data();
  const std::size_t bytes = before_.size() * size_of(dtype_);
  rmsnorm::cuda_check(cudaMemcpy(host, data_, bytes, cudaMemcpyDeviceToHost), "reading an array");
  if (dtype_ == Dtype::fp32) return numbers;
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = from_half(dtype_, halves[i]);
  return numbers;
}

std::int64_t Layout::rows() const {
  return std::accumulate(shape.begin(), shape.end() - 1, std::int64_t{1}, std::multiplies<>());
}

std::int64_t Layout::hidden() const {
  return shape.back();
}

std::int64_t Layout::row(std::int64_t number) const {
  std::int64_t element = offset;
  for (std::size_t i = shape.size() - 1; i-- > 0;) {
    element += number % shape[i] * strides[i];
    number /= shape[i];
  }
  return element;
}

Layout contiguous(std::vector<std::int64_t> shape, std::int64_t offset) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
  return {std::move(shape), std::move(strides), offset};
}

DLTensor view_of(const DeviceArray& array, Layout& layout) {
  DLTensor view{};
  view.data = array.data();
  view.device = {kDLCUDA, 0};
  view.ndim = static_cast<int>(layout.shape.size());
  view.dtype = dl_type(array.dtype());
  view.shape = layout.shape.data();
  view.strides = layout.strides.data();
  view.byte_offset = static_cast<std::uint64_t>(layout.offset) * size_of(array.dtype());
  return view;
}

}  // namespace tests
