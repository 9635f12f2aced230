#pragma once
/// \file
/// A stream that lives as long as its owner.

#include <cuda_runtime.h>

#include "common/base/cuda_check.hpp"

namespace rmsnorm {

/// A stream that does not wait for the default stream, nor makes it wait.
class OwnStream {
 public:
  /// Creates it. \throws CudaError
  OwnStream() {
    cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  }
  ~OwnStream() { cudaStreamDestroy(stream_); }      ///< destroys it
  OwnStream(const OwnStream&) = delete;             ///< it has one owner
  OwnStream& operator=(const OwnStream&) = delete;  ///< likewise

  cudaStream_t get() const { return stream_; }  ///< the stream

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace rmsnorm
