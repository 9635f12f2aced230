#pragma once
/// \file
/// What CUDA adds to C++ inside a kernel: keywords, built-in variables, barriers, shuffles and
/// votes. `location` parameters default to the caller's line.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/cpu_device/language/atomics.hpp"
#include "common/cpu_device/language/math.hpp"
#include "common/cpu_device/language/vectors.hpp"
#include "common/cpu_device/scheduler/access.hpp"
#include "common/cpu_device/scheduler/source_location.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __forceinline__ inline __attribute__((always_inline))
// Behind __device__ of a function that can be taken into its callers, which nvcc does by itself.
// Where it is called, g++ does not tell the device of the store of the struct that it returns.
#ifdef __SANITIZE_THREAD__
#define RMSNORM_INLINED __attribute__((always_inline))
#else
#define RMSNORM_INLINED
#endif
#define __noinline__  // a header of C++'s own writes it, too, where an attribute may be empty
// The rewriter lets the kernel itself compare: check_launch_bounds(), check_cluster().
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__

// Constant for the kernel: a thread never sees another one's. (block.cpp, which switches between
// the threads, has them as variables.)
extern const uint3 threadIdx;
extern const uint3 blockIdx;
extern const dim3 blockDim;
extern const dim3 gridDim;
inline constexpr int warpSize = 32;

namespace rmsnorm::cpu_device {

void grid_dependency_synchronize();
void trigger(SourceLocation location);
/// Waits for all threads of the block; gives the number of those that bring `true`.
int barrier(SourceLocation location, bool predicate = false);
void sync_warp(std::uint32_t mask, SourceLocation location);
std::uint32_t shuffle(std::uint32_t mask, std::uint32_t value, int source, SourceLocation location);
std::uint32_t ballot(std::uint32_t mask, bool value, SourceLocation location);
/// The values of all lanes of the mask; gives those that have not returned.
std::uint32_t exchange(
    std::uint32_t mask, std::uint32_t value, std::array<std::uint32_t, 32>& all,
    SourceLocation location);
/// Active mask: the lanes at this location, when no other lane of the warp is ready.
std::uint32_t activemask(SourceLocation location);
/// Yields to the other threads.
void yield();
int lane();
int warp();  ///< in the block
/// Reports a shuffle of the running thread over a distance that no two lanes of a warp have.
[[gnu::cold]] void report_distance(int distance, SourceLocation location);
/// Reports cub's temporary storage that is not in shared memory. False if it is not.
bool check_storage(const void* storage, SourceLocation location);
/// The same, for the storage of a warp; also reports two warps that use it without a barrier.
void use_warp_storage(const void* storage, SourceLocation location);
/// Barrier of all threads of the grid.
void grid_barrier(SourceLocation location);
int cluster_blocks();  ///< of the running block's cluster; 1 where the launch has none
int cluster_rank();    ///< of the running block in it
/// Arrives at the barrier of the cluster. `is_ordered`: what the thread did before is handed on.
void cluster_arrive(bool is_ordered, SourceLocation location);
/// Waits until all threads of the cluster have arrived.
void cluster_wait(SourceLocation location);
/// The address in block `rank` of the cluster of what has this address in the running one.
void* map_shared(void* address, int rank);
/// The block in whose shared memory an address is; -1: in none.
int rank_of_shared(const void* address);
/// The pointer for loads with this policy; where nobody watches the kernel, the same pointer.
const void* with_policy(const void* address, CachePolicy policy);
/// A fence of the running thread, for these threads. All but fence.acq_rel are sequentially
/// consistent.
void fence(Scope scope, bool is_sc = true);
/// Ends the grid if the block has more threads than the kernel's __launch_bounds__ promise: the
/// first statement of such a kernel, from the rewriter.
void check_launch_bounds(SourceLocation location, int threads, int blocks = 0, int cluster = 0);
/// Lets the grid begin again, in clusters of so many blocks, if it has none.
void check_cluster(SourceLocation location, int blocks);
/// The same: the first statement of a kernel with __cluster_dims__, from the rewriter.
template <int x, int y = 1, int z = 1>
void check_cluster(SourceLocation location) {
  static_assert(y == 1 && z == 1, "the CPU device has no clusters in y or z");
  check_cluster(location, x);
}

/// A value of any size goes through as many shuffles as it has words of 4 bytes, as on a GPU.
template <class T>
T shuffle_words(std::uint32_t mask, const T& value, int source, SourceLocation location) {
  static_assert(sizeof(T) % 4 == 0 || sizeof(T) < 4);
  std::uint32_t words[(sizeof(T) + 3) / 4] = {};
  std::memcpy(words, &value, sizeof(T));
  for (std::uint32_t& word : words) word = shuffle(mask, word, source, location);
  T result;
  std::memcpy(static_cast<void*>(&result), words, sizeof(T));
  return result;
}

/// The first lane of the group of `width` lanes to which the running one belongs.
inline int group(int width) {
  return lane() / width * width;
}

/// A shuffle's distance as a GPU takes it, by its last five bits; one that leaves the warp is
/// reported.
inline int distance_in_warp(int distance, SourceLocation location) {
  if (distance < 0 || distance >= warpSize) report_distance(distance, location);
  return distance & (warpSize - 1);
}

/// The lanes of the mask that have the same value, of any size, as the running one.
template <class T>
std::uint32_t match_lanes(std::uint32_t mask, const T& value, SourceLocation location) {
  std::uint32_t words[(sizeof(T) + 3) / 4] = {};
  std::memcpy(words, &value, sizeof(T));
  std::uint32_t matching = mask;
  for (const std::uint32_t word : words) {
    std::array<std::uint32_t, 32> all;
    const std::uint32_t lanes = exchange(mask, word, all, location);
    for (int i = 0; i < 32; ++i) {
      if ((lanes >> i & 1) == 0 || all[i] != word) matching &= ~(1u << i);
    }
  }
  return matching;
}

/// All values of the lanes of the mask, reduced to one.
template <class T, class Operator>
T reduce_lanes(std::uint32_t mask, T value, Operator reduce, SourceLocation location) {
  std::array<std::uint32_t, 32> all;
  const std::uint32_t others =
      exchange(mask, static_cast<std::uint32_t>(value), all, location) & ~(1u << lane());
  for (int i = 0; i < 32; ++i) {
    if ((others >> i & 1) != 0) value = reduce(value, static_cast<T>(all[i]));
  }
  return value;
}

}  // namespace rmsnorm::cpu_device

