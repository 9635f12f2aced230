#pragma once
/// \file
/// Memory on the host or on the device that frees itself.

#include <cstddef>
#include <vector>

#include "common/lesson.hpp"

namespace rmsnorm {

/// An array of floats in one of the two memories. Moves, does not copy.
class Buffer {
 public:
  /// Takes memory for `size` floats, whose values are anything. \throws CudaError, or
  /// std::bad_alloc, if there is not enough.
  Buffer(Memory memory, std::size_t size);
  ~Buffer();                             ///< frees the memory
  Buffer(Buffer&& other) noexcept;       ///< takes the memory over
  Buffer& operator=(Buffer&&) = delete;  ///< a buffer keeps its memory

  float* data() const { return data_; }       ///< the first element
  std::size_t size() const { return size_; }  ///< floats
  Memory memory() const { return memory_; }   ///< where they lie

 private:
  Memory memory_;
  std::size_t size_;
  float* data_ = nullptr;
};

/// Copies `size` floats from either memory to the host, after all work on the device has ended.
std::vector<float> to_host(const float* from, std::size_t size);

/// Copies floats from the host to either memory.
void from_host(const std::vector<float>& from, float* to);

}  // namespace rmsnorm
