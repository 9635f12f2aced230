#pragma once
/// \file
/// The CPU device's stand-in for CUB's header of this name: the same results, in the same order of
/// additions (distances 1, 2, 4, 8, 16).

#include <cuda_runtime.h>

#include <functional>

namespace cub {

using Sum = std::plus<>;
struct Max {
  auto operator()(const auto& a, const auto& b) const { return a < b ? b : a; }
};
struct Min {
  auto operator()(const auto& a, const auto& b) const { return b < a ? b : a; }
};

template <class T, int kLanes = 32>
class WarpReduce {
 public:
  /// Shuffles need none. But this is no promise of CUB's: each warp must have its own.
  struct TempStorage {
    char unused;
  };
  explicit WarpReduce(TempStorage& storage) : storage_(storage) {}

  /// The result, of the first `valid` lanes, is complete in the first lane of each group of kLanes.
  template <class Operator>
  T Reduce(T value, Operator reduce, int valid, RMSNORM_LOCATION) {
    rmsnorm::cpu_device::use_warp_storage(&storage_, location);
    return reduce_lanes(value, reduce, valid, location);
  }
  template <class Operator>
  T Reduce(T value, Operator reduce, RMSNORM_LOCATION) {
    return Reduce(value, reduce, kLanes, location);
  }
  T Sum(T value, int valid, RMSNORM_LOCATION) { return Reduce(value, cub::Sum(), valid, location); }
  T Sum(T value, RMSNORM_LOCATION) { return Reduce(value, cub::Sum(), kLanes, location); }

  /// The same without storage, for the CPU device alone.
  template <class Operator>
  static T reduce_lanes(
      T value, Operator reduce, int valid, rmsnorm::cpu_device::SourceLocation location) {
    const int first = rmsnorm::cpu_device::group(kLanes);  // of the lanes that reduce together
    const int lane = rmsnorm::cpu_device::lane() - first;
    const unsigned mask = (kLanes == 32 ? 0xffffffff : (1u << kLanes % 32) - 1) << first;
    const int threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
    const int there = threads - rmsnorm::cpu_device::warp() * 32 - first;  // the block may end here
    for (int distance = 1; distance < kLanes; distance *= 2) {
      const int other_lane = lane + distance < std::min(kLanes, there) ? lane + distance : lane;
      const T other = rmsnorm::cpu_device::shuffle_words(mask, value, first + other_lane, location);
      if (lane + distance < valid) value = reduce(value, other);
    }
    return value;
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
