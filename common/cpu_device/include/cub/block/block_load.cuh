#pragma once
/// \file
/// The CPU device's stand-in for CUB's header of this name: each algorithm's loads, on a GPU's
/// addresses.

#include <cub/block/block_reduce.cuh>

namespace cub {

enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT,
  BLOCK_LOAD_STRIPED,
  BLOCK_LOAD_VECTORIZE,
  BLOCK_LOAD_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED,
};

/// Where the elements are that the threads move through shared memory, to load or to store them
/// side by side: thread t's item i is element t + i * threads, or of its warp's part.
template <int kThreads, int kItems, bool within_warp>
__forceinline__ int side_by_side(int thread, int i) {
  if (!within_warp) return thread + i * kThreads;
  return thread / 32 * 32 * kItems + thread % 32 + i * 32;
}

template <
    class T, int kX, int kItems, BlockLoadAlgorithm algorithm = BLOCK_LOAD_DIRECT, int kY = 1,
    int kZ = 1>
class BlockLoad {
  static constexpr int kThreads = kX * kY * kZ;
  static constexpr bool kTransposes = algorithm >= BLOCK_LOAD_TRANSPOSE;

 public:
  struct TempStorage {
    T elements[kTransposes ? kThreads * kItems : 1];
  };
  explicit BlockLoad(TempStorage& storage) : storage_(storage) {}

  /// The thread's kItems elements, of which only the first `valid` of the block are there; the
  /// others stay as they are, or become `otherwise`.
  template <class From>
  __forceinline__ void Load(From from, T (&to)[kItems], RMSNORM_PLACE) {
    if constexpr (algorithm == BLOCK_LOAD_VECTORIZE && std::is_pointer_v<From>) {
      constexpr int kBytes = sizeof(T) * kItems;
      using Vector = std::conditional_t<
          kBytes % 16 == 0, uint4, std::conditional_t<kBytes % 8 == 0, uint2, T>>;
      if (reinterpret_cast<std::uintptr_t>(from) % sizeof(Vector) == 0) {
        constexpr int kVectors = kBytes / sizeof(Vector);
        const auto* const vectors = reinterpret_cast<const Vector*>(from) + thread() * kVectors;
        for (int i = 0; i < kVectors; ++i) {
          const Vector vector = vectors[i];
          std::memcpy(reinterpret_cast<char*>(to) + i * sizeof(Vector), &vector, sizeof(Vector));
        }
        return;
      }
    }
    Load(from, to, kThreads * kItems, place);
  }
  template <class From>
  __forceinline__ void Load(From from, T (&to)[kItems], int valid, RMSNORM_PLACE) {
    if constexpr (kTransposes) {
      constexpr bool kOfWarp = algorithm != BLOCK_LOAD_TRANSPOSE;
      rmsnorm::cpu_device::check_storage(&storage_, place);
      for (int i = 0; i < kItems; ++i) {
        const int at = side_by_side<kThreads, kItems, kOfWarp>(thread(), i);
        if (at < valid) storage_.elements[at] = from[at];
      }
      kOfWarp ? __syncwarp(0xffffffff, place) : static_cast<void>(__syncthreads(place));
    }
    for (int i = 0; i < kItems; ++i) {
      const int at =
          algorithm == BLOCK_LOAD_STRIPED ? thread() + i * kThreads : thread() * kItems + i;
      if (at >= valid) continue;
      if constexpr (kTransposes) {
        to[i] = storage_.elements[at];
      } else {
        to[i] = from[at];
      }
    }
  }
  template <class From>
  __forceinline__ void Load(
      From from, T (&to)[kItems], int valid, std::type_identity_t<T> otherwise, RMSNORM_PLACE) {
    for (T& item : to) item = otherwise;
    Load(from, to, valid, place);
  }

 private:
  static int thread() { return RowMajorTid(kX, kY, kZ); }
  TempStorage& storage_;
};

}  // namespace cub
