#pragma once
/// \file
/// The CPU device's stand-in for the CUDA Toolkit's header of this name: groups of a grid, a block and a
/// warp.

#include <cuda_runtime.h>

namespace cooperative_groups {

/// All threads of the block.
class thread_block {
 public:
  static void sync(RMSNORM_LOCATION) { __syncthreads(location); }
  static unsigned thread_rank() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  }
  static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned size() { return num_threads(); }
  static dim3 group_index() { return blockIdx; }
  static dim3 thread_index() { return threadIdx; }
  static dim3 dim_threads() { return blockDim; }
  static dim3 group_dim() { return blockDim; }
};

inline thread_block this_thread_block() {
  return {};
}

/// All threads of the grid. Its blocks have to be resident together: cudaLaunchCooperativeKernel.
class grid_group {
 public:
  static void sync(RMSNORM_LOCATION) { rmsnorm::cpu_device::grid_barrier(location); }
  static bool is_valid() { return true; }
  static dim3 group_dim() { return gridDim; }
  static dim3 block_index() { return blockIdx; }
  static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
  static unsigned long long block_rank() {
    return (1ull * blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  static unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }
  static unsigned long long size() { return num_threads(); }
  static unsigned long long thread_rank() {
    return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
  }
};

inline grid_group this_grid() {
  return {};
}

/// Blocks that are on the GPU at the same time, and may touch each other's shared memory.
class cluster_group {
 public:
  struct arrival_token {};
  static unsigned block_rank() {
    return static_cast<unsigned>(rmsnorm::cpu_device::cluster_rank());
  }
  static unsigned num_blocks() {
    return static_cast<unsigned>(rmsnorm::cpu_device::cluster_blocks());
  }
  static unsigned num_threads() { return num_blocks() * thread_block::num_threads(); }
  static unsigned size() { return num_threads(); }
  static unsigned thread_rank() {
    return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
  }
  static dim3 dim_blocks() { return dim3(num_blocks()); }
  static dim3 block_index() { return dim3(block_rank(), 0, 0); }
  /// The address in block `rank` of what has this address in the running block.
  template <class T>
  static T* map_shared_rank(T* address, int rank) {
    return static_cast<T*>(rmsnorm::cpu_device::map_shared(address, rank));
  }
  static unsigned query_shared_rank(const void* address) {
    return static_cast<unsigned>(rmsnorm::cpu_device::rank_of_shared(address));
  }
  static arrival_token barrier_arrive(RMSNORM_LOCATION) {
    rmsnorm::cpu_device::cluster_arrive(true, location);
    return {};
  }
  static void barrier_wait(RMSNORM_LOCATION) { rmsnorm::cpu_device::cluster_wait(location); }
  static void barrier_wait(arrival_token&&, RMSNORM_LOCATION) {
    rmsnorm::cpu_device::cluster_wait(location);
  }
  static void sync(RMSNORM_LOCATION) {
    rmsnorm::cpu_device::cluster_arrive(true, location);
    rmsnorm::cpu_device::cluster_wait(location);
  }
};

inline cluster_group this_cluster() {
  return {};
}

/// Lanes of a warp, which need not be neighbours.
class coalesced_group {
 public:
  explicit coalesced_group(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
      : mask_(mask), meta_rank_(meta_rank), meta_size_(meta_size) {}

  unsigned num_threads() const { return static_cast<unsigned>(__popc(mask_)); }
  unsigned size() const { return num_threads(); }
  unsigned thread_rank() const {
    return static_cast<unsigned>(__popc(mask_ & ((1u << rmsnorm::cpu_device::lane()) - 1)));
  }
  unsigned lanes() const { return mask_; }  // not CUDA's
  unsigned meta_group_rank() const { return meta_rank_; }
  unsigned meta_group_size() const { return meta_size_; }
  void sync(RMSNORM_LOCATION) const { __syncwarp(mask_, location); }

  template <class T>
  T shfl(const T& value, unsigned rank, RMSNORM_LOCATION) const {
    const int lane = lane_of(rank % num_threads());
    return rmsnorm::cpu_device::shuffle_words(mask_, value, lane, location);
  }
  /// Who has nobody so far away gets the own value.
  template <class T>
  T shfl_up(const T& value, unsigned distance, RMSNORM_LOCATION) const {
    const unsigned own = thread_rank();
    return shfl(value, own >= distance ? own - distance : own, location);
  }
  template <class T>
  T shfl_down(const T& value, unsigned distance, RMSNORM_LOCATION) const {
    const unsigned own = thread_rank();
    return shfl(value, own + distance < num_threads() ? own + distance : own, location);
  }
  int any(int predicate, RMSNORM_LOCATION) const { return __any_sync(mask_, predicate, location); }
  int all(int predicate, RMSNORM_LOCATION) const { return __all_sync(mask_, predicate, location); }
  unsigned ballot(int predicate, RMSNORM_LOCATION) const {
    return of_ranks(__ballot_sync(mask_, predicate, location));
  }
  template <class T>
  unsigned match_any(const T& value, RMSNORM_LOCATION) const {
    return of_ranks(__match_any_sync(mask_, value, location));
  }

 private:
  int lane_of(unsigned rank) const {
    unsigned rest = mask_;
    while (rank-- > 0) rest &= rest - 1;
    return __ffs(static_cast<int>(rest)) - 1;
  }
  /// A bit for each rank from one for each lane.
  unsigned of_ranks(unsigned lanes) const {
    unsigned ranks = 0;
    for (unsigned rank = 0; rank < num_threads(); ++rank) {
      ranks |= (lanes >> lane_of(rank) & 1) << rank;
    }
    return ranks;
  }

  unsigned mask_;
  unsigned meta_rank_, meta_size_;
};

inline coalesced_group coalesced_threads(RMSNORM_LOCATION) {
  return coalesced_group(__activemask(location));
}

/// kSize lanes that are neighbours.
template <unsigned kSize, class Parent = thread_block>
class thread_block_tile : public coalesced_group {
 public:
  static_assert(kSize <= 32, "the CPU device has no tiles of several warps");
  explicit thread_block_tile(const Parent& parent)
      : coalesced_group(
            static_cast<unsigned>((1ull << kSize) - 1) << rmsnorm::cpu_device::group(kSize),
            parent.thread_rank() / kSize, (parent.num_threads() + kSize - 1) / kSize) {}
  static constexpr unsigned num_threads() { return kSize; }
  static constexpr unsigned size() { return kSize; }
  template <class T>
  T shfl_xor(const T& value, unsigned distance, RMSNORM_LOCATION) const {
    return shfl(value, thread_rank() ^ distance, location);
  }
};

template <unsigned kSize, class Parent>
thread_block_tile<kSize, Parent> tiled_partition(const Parent& parent) {
  return thread_block_tile<kSize, Parent>(parent);
}
/// The lanes of a group that bring the same.
template <class Group, class T>
coalesced_group labeled_partition(const Group& group, T label, RMSNORM_LOCATION) {
  return coalesced_group(__match_any_sync(group.lanes(), label, location));
}
template <class Group>
coalesced_group binary_partition(const Group& group, bool side, RMSNORM_LOCATION) {
  return labeled_partition(group, int{side}, location);
}

/// Any of these groups.
class thread_group {
 public:
  thread_group(thread_block) : lanes_(0), is_block_(true) {}
  thread_group(const coalesced_group& lanes) : lanes_(lanes), is_block_(false) {}
  unsigned size() const { return is_block_ ? thread_block::size() : lanes_.size(); }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const {
    return is_block_ ? thread_block::thread_rank() : lanes_.thread_rank();
  }
  void sync(RMSNORM_LOCATION) const { is_block_ ? thread_block::sync(location) : lanes_.sync(location); }

 private:
  coalesced_group lanes_;
  bool is_block_;
};
inline thread_group tiled_partition(const thread_group&, unsigned size) {
  const auto mask = static_cast<unsigned>((1ull << size) - 1);
  return coalesced_group(mask << rmsnorm::cpu_device::group(static_cast<int>(size)));
}

template <class Group>
void sync(const Group& group, RMSNORM_LOCATION) {
  group.sync(location);
}
template <class Group>
unsigned thread_rank(const Group& group) {
  return group.thread_rank();
}
template <class Group>
unsigned group_size(const Group& group) {
  return group.size();
}

}  // namespace cooperative_groups
