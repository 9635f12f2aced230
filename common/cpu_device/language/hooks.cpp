/// \file
/// The functions that a compiler calls at each load and store under -fsanitize=thread. The
/// sanitizer itself is not linked: here, they lead to the watcher.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/base/sanitizer.hpp"
#include "common/cpu_device/device.hpp"
#include "common/cpu_device/language/kernel_language.hpp"
#include "common/cpu_device/language/vectors.hpp"

using rmsnorm::cpu_device::AccessKind;
using rmsnorm::cpu_device::device;
using rmsnorm::cpu_device::in_watched_kernel;
using rmsnorm::cpu_device::running;

constexpr int kWidest = 16;  // bytes: a GPU moves more in parts

void rmsnorm::cpu_device::copy_vector(const void* caller, void* to, const void* from, int bytes) {
  for (int i = 0; in_watched_kernel && i < bytes; i += kWidest) {
    const int part = std::min(kWidest, bytes - i);
    device().watch.access({caller, static_cast<const char*>(from) + i, part, AccessKind::load});
    device().watch.access({caller, static_cast<const char*>(to) + i, part, AccessKind::store});
  }
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

namespace {

/// Slow path, not inlined: most calls end at the question whether anybody watches.
[[gnu::noinline]] void report(const void* pc, const void* address, int bytes, AccessKind kind) {
  device().watch.access({pc, address, bytes, kind});
}

inline void on_access(const void* pc, const void* address, int bytes, AccessKind kind) {
  if (in_watched_kernel) [[unlikely]]
    report(pc, address, bytes, kind);
}

/// Volatile access: it may be a flag that another thread waits for.
void on_volatile_access(const void* pc, const void* address, int bytes, AccessKind kind) {
  constexpr rmsnorm::cpu_device::Strength kRelaxed{
      .scope = rmsnorm::cpu_device::Scope::system, .is_volatile = true};
  if (kind == AccessKind::load) {
    rmsnorm::cpu_device::on_strong_load(pc, address, bytes, kRelaxed);
  } else {
    rmsnorm::cpu_device::on_strong_store(pc, address, bytes, kRelaxed);
  }
}

/// Struct access: in parts of 16 or 8 bytes where its size and its address allow, as a vector;
/// else word by word, or byte by byte.
void on_struct_access(const void* pc, const void* address, std::size_t bytes, AccessKind kind) {
  if (!in_watched_kernel) return;
  const auto is_multiple = [&](std::size_t part) {
    return bytes % part == 0 && reinterpret_cast<std::uintptr_t>(address) % part == 0;
  };
  std::size_t part = is_multiple(4) ? 4 : 1;
  if (is_multiple(8)) part = is_multiple(16) ? 16 : 8;
  for (std::size_t i = 0; i < bytes; i += part) {
    report(pc, static_cast<const char*>(address) + i, static_cast<int>(part), kind);
  }
}

}  // namespace

void rmsnorm::cpu_device::on_whole_load(
    const void* caller, const void* data, std::size_t bytes, bool is_read_only) {
  if (is_read_only) device().watch.read_only(caller, data, static_cast<int>(bytes));
  if (!std::has_single_bit(bytes)) return on_struct_access(caller, data, bytes, AccessKind::load);
  for (std::size_t i = 0; i < bytes; i += kWidest) {
    const auto part = std::min(kWidest, static_cast<int>(bytes));
    on_access(caller, static_cast<const char*>(data) + i, part, AccessKind::load);
  }
}

#define RMSNORM_HOOK(name, on, bytes, kind)                            \
  void __tsan_##name##bytes(void* address) {                           \
    on(__builtin_return_address(0), address, bytes, AccessKind::kind); \
  }
#define RMSNORM_HOOKS_OF_SIZE(bytes)                             \
  RMSNORM_HOOK(read, on_access, bytes, load)                     \
  RMSNORM_HOOK(write, on_access, bytes, store)                   \
  RMSNORM_HOOK(volatile_read, on_volatile_access, bytes, load)   \
  RMSNORM_HOOK(volatile_write, on_volatile_access, bytes, store) \
  RMSNORM_HOOK(unaligned_read, on_struct_access, bytes, load)    \
  RMSNORM_HOOK(unaligned_write, on_struct_access, bytes, store)

