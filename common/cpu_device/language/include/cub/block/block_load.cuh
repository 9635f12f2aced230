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

/// What loads and stores share. `transposes`: the elements go through shared memory, so that the
/// threads move them side by side.
template <class T, int kX, int kItems, bool transposes, int kY, int kZ>
class BlockMove {
 public:
  struct TempStorage {
    T elements[transposes ? kX * kY * kZ * kItems : 1];
  };

 protected:
  static constexpr int kThreads = kX * kY * kZ;
  static constexpr int kBytes = sizeof(T) * kItems;  // of a thread
  using Vector =
      std::conditional_t<kBytes % 16 == 0, uint4, std::conditional_t<kBytes % 8 == 0, uint2, T>>;
  static constexpr int kVectors = kBytes / sizeof(Vector);

  explicit BlockMove(TempStorage& storage) : storage_(storage) {}
  static int thread() { return RowMajorTid(kX, kY, kZ); }
  /// The element that is item i side by side: of the block's, or of the thread's warp's part.
  static int side_by_side(int i, bool within_warp) {
    if (!within_warp) return thread() + i * kThreads;
    return thread() / 32 * 32 * kItems + thread() % 32 + i * 32;
  }
  static void sync(bool within_warp, rmsnorm::cpu_device::SourceLocation location) {
    within_warp ? __syncwarp(0xffffffff, location) : static_cast<void>(__syncthreads(location));
  }

  TempStorage& storage_;
};

template <
    class T, int kX, int kItems, BlockLoadAlgorithm algorithm = BLOCK_LOAD_DIRECT, int kY = 1,
    int kZ = 1>
class BlockLoad : public BlockMove<T, kX, kItems, (algorithm >= BLOCK_LOAD_TRANSPOSE), kY, kZ> {
  static constexpr bool kTransposes = algorithm >= BLOCK_LOAD_TRANSPOSE;
  using Move = BlockMove<T, kX, kItems, kTransposes, kY, kZ>;
  using Move::kThreads, Move::kVectors, Move::side_by_side, Move::storage_, Move::thread;
  using typename Move::Vector;

 public:
  explicit BlockLoad(typename Move::TempStorage& storage) : Move(storage) {}

  /// The thread's kItems elements, of which only the first `valid` of the block are there; the
  /// others stay as they are, or become `otherwise`.
  template <class From>
  __forceinline__ void Load(From from, T (&to)[kItems], RMSNORM_LOCATION) {
    if constexpr (algorithm == BLOCK_LOAD_VECTORIZE && std::is_pointer_v<From>) {
      if (reinterpret_cast<std::uintptr_t>(from) % sizeof(Vector) == 0) {
        const auto* const vectors = reinterpret_cast<const Vector*>(from) + thread() * kVectors;
        for (int i = 0; i < kVectors; ++i) {
          const Vector vector = vectors[i];
          std::memcpy(reinterpret_cast<char*>(to) + i * sizeof(Vector), &vector, sizeof(Vector));
        }
        return;
      }
    }
    Load(from, to, kThreads * kItems, location);
  }
  template <class From>
  __forceinline__ void Load(From from, T (&to)[kItems], int valid, RMSNORM_LOCATION) {
    if constexpr (kTransposes) {
      constexpr bool kOfWarp = algorithm != BLOCK_LOAD_TRANSPOSE;
      rmsnorm::cpu_device::check_storage(&storage_, location);
      for (int i = 0; i < kItems; ++i) {
        const int at = side_by_side(i, kOfWarp);
        if (at < valid) storage_.elements[at] = from[at];
      }
      Move::sync(kOfWarp, location);
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
      From from, T (&to)[kItems], int valid, std::type_identity_t<T> otherwise, RMSNORM_LOCATION) {
    for (T& item : to) item = otherwise;
    Load(from, to, valid, location);
  }
};

}  // namespace cub
