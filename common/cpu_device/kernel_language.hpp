#pragma once
/// \file
/// What CUDA adds to C++ inside a kernel: keywords, built-in variables, barriers, shuffles, votes,
/// atomics and a few functions. `place` parameters fill themselves in with the caller's line.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/cpu_device/hazard.hpp"
#include "common/cpu_device/vectors.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
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

void wait_for_kernel_before();
void trigger(Place place);
void barrier(Place place);
void sync_lanes(std::uint32_t mask, Place place);
std::uint32_t shuffle(std::uint32_t mask, std::uint32_t value, int source, Place place);
std::uint32_t ballot(std::uint32_t mask, bool value, Place place);
int lane();
/// Reports a shuffle of the running thread over a distance that no two lanes of a warp have.
[[gnu::cold]] void report_distance(int distance, Place place);
/// Reports cub's temporary storage that is not in shared memory. False if it is not.
bool check_storage(const void* storage, Place place);
/// The same, for the storage of a warp; also reports two warps that use it without a barrier.
void use_warp_storage(const void* storage, Place place);
/// A fence of the running thread, for its block alone or for the device.
void fence(bool of_block);
/// Reports an atomic operation of the running thread.
void touch_atomically(const void* caller, const void* address, int bytes);

/// A value of any size goes through as many shuffles as it has words of 4 bytes, as on a GPU.
template <class T>
T shuffle_words(std::uint32_t mask, const T& value, int source, Place place) {
  static_assert(sizeof(T) % 4 == 0 || sizeof(T) < 4);
  std::uint32_t words[(sizeof(T) + 3) / 4] = {};
  std::memcpy(words, &value, sizeof(T));
  for (std::uint32_t& word : words) word = shuffle(mask, word, source, place);
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
inline int distance_in_warp(int distance, Place place) {
  if (distance < 0 || distance >= warpSize) report_distance(distance, place);
  return distance & (warpSize - 1);
}

template <class T, class Change>
__attribute__((noinline, no_sanitize("thread"))) T atomically(T* address, Change change) {
  touch_atomically(__builtin_return_address(0), address, static_cast<int>(sizeof(T)));
  T old;
  std::memcpy(&old, address, sizeof(T));
  const T changed = change(old);
  std::memcpy(address, &changed, sizeof(T));
  return old;
}

}  // namespace rmsnorm::cpu_device

#define RMSNORM_PLACE ::rmsnorm::cpu_device::Place place = {__builtin_FILE(), __builtin_LINE()}

/// Waits for the kernels before this one: they have ended.
inline void cudaGridDependencySynchronize() {
  rmsnorm::cpu_device::wait_for_kernel_before();
}
/// The next kernel begins when this one has ended: the call only counts.
inline void cudaTriggerProgrammaticLaunchCompletion(RMSNORM_PLACE) {
  rmsnorm::cpu_device::trigger(place);
}

inline void __syncthreads(RMSNORM_PLACE) {
  rmsnorm::cpu_device::barrier(place);
}
inline void __syncwarp(unsigned mask = 0xffffffff, RMSNORM_PLACE) {
  rmsnorm::cpu_device::sync_lanes(mask, place);
}
inline void __threadfence() {
  rmsnorm::cpu_device::fence(false);
}
inline void __threadfence_block() {
  rmsnorm::cpu_device::fence(true);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, RMSNORM_PLACE) {
  const int lane = rmsnorm::cpu_device::group(width) + (source & (width - 1));
  return rmsnorm::cpu_device::shuffle_words(mask, value, lane, place);
}
/// A lane whose source would lie outside of its group gets its own value.
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = warpSize, RMSNORM_PLACE) {
  const int own = rmsnorm::cpu_device::lane();
  const int source = own - rmsnorm::cpu_device::distance_in_warp(static_cast<int>(distance), place);
  const bool inside = source >= rmsnorm::cpu_device::group(width);
  return rmsnorm::cpu_device::shuffle_words(mask, value, inside ? source : own, place);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = warpSize, RMSNORM_PLACE) {
  const int own = rmsnorm::cpu_device::lane();
  const int source = own + rmsnorm::cpu_device::distance_in_warp(static_cast<int>(distance), place);
  const bool inside = source < rmsnorm::cpu_device::group(width) + width;
  return rmsnorm::cpu_device::shuffle_words(mask, value, inside ? source : own, place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = warpSize, RMSNORM_PLACE) {
  const int own = rmsnorm::cpu_device::lane();
  const int source = own ^ rmsnorm::cpu_device::distance_in_warp(distance, place);
  const bool inside = source < rmsnorm::cpu_device::group(width) + width;
  return rmsnorm::cpu_device::shuffle_words(mask, value, inside ? source : own, place);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, RMSNORM_PLACE) {
  return rmsnorm::cpu_device::ballot(mask, predicate != 0, place);
}
inline int __any_sync(unsigned mask, int predicate, RMSNORM_PLACE) {
  return rmsnorm::cpu_device::ballot(mask, predicate != 0, place) != 0;
}
inline int __all_sync(unsigned mask, int predicate, RMSNORM_PLACE) {
  return rmsnorm::cpu_device::ballot(mask, predicate == 0, place) == 0;
}

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return rmsnorm::cpu_device::atomically(
      address, [&](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return rmsnorm::cpu_device::atomically(address, [&](T old) { return std::min(old, value); });
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return rmsnorm::cpu_device::atomically(address, [&](T old) { return std::max(old, value); });
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return rmsnorm::cpu_device::atomically(address, [&](T) { return value; });
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return rmsnorm::cpu_device::atomically(
      address, [&](T old) { return old == expected ? value : old; });
}

inline float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}
inline double rsqrt(double x) {
  return 1 / std::sqrt(x);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __frcp_rn(float x) {
  return 1 / x;
}
inline float __fsqrt_rn(float x) {
  return std::sqrt(x);
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
inline int __float_as_int(float value) {
  return std::bit_cast<int>(value);
}
inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline float __int_as_float(int bits) {
  return std::bit_cast<float>(bits);
}
inline long long __double_as_longlong(double value) {
  return std::bit_cast<long long>(value);
}
inline double __longlong_as_double(long long bits) {
  return std::bit_cast<double>(bits);
}
/// The lower half of the 64 bits high:low, shifted right by `shift` modulo 32.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((std::uint64_t{high} << 32) | low) >> (shift % 32));
}
inline int __popc(unsigned bits) {
  return std::popcount(bits);
}
inline int __clz(int bits) {
  return std::countl_zero(static_cast<unsigned>(bits));
}
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}

// Loads and stores with a hint for the caches, of which this device has none. Macros, so that the
// access is that of the kernel's line.
#define __ldg(...) (*(__VA_ARGS__))
#define __ldcs(...) (*(__VA_ARGS__))
#define __ldcg(...) (*(__VA_ARGS__))
#define __stcs(address, value) (void)(*(address) = (value))
#define __stcg(address, value) (void)(*(address) = (value))

/// Of any two numbers, also of different types.
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
