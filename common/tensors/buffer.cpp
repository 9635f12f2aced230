#include "common/tensors/buffer.hpp"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "common/base/cuda_check.hpp"

namespace rmsnorm {
namespace {

constexpr std::align_val_t kAlignment{256};  // what cudaMalloc gives

void free_on_host(std::byte* data) {
  ::operator delete(data, kAlignment);
}

void free_on_device(std::byte* data) {
  cudaFree(data);  // nobody can be told of an error; the next checked call reports a lost GPU
}

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

Buffer::Buffer(Memory memory, std::size_t bytes)
    : bytes_(bytes), data_(nullptr, memory == Memory::host ? free_on_host : free_on_device) {
  if (memory == Memory::host) {
    data_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
    return;
  }
  void* data = nullptr;
  cuda_check(
      cudaMalloc(&data, bytes),
      fmt::format("allocating {:.1f} MiB on the GPU", static_cast<double>(bytes) / 0x1p20));
  data_.reset(static_cast<std::byte*>(data));
}

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