#define RMSNORM_LOCATION \
  ::rmsnorm::cpu_device::SourceLocation location = {__builtin_FILE(), __builtin_LINE()}

/// Waits for the kernels before this one: they have ended.
inline void cudaGridDependencySynchronize() {
  rmsnorm::cpu_device::grid_dependency_synchronize();
}
/// The next kernel begins when this one has ended: the call only counts.
inline void cudaTriggerProgrammaticLaunchCompletion(RMSNORM_LOCATION) {
  rmsnorm::cpu_device::trigger(location);
}

inline void __syncthreads(RMSNORM_LOCATION) {
  rmsnorm::cpu_device::barrier(location);
}
inline int __syncthreads_count(int predicate, RMSNORM_LOCATION) {
  return rmsnorm::cpu_device::barrier(location, predicate != 0);
}
inline int __syncthreads_or(int predicate, RMSNORM_LOCATION) {
  return rmsnorm::cpu_device::barrier(location, predicate != 0) != 0;
}
inline int __syncthreads_and(int predicate, RMSNORM_LOCATION) {
  return rmsnorm::cpu_device::barrier(location, predicate == 0) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffff, RMSNORM_LOCATION) {
  rmsnorm::cpu_device::sync_warp(mask, location.of("__syncwarp()"));
}
inline void __threadfence() {
  rmsnorm::cpu_device::fence(rmsnorm::cpu_device::Scope::device);
}
inline void __threadfence_block() {
  rmsnorm::cpu_device::fence(rmsnorm::cpu_device::Scope::block);
}
inline void __threadfence_system() {
  rmsnorm::cpu_device::fence(rmsnorm::cpu_device::Scope::system);
}
inline void __nanosleep(unsigned) {
  rmsnorm::cpu_device::yield();
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, RMSNORM_LOCATION) {
  const int lane = rmsnorm::cpu_device::group(width) + (source & (width - 1));
  return rmsnorm::cpu_device::shuffle_words(mask, value, lane, location.of("__shfl_sync()"));
}
/// A lane whose source would lie outside of its group gets its own value.
template <class T>
T __shfl_up_sync(
    unsigned mask, T value, unsigned distance, int width = warpSize, RMSNORM_LOCATION) {
  const int own = rmsnorm::cpu_device::lane();
  const int source =
      own - rmsnorm::cpu_device::distance_in_warp(static_cast<int>(distance), location);
  const bool inside = source >= rmsnorm::cpu_device::group(width);
  return rmsnorm::cpu_device::shuffle_words(
      mask, value, inside ? source : own, location.of("__shfl_up_sync()"));
}
template <class T>
T __shfl_down_sync(
    unsigned mask, T value, unsigned distance, int width = warpSize, RMSNORM_LOCATION) {
  const int own = rmsnorm::cpu_device::lane();
  const int source =
      own + rmsnorm::cpu_device::distance_in_warp(static_cast<int>(distance), location);
  const bool inside = source < rmsnorm::cpu_device::group(width) + width;
  return rmsnorm::cpu_device::shuffle_words(
      mask, value, inside ? source : own, location.of("__shfl_down_sync()"));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = warpSize, RMSNORM_LOCATION) {
  const int own = rmsnorm::cpu_device::lane();
  const int source = own ^ rmsnorm::cpu_device::distance_in_warp(distance, location);
  const bool inside = source < rmsnorm::cpu_device::group(width) + width;
  return rmsnorm::cpu_device::shuffle_words(
      mask, value, inside ? source : own, location.of("__shfl_xor_sync()"));
}

