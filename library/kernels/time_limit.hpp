#pragma once
/// \file
/// A wait that ends.

#include <cuda_runtime.h>

#include <cstdint>

namespace rmsnorm::kernels {

/// Says when a wait has taken too long. Where there is no clock, as on the CPU device, a question
/// takes a microsecond.
class TimeLimit {
 public:
  __device__ explicit TimeLimit(std::uint64_t nanoseconds) : end_(nanoseconds) { end_ += now(); }
  __device__ bool is_over() { return now() > end_; }

 private:
  __device__ std::uint64_t now() {
#ifdef __CUDA_ARCH__
    std::uint64_t time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
#else
    return asked_ += 1000;
#endif
  }
  std::uint64_t end_;
  [[maybe_unused]] std::uint64_t asked_ = 0;
};

}  // namespace rmsnorm::kernels