extern "C" {

RMSNORM_HOOKS_OF_SIZE(1)
RMSNORM_HOOKS_OF_SIZE(2)
RMSNORM_HOOKS_OF_SIZE(4)
RMSNORM_HOOKS_OF_SIZE(8)
RMSNORM_HOOKS_OF_SIZE(16)

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// Copies of whole structs.
void __tsan_read_range(void* address, std::size_t bytes) {
  on_struct_access(__builtin_return_address(0), address, bytes, AccessKind::load);
}
void __tsan_write_range(void* address, std::size_t bytes) {
  on_struct_access(__builtin_return_address(0), address, bytes, AccessKind::store);
}
void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) {
  on_struct_access(__builtin_return_address(0), from, bytes, AccessKind::load);
  on_struct_access(__builtin_return_address(0), to, bytes, AccessKind::store);
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, std::size_t bytes) {
  on_struct_access(__builtin_return_address(0), from, bytes, AccessKind::load);
  on_struct_access(__builtin_return_address(0), to, bytes, AccessKind::store);
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, std::size_t bytes) {
  on_struct_access(__builtin_return_address(0), to, bytes, AccessKind::store);
  return std::memset(to, value, bytes);
}

#ifndef RMSNORM_ADDRESS_SANITIZER
/// What -fsanitize=bounds says of an array, and of a place.
struct OutOfBounds {
  const char* file;
  std::uint32_t line;
  std::uint32_t column;
  const struct Type {
    std::uint16_t kind;
    std::uint16_t info;
    char name[1];  // "'float [4]'"
  } * array;
};
void __ubsan_handle_out_of_bounds(OutOfBounds* at, std::uintptr_t index) {
  if (!in_watched_kernel) return;
  const rmsnorm::cpu_device::NotWatching guard;
  const rmsnorm::cpu_device::SourceLocation location{at->file, static_cast<int>(at->line)};
  running->report(
      rmsnorm::cpu_device::mistakes::kIndexBeyond, location,
      {running->current(), static_cast<std::intptr_t>(index), at->array->name});
}
#endif

// Atomic operations of the C++ library, in the host parts.
#define RMSNORM_ATOMIC_CHANGE(bits, name, change)                         \
  std::uint##bits##_t __tsan_atomic##bits##_##name(                       \
      volatile std::uint##bits##_t* to, std::uint##bits##_t value, int) { \
    return __atomic_##change(to, value, __ATOMIC_SEQ_CST);                \
  }
#define RMSNORM_ATOMIC_HOOKS(bits)                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* from, int) { \
    return __atomic_load_n(from, __ATOMIC_SEQ_CST);                                               \
  }                                                                                               \
  void __tsan_atomic##bits##_store(                                                               \
      volatile std::uint##bits##_t* to, std::uint##bits##_t value, int) {                         \
    __atomic_store_n(to, value, __ATOMIC_SEQ_CST);                                                \
  }                                                                                               \
  RMSNORM_ATOMIC_CHANGE(bits, exchange, exchange_n)                                               \
  RMSNORM_ATOMIC_CHANGE(bits, fetch_add, fetch_add)                                               \
  RMSNORM_ATOMIC_CHANGE(bits, fetch_sub, fetch_sub)                                               \
  int __tsan_atomic##bits##_compare_exchange_strong(                                              \
      volatile std::uint##bits##_t* at, std::uint##bits##_t* expected, std::uint##bits##_t value, \
      int, int) {                                                                                 \
    return __atomic_compare_exchange_n(                                                           \
        at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                          \
  }

RMSNORM_ATOMIC_HOOKS(8)
RMSNORM_ATOMIC_HOOKS(32)
RMSNORM_ATOMIC_HOOKS(64)

}  // extern "C"