inline unsigned __ballot_sync(unsigned mask, int predicate, RMSNORM_LOCATION) {
  return rmsnorm::cpu_device::ballot(mask, predicate != 0, location.of("__ballot_sync()"));
}
inline int __any_sync(unsigned mask, int predicate, RMSNORM_LOCATION) {
  return rmsnorm::cpu_device::ballot(mask, predicate != 0, location.of("__any_sync()")) != 0;
}
inline int __all_sync(unsigned mask, int predicate, RMSNORM_LOCATION) {
  return rmsnorm::cpu_device::ballot(mask, predicate == 0, location.of("__all_sync()")) == 0;
}

inline unsigned __activemask(RMSNORM_LOCATION) {
  return rmsnorm::cpu_device::activemask(location);
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, RMSNORM_LOCATION) {
  return rmsnorm::cpu_device::match_lanes(mask, value, location.of("__match_any_sync()"));
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* all_match, RMSNORM_LOCATION) {
  *all_match =
      rmsnorm::cpu_device::match_lanes(mask, value, location.of("__match_all_sync()")) == mask;
  return *all_match != 0 ? mask : 0;
}

#define RMSNORM_REDUCE(name, Types, result)                            \
  template <rmsnorm::cpu_device::Types T>                              \
  T __reduce_##name##_sync(unsigned mask, T value, RMSNORM_LOCATION) { \
    return rmsnorm::cpu_device::reduce_lanes(                          \
        mask, value, [](T a, T b) { return static_cast<T>(result); },  \
        location.of("__reduce_" #name "_sync()"));                     \
  }
RMSNORM_REDUCE(add, Integer32, static_cast<unsigned>(a) + static_cast<unsigned>(b))
RMSNORM_REDUCE(min, Integer32, std::min(a, b))
RMSNORM_REDUCE(max, Integer32, std::max(a, b))
RMSNORM_REDUCE(and, Unsigned32, a& b)
RMSNORM_REDUCE(or, Unsigned32, a | b)
RMSNORM_REDUCE(xor, Unsigned32, a ^ b)
#undef RMSNORM_REDUCE

namespace rmsnorm::cpu_device {
/// Says that the bytes at an address are loaded at once, as far as a GPU can. `is_read_only`: by
/// the cache that hears of no store.
void on_whole_load(const void* caller, const void* data, std::size_t bytes, bool is_read_only);
/// The value there, for whatever the kernel takes of it.
template <bool is_read_only, class T>
__attribute__((noinline, no_sanitize("thread"))) T load_whole(const T* data) {
  on_whole_load(__builtin_return_address(0), data, sizeof(T), is_read_only);
  T value;
  std::memcpy(static_cast<void*>(&value), data, sizeof(T));
  return value;
}
}  // namespace rmsnorm::cpu_device

#define __builtin_assume(...) static_cast<void>(sizeof(__VA_ARGS__))  // a hint for nvcc

// Loads and stores with a hint for the caches, of which this device has none. Macros, so that the
// access is that of the kernel's line.
#define __ldg(...) ::rmsnorm::cpu_device::load_whole<true>(__VA_ARGS__)
#define __ldcs(...) ::rmsnorm::cpu_device::load_whole<false>(__VA_ARGS__)
#define __ldcg(...) ::rmsnorm::cpu_device::load_whole<false>(__VA_ARGS__)
#define __ldca(...) ::rmsnorm::cpu_device::load_whole<false>(__VA_ARGS__)
#define __ldcv(...) ::rmsnorm::cpu_device::load_whole<false>(__VA_ARGS__)
#define __ldlu(...) ::rmsnorm::cpu_device::load_whole<false>(__VA_ARGS__)
#define __stwb(address, value) (void)(*(address) = (value))
#define __stwt(address, value) (void)(*(address) = (value))
#define __stcs(address, value) (void)(*(address) = (value))
#define __stcg(address, value) (void)(*(address) = (value))
