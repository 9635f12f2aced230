#pragma once
/// \file
/// Errors: those that calls return and leave behind, and those that a kernel has left.

#include <string>
#include <utility>
#include <vector>

#include "common/cpu_device/runtime/runtime_api.hpp"

namespace rmsnorm::cpu_device {

/// The errors of a device.
class Errors {
 public:
  /// Notes an error that is nobody's mistake here, and returns it.
  cudaError_t note(cudaError_t error);
  /// Notes an error with the reason, "cudaFree(): ...", and returns it.
  cudaError_t refuse(cudaError_t error, std::string why);
  /// Which call was refused last, where, and why: "FILE:LINE: cudaFree(): ..."; "" if none has been
  /// since the last call of this function.
  std::string take_refused();

  cudaError_t last() const { return last_; }                             ///< that was noted
  cudaError_t take_last() { return std::exchange(last_, cudaSuccess); }  ///< it is no longer there

  /// A kernel could not go on: the next call that waits for it returns this.
  void set_fault(cudaError_t error) { fault_ = error; }
  bool has_fault() const { return fault_ != cudaSuccess; }  ///< whether one could not
  /// What a kernel left behind shows once, to the first who waits for it. (On a GPU it would stay.)
  cudaError_t take_fault() { return note(std::exchange(fault_, cudaSuccess)); }

  /// Lets a call fail, after so many others that are made from now on; if -1, none.
  void let_fail(int calls_before);
  bool has_to_fail(const char* call);    ///< whether this call is the one
  std::string call_that_failed() const;  ///< that one: "FILE:LINE: cudaMalloc()"

 private:
  /// A call that did not do what it was asked for.
  struct FailedCall {
    std::string why = {};  ///< "cudaFree(): ..."; "": there was none
    std::vector<const void*> backtrace = {};
  };
  static std::string text_of(const FailedCall& call);

  cudaError_t last_ = cudaSuccess;
  cudaError_t fault_ = cudaSuccess;
  FailedCall refused_;
  int calls_until_failure_ = -1;  // none is to come
  FailedCall made_to_fail_;
};

}  // namespace rmsnorm::cpu_device
