#pragma once
/// \file
/// The CPU device's stand-in for CUB's header of this name.

#include <cub/warp/warp_reduce.cuh>

namespace cub {

template <class T, int kLanes = 32>
class WarpScan {
 public:
  using TempStorage = typename WarpReduce<T, kLanes>::TempStorage;
  explicit WarpScan(TempStorage& storage) : storage_(storage) {}

  template <class Operator>
  void InclusiveScan(T value, T& result, Operator scan, RMSNORM_LOCATION) {
    rmsnorm::cpu_device::use_warp_storage(&storage_, location);
    result = scan_lanes(value, scan, location);
  }
  template <class Operator>
  void ExclusiveScan(T value, T& result, T first, Operator scan, RMSNORM_LOCATION) {
    InclusiveScan(value, result, scan, location);
    const T before = __shfl_up_sync(mask(), result, 1, kLanes, location);
    result = rmsnorm::cpu_device::lane() % kLanes == 0 ? first : scan(first, before);
  }
  void InclusiveSum(T value, T& result, RMSNORM_LOCATION) {
    InclusiveScan(value, result, cub::Sum(), location);
  }
  void ExclusiveSum(T value, T& result, RMSNORM_LOCATION) {
    ExclusiveScan(value, result, T(), cub::Sum(), location);
  }

  /// The same without storage, for the CPU device alone.
  template <class Operator>
  static T scan_lanes(T value, Operator scan, rmsnorm::cpu_device::SourceLocation location) {
    for (unsigned distance = 1; distance < kLanes; distance *= 2) {
      const T other = __shfl_up_sync(mask(), value, distance, kLanes, location);
      if (rmsnorm::cpu_device::lane() % kLanes >= static_cast<int>(distance)) {
        value = scan(other, value);
      }
    }
    return value;
  }

 private:
  static unsigned mask() {
    return static_cast<unsigned>((1ull << kLanes) - 1) << rmsnorm::cpu_device::group(kLanes);
  }
  TempStorage& storage_;
};

}  // namespace cub
