#pragma once
/// \file
/// Memory on the host or on the device that frees itself.

#include <cstddef>
#include <memory>
#include <vector>

#include "common/contract/problem.hpp"

namespace rmsnorm {

/// Bytes in one of the two memories. Moves, does not copy.
class Buffer {
 public:
  /// Takes memory for so many bytes, whose values are anything. \throws CudaError, or
  /// std::bad_alloc, if there is not enough.
  Buffer(Memory memory, std::size_t bytes);
  std::byte* data() const { return data_.get(); }  ///< the first byte, at a multiple of 256
  std::size_t bytes() const { return bytes_; }     ///< how many

 private:
  std::size_t bytes_;
  std::unique_ptr<std::byte, void (*)(std::byte*)> data_;
};

/// Copies bytes between the two memories, or within one, after all work on the device has ended.
void copy_bytes(void* to, const void* from, std::size_t bytes);

/// The values of `size` elements in either memory, likewise.
std::vector<float> to_floats(const void* from, Dtype dtype, std::size_t size);

/// Copies floats from the host to either memory, rounded to a type.
void from_floats(const std::vector<float>& from, void* to, Dtype dtype);

}  // namespace rmsnorm
