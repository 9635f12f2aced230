#include "common/buffer.hpp"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

#include "common/cuda_check.hpp"

namespace rmsnorm {
namespace {

constexpr std::align_val_t kAlignment{256};  // what cudaMalloc gives

/// Host memory is not known to CUDA, and on a machine without a GPU no CUDA call works at all.
bool is_device_memory(const void* pointer) {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeDevice;
}

}  // namespace

Buffer::Buffer(Memory memory, std::size_t size) : memory_(memory), size_(size) {
  if (memory == Memory::host) {
    data_ = static_cast<float*>(::operator new(size * sizeof(float), kAlignment));
  } else {
    void* data = nullptr;
    cuda_check(
        cudaMalloc(&data, size * sizeof(float)),
        fmt::format("allocating {:.1f} MiB on the GPU", size * sizeof(float) / 1048576.0));
    data_ = static_cast<float*>(data);
  }
}

Buffer::~Buffer() {
  if (memory_ == Memory::host) {
    ::operator delete(data_, kAlignment);
  } else {
    cudaFree(data_);  // a destructor has nobody to tell; the next checked call reports a lost GPU
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : memory_(other.memory_), size_(other.size_), data_(std::exchange(other.data_, nullptr)) {}

std::vector<float> to_host(const float* from, std::size_t size) {
  std::vector<float> values(size);
  if (size == 0) return values;
  if (is_device_memory(from)) {
    cuda_check(
        cudaMemcpy(values.data(), from, size * sizeof(float), cudaMemcpyDeviceToHost),
        "copying from the GPU");
  } else {
    std::memcpy(values.data(), from, size * sizeof(float));
  }
  return values;
}

void from_host(const std::vector<float>& from, float* to) {
  if (from.empty()) return;
  if (is_device_memory(to)) {
    cuda_check(
        cudaMemcpy(to, from.data(), from.size() * sizeof(float), cudaMemcpyHostToDevice),
        "copying to the GPU");
  } else {
    std::memcpy(to, from.data(), from.size() * sizeof(float));
  }
}

}  // namespace rmsnorm
