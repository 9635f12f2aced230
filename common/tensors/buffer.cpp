#include "common/tensors/buffer.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "common/base/cuda_check.hpp"

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

Buffer::Buffer(Memory memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {
  if (memory == Memory::host) {
    data_ = static_cast<std::byte*>(::operator new(bytes, kAlignment));
  } else {
    void* data = nullptr;
    cuda_check(
        cudaMalloc(&data, bytes),
        fmt::format("allocating {:.1f} MiB on the GPU", static_cast<double>(bytes) / 0x1p20));
    data_ = static_cast<std::byte*>(data);
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
    : memory_(other.memory_), bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (is_device_memory(from) || is_device_memory(to)) {
    cuda_check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copying to or from the GPU");
  } else {
    std::memcpy(to, from, bytes);
  }
}

std::vector<float> to_floats(const void* from, Dtype dtype, std::size_t size) {
  std::vector<std::byte> bytes(size * bytes_of(dtype));
  copy_bytes(bytes.data(), from, bytes.size());
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = value_at(bytes.data(), dtype, i);
  return values;
}

void from_floats(const std::vector<float>& from, void* to, Dtype dtype) {
  std::vector<std::byte> bytes(from.size() * bytes_of(dtype));
  for (std::size_t i = 0; i < from.size(); ++i) {
    set_bits(bytes.data(), dtype, i, bits_of(dtype, from[i]));
  }
  copy_bytes(to, bytes.data(), bytes.size());
}

}  // namespace rmsnorm
