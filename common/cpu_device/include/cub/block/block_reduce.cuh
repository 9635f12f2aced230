#pragma once
/// \file
/// The CPU device's stand-in for CUB's header of this name.

#include <cub/warp/warp_reduce.cuh>

namespace cub {

template <class T, int kThreads>
class BlockReduce {
  static constexpr int kWarps = (kThreads + 31) / 32;

 public:
  struct TempStorage {
    T of_warp[kWarps];
  };
  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  /// The result is complete in thread 0.
  template <class Operator>
  T Reduce(T value, Operator reduce, RMSNORM_PLACE) {
    rmsnorm::cpu_device::check_storage(&storage_, place);
    value = WarpReduce<T>::reduce_lanes(value, reduce, place);
    if (threadIdx.x % 32 == 0) storage_.of_warp[threadIdx.x / 32] = value;
    __syncthreads(place);
    if (threadIdx.x == 0) {
      for (int warp = 1; warp < kWarps; ++warp) value = reduce(value, storage_.of_warp[warp]);
    }
    return value;
  }
  T Sum(T value, RMSNORM_PLACE) {
    const auto add = [](const T& a, const T& b) { return a + b; };
    return Reduce(value, add, place);
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
