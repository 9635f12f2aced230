#pragma once
/// \file
/// The CPU device's stand-in for CUB's header of this name. The algorithms give the same.

#include <cub/block/block_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

namespace cub {

enum BlockScanAlgorithm {
  BLOCK_SCAN_RAKING,
  BLOCK_SCAN_RAKING_MEMOIZE,
  BLOCK_SCAN_WARP_SCANS,
};

template <class T, int kX, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int kY = 1, int kZ = 1>
class BlockScan {
  static constexpr int kWarps = (kX * kY * kZ + 31) / 32;

 public:
  struct TempStorage {
    T of_warp[kWarps];
  };
  explicit BlockScan(TempStorage& storage) : storage_(storage) {}

  /// `all` becomes the result of the whole block.
  template <class Operator>
  __forceinline__ void InclusiveScan(T value, T& result, Operator scan, T& all, RMSNORM_LOCATION) {
    rmsnorm::cpu_device::check_storage(&storage_, location);
    const int thread = RowMajorTid(kX, kY, kZ);
    const int last = std::min(thread / 32 * 32 + 32, kX * kY * kZ) - 1;  // of the warp
    value = WarpScan<T>::scan_lanes(value, scan, location);
    if (thread == last) storage_.of_warp[thread / 32] = value;
    __syncthreads(location);
    T before = storage_.of_warp[0];
    for (int warp = 1; warp < kWarps; ++warp) {
      if (warp == thread / 32) value = scan(before, value);
      before = scan(before, storage_.of_warp[warp]);
    }
    all = before;
    result = value;
  }
  /// What comes before the own value; in thread 0, `first`.
  template <class Operator>
  __forceinline__ void ExclusiveScan(
      T value, T& result, T first, Operator scan, T& all, RMSNORM_LOCATION) {
    const int thread = RowMajorTid(kX, kY, kZ);
    T inclusive = value;
    InclusiveScan(value, inclusive, scan, all, location);
    __syncthreads(location);  // the storage is used again
    const T of_left = __shfl_up_sync(0xffffffff, inclusive, 1, 32, location);
    if (thread % 32 == 31) storage_.of_warp[thread / 32] = inclusive;
    __syncthreads(location);
    const T before = thread % 32 == 0 && thread > 0 ? storage_.of_warp[thread / 32 - 1] : of_left;
    result = thread == 0 ? first : scan(first, before);
  }

  template <class Operator>
  __forceinline__ void InclusiveScan(T value, T& result, Operator scan, RMSNORM_LOCATION) {
    T all;
    InclusiveScan(value, result, scan, all, location);
  }
  template <class Operator>
  __forceinline__ void ExclusiveScan(T value, T& result, T first, Operator scan, RMSNORM_LOCATION) {
    T all;
    ExclusiveScan(value, result, first, scan, all, location);
  }
  __forceinline__ void InclusiveSum(T value, T& result, RMSNORM_LOCATION) {
    InclusiveScan(value, result, cub::Sum(), location);
  }
  __forceinline__ void InclusiveSum(T value, T& result, T& all, RMSNORM_LOCATION) {
    InclusiveScan(value, result, cub::Sum(), all, location);
  }
  __forceinline__ void ExclusiveSum(T value, T& result, RMSNORM_LOCATION) {
    ExclusiveScan(value, result, T(), cub::Sum(), location);
  }
  __forceinline__ void ExclusiveSum(T value, T& result, T& all, RMSNORM_LOCATION) {
    ExclusiveScan(value, result, T(), cub::Sum(), all, location);
  }
  template <int kItems>
  __forceinline__ void ExclusiveSum(T (&values)[kItems], T (&results)[kItems], RMSNORM_LOCATION) {
    T before = values[0];
    for (int i = 1; i < kItems; ++i) before = before + values[i];
    ExclusiveSum(before, before, location);
    for (int i = 0; i < kItems; ++i) {
      const T value = values[i];  // the results may take the values' place
      results[i] = before;
      before = before + value;
    }
  }
  template <int kItems>
  __forceinline__ void InclusiveSum(T (&values)[kItems], T (&results)[kItems], RMSNORM_LOCATION) {
    T before[kItems];
    ExclusiveSum(values, before, location);
    for (int i = 0; i < kItems; ++i) results[i] = before[i] + values[i];
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
