#pragma once
/// \file
/// CUDA's atomic functions, for the types that CUDA has them for. Each is one access, which nothing
/// can interrupt here.

#include <algorithm>
#include <concepts>
#include <cstring>
#include <type_traits>

#include "common/cpu_device/scheduler/access.hpp"

namespace rmsnorm::cpu_device {

/// Reports an atomic operation of the running thread.
void on_atomic(const void* caller, const void* address, int bytes, Strength strength = {});
/// Reports that this operation is about to change something.
void on_atomic_change(const void* caller, const void* address, int bytes, Strength strength);
/// Reports that it reads a flag: others may have to run before that changes.
void on_strong_load(const void* caller, const void* address, int bytes, Strength strength);
/// Reports that it changes a flag.
void on_strong_store(const void* caller, const void* address, int bytes, Strength strength);

/// Reports that an atomic operation has changed memory.
void atomically_changed();

/// \param may_fail whether an operation that changes nothing has not happened, as a comparison that
///                 fails
template <class T, class Change>
__attribute__((noinline, no_sanitize("thread"))) T atomically(
    T* address, Change change, Strength strength = {}, bool may_fail = false) {
  on_atomic(__builtin_return_address(0), address, static_cast<int>(sizeof(T)), strength);
  T old;
  std::memcpy(static_cast<void*>(&old), address, sizeof(T));
  const T changed = change(old);
  const bool is_other = std::memcmp(&changed, &old, sizeof(T)) != 0;
  if (is_other) atomically_changed();
  if (is_other || !may_fail) {
    on_atomic_change(__builtin_return_address(0), address, static_cast<int>(sizeof(T)), strength);
  }
  std::memcpy(static_cast<void*>(address), &changed, sizeof(T));
  return old;
}

/// The value of a flag.
template <class T>
__attribute__((noinline, no_sanitize("thread"))) T load_strong(
    const volatile T* address, Strength strength) {
  const auto* const from = const_cast<const T*>(address);
  on_strong_load(__builtin_return_address(0), from, static_cast<int>(sizeof(T)), strength);
  T value;
  std::memcpy(static_cast<void*>(&value), from, sizeof(T));
  return value;
}

/// Gives a flag a value.
template <class T>
__attribute__((noinline, no_sanitize("thread"))) void store_strong(
    volatile T* address, T value, Strength strength) {
  auto* const to = const_cast<T*>(address);
  on_strong_store(__builtin_return_address(0), to, static_cast<int>(sizeof(T)), strength);
  std::memcpy(static_cast<void*>(to), &value, sizeof(T));
}

template <class T>
concept Integer = std::integral<T> && sizeof(T) >= 4;
template <class T>
concept Integer32 = std::same_as<T, int> || std::same_as<T, unsigned>;
template <class T>
concept Unsigned32 = std::same_as<T, unsigned>;
template <class T>  // a half, or a pair, has operators of its own
concept Addable = Integer<T> || std::floating_point<T> || std::is_class_v<T>;
template <class T>
concept Exchangeable = Integer<T> || std::same_as<T, float>;
template <class T>
concept Comparable = Integer<T> || std::same_as<T, unsigned short>;

}  // namespace rmsnorm::cpu_device

/// The function and its forms for a wider or a narrower scope.
#define RMSNORM_ATOMIC(name, Types, changed)                \
  RMSNORM_ATOMIC_NAMED(name, device, Types, changed)        \
  RMSNORM_ATOMIC_NAMED(name##_block, block, Types, changed) \
  RMSNORM_ATOMIC_NAMED(name##_system, system, Types, changed)
#define RMSNORM_ATOMIC_NAMED(name, scope, Types, changed)                                \
  template <rmsnorm::cpu_device::Types T>                                                \
  inline T name(T* address, std::type_identity_t<T> value) {                             \
    return rmsnorm::cpu_device::atomically(                                              \
        address, [&]([[maybe_unused]] const T& old) { return static_cast<T>(changed); }, \
        {rmsnorm::cpu_device::Scope::scope});                                            \
  }
#define RMSNORM_ATOMIC_CAS(name, scope)                                                        \
  template <rmsnorm::cpu_device::Comparable T>                                                 \
  inline T name(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) { \
    return rmsnorm::cpu_device::atomically(                                                    \
        address, [&](T old) { return old == expected ? value : old; },                         \
        {rmsnorm::cpu_device::Scope::scope}, true);                                            \
  }

RMSNORM_ATOMIC(atomicAdd, Addable, old + value)
RMSNORM_ATOMIC(atomicSub, Integer32, old - value)
RMSNORM_ATOMIC(atomicMin, Integer, std::min(old, value))
RMSNORM_ATOMIC(atomicMax, Integer, std::max(old, value))
RMSNORM_ATOMIC(atomicAnd, Integer, old& value)
RMSNORM_ATOMIC(atomicOr, Integer, old | value)
RMSNORM_ATOMIC(atomicXor, Integer, old ^ value)
RMSNORM_ATOMIC(atomicExch, Exchangeable, value)
RMSNORM_ATOMIC(atomicInc, Unsigned32, old >= value ? 0 : old + 1)
RMSNORM_ATOMIC(atomicDec, Unsigned32, old == 0 || old > value ? value : old - 1)
RMSNORM_ATOMIC_CAS(atomicCAS, device)
RMSNORM_ATOMIC_CAS(atomicCAS_block, block)
RMSNORM_ATOMIC_CAS(atomicCAS_system, system)

#undef RMSNORM_ATOMIC
#undef RMSNORM_ATOMIC_NAMED
#undef RMSNORM_ATOMIC_CAS
