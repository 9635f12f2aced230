#pragma once
/// \file
/// Turns error codes of the CUDA runtime into exceptions.

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace rmsnorm {

/// A call of the CUDA runtime failed. what() is one sentence: what was tried and CUDA's reason.
class CudaError : public std::runtime_error {
 public:
  /// An error of a call, with its message.
  /// \param code what the call returned
  /// \param doing what was tried, for the message
  CudaError(cudaError_t code, const std::string& doing)
      : std::runtime_error(doing + ": " + cudaGetErrorString(code)), code_(code) {}
  cudaError_t code() const { return code_; }  ///< what the call returned

 private:
  cudaError_t code_;
};

/// Turns an error into an exception. `doing` says what was tried: "allocating 4 GiB".
/// \throws CudaError unless code is cudaSuccess
inline void cuda_check(cudaError_t code, const std::string& doing) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // the runtime also remembers the error: it must not surface a second time
  throw CudaError(code, doing);
}

}  // namespace rmsnorm
