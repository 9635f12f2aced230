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
class BlockStore : public BlockMove<T, kX, kItems, (algorithm >= BLOCK_STORE_TRANSPOSE), kY, kZ> {
  static constexpr bool kTransposes = algorithm >= BLOCK_STORE_TRANSPOSE;
  using Move = BlockMove<T, kX, kItems, kTransposes, kY, kZ>;
  using Move::kThreads, Move::kVectors, Move::side_by_side, Move::storage_, Move::thread;
  using typename Move::Vector;

 public:
  explicit BlockStore(typename Move::TempStorage& storage) : Move(storage) {}

  /// The thread's kItems elements, of which only the first `valid` of the block are stored.
  template <class To>
  __forceinline__ void Store(To to, T (&from)[kItems], RMSNORM_LOCATION) {
    if constexpr (algorithm == BLOCK_STORE_VECTORIZE && std::is_pointer_v<To>) {
      if (reinterpret_cast<std::uintptr_t>(to) % sizeof(Vector) == 0) {
        auto* const vectors = reinterpret_cast<Vector*>(to) + thread() * kVectors;
        for (int i = 0; i < kVectors; ++i) {
          Vector vector;
          std::memcpy(&vector, reinterpret_cast<char*>(from) + i * sizeof(Vector), sizeof(Vector));
          vectors[i] = vector;
        }
        return;
      }
    }
    Store(to, from, kThreads * kItems, location);
  }
  template <class To>
  __forceinline__ void Store(To to, T (&from)[kItems], int valid, RMSNORM_LOCATION) {
    constexpr bool kOfWarp = algorithm > BLOCK_STORE_TRANSPOSE;
    if constexpr (kTransposes) {
      rmsnorm::cpu_device::check_storage(&storage_, location);
      for (int i = 0; i < kItems; ++i) storage_.elements[thread() * kItems + i] = from[i];
      Move::sync(kOfWarp, location);
    }
    for (int i = 0; i < kItems; ++i) {
      const bool is_blocked = algorithm == BLOCK_STORE_DIRECT || algorithm == BLOCK_STORE_VECTORIZE;
      const int at = is_blocked ? thread() * kItems + i : side_by_side(i, kOfWarp);
      if (at >= valid) continue;
      if constexpr (kTransposes) {
        to[at] = storage_.elements[at];
      } else {
        to[at] = from[i];
      }
    }
  }
};

}  // namespace cub
