#pragma once
/// \file
/// The CPU device's stand-in for CUB's header of this name. The algorithms give the same.

#include <cub/warp/warp_reduce.cuh>

namespace cub {

enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS,
};

/// The thread's place in its block.
inline int RowMajorTid(int x, int y, int) {
  return static_cast<int>((threadIdx.z * y + threadIdx.y) * x + threadIdx.x);
}

template <
    class T, int kX, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int kY = 1, int kZ = 1>
class BlockReduce {
  static constexpr int kThreads = kX * kY * kZ;
  static constexpr int kWarps = (kThreads + 31) / 32;

 public:
  struct TempStorage {
    T of_warp[kWarps];
  };
  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  /// The result, of the first `valid` threads, is complete in thread 0.
  template <class Operator>
  __forceinline__ T Reduce(T value, Operator reduce, int valid, RMSNORM_LOCATION) {
    rmsnorm::cpu_device::check_storage(&storage_, location);
    const int thread = RowMajorTid(kX, kY, kZ);
    const int first = thread / 32 * 32;  // of the warp
    value = WarpReduce<T>::reduce_lanes(value, reduce, valid - first, location);
    if (thread == first) storage_.of_warp[thread / 32] = value;
    __syncthreads(location);
    for (int warp = 1; thread == 0 && warp * 32 < valid; ++warp) {
      value = reduce(value, storage_.of_warp[warp]);
    }
    return value;
  }
  template <class Operator>
  __forceinline__ T Reduce(T value, Operator reduce, RMSNORM_LOCATION) {
    return Reduce(value, reduce, kThreads, location);
  }
  template <int kItems, class Operator>
  __forceinline__ T Reduce(T (&values)[kItems], Operator reduce, RMSNORM_LOCATION) {
    T value = values[0];
    for (int i = 1; i < kItems; ++i) value = reduce(value, values[i]);
    return Reduce(value, reduce, kThreads, location);
  }
  __forceinline__ T Sum(T value, int valid, RMSNORM_LOCATION) {
    return Reduce(value, cub::Sum(), valid, location);
  }
  __forceinline__ T Sum(T value, RMSNORM_LOCATION) {
    return Reduce(value, cub::Sum(), kThreads, location);
  }
  template <int kItems>
  __forceinline__ T Sum(T (&values)[kItems], RMSNORM_LOCATION) {
    return Reduce(values, cub::Sum(), location);
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
