#pragma once
/// \file
/// The CPU device's stand-in for CUB's header of this name: each algorithm's stores, on a GPU's
/// addresses.

#include <cub/block/block_load.cuh>

namespace cub {

enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT,
  BLOCK_STORE_STRIPED,
  BLOCK_STORE_VECTORIZE,
  BLOCK_STORE_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED,
};

template <
    class T, int kX, int kItems, BlockStoreAlgorithm algorithm = BLOCK_STORE_DIRECT, int kY = 1,
    int kZ = 1>
class BlockStore {
  static constexpr int kThreads = kX * kY * kZ;
  static constexpr bool kTransposes = algorithm >= BLOCK_STORE_TRANSPOSE;

 public:
  struct TempStorage {
    T elements[kTransposes ? kThreads * kItems : 1];
  };
  explicit BlockStore(TempStorage& storage) : storage_(storage) {}

  /// The thread's kItems elements, of which only the first `valid` of the block are stored.
  template <class To>
  __forceinline__ void Store(To to, T (&from)[kItems], RMSNORM_PLACE) {
    if constexpr (algorithm == BLOCK_STORE_VECTORIZE && std::is_pointer_v<To>) {
      constexpr int kBytes = sizeof(T) * kItems;
      using Vector = std::conditional_t<
          kBytes % 16 == 0, uint4, std::conditional_t<kBytes % 8 == 0, uint2, T>>;
      if (reinterpret_cast<std::uintptr_t>(to) % sizeof(Vector) == 0) {
        constexpr int kVectors = kBytes / sizeof(Vector);
        auto* const vectors = reinterpret_cast<Vector*>(to) + thread() * kVectors;
        for (int i = 0; i < kVectors; ++i) {
          Vector vector;
          std::memcpy(&vector, reinterpret_cast<char*>(from) + i * sizeof(Vector), sizeof(Vector));
          vectors[i] = vector;
        }
        return;
      }
    }
    Store(to, from, kThreads * kItems, place);
  }
  template <class To>
  __forceinline__ void Store(To to, T (&from)[kItems], int valid, RMSNORM_PLACE) {
    constexpr bool kOfWarp = algorithm > BLOCK_STORE_TRANSPOSE;
    if constexpr (kTransposes) {
      rmsnorm::cpu_device::check_storage(&storage_, place);
      for (int i = 0; i < kItems; ++i) storage_.elements[thread() * kItems + i] = from[i];
      kOfWarp ? __syncwarp(0xffffffff, place) : static_cast<void>(__syncthreads(place));
    }
    for (int i = 0; i < kItems; ++i) {
      const bool is_blocked = algorithm == BLOCK_STORE_DIRECT || algorithm == BLOCK_STORE_VECTORIZE;
      const int at =
          is_blocked ? thread() * kItems + i : side_by_side<kThreads, kItems, kOfWarp>(thread(), i);
      if (at >= valid) continue;
      if constexpr (kTransposes) {
        to[at] = storage_.elements[at];
      } else {
        to[at] = from[i];
      }
    }
  }

 private:
  static int thread() { return RowMajorTid(kX, kY, kZ); }
  TempStorage& storage_;
};

}  // namespace cub
