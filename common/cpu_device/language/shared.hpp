#pragma once
/// \file
/// What __shared__ declarations become.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/cpu_device/scheduler/arrival.hpp"
#include "common/cpu_device/scheduler/shared_memory.hpp"

namespace rmsnorm::cpu_device {

// These are no code of the kernel's, whose loads would be watched.

/// The number of the launch.
std::uint64_t launch_number();
/// SharedMemory::reserve(), of the running block.
void reserve_shared(
    SharedVariable& variable, std::size_t bytes, std::size_t alignment, std::size_t element_bytes,
    const char* name, SourceLocation location, const bool* padding);
/// The memory that a launch asks for as its third argument, as its declaration calls it.
void* dynamic_memory(std::size_t element_bytes, const char* name);

/// For each byte of a T whether it is padding; clang cannot tell.
template <class T>
std::array<bool, sizeof(T)> padding_of() {
  std::array<bool, sizeof(T)> is_padding{};
#if defined(__GNUC__) && !defined(__clang__)
  if constexpr (std::is_class_v<T> && std::is_trivially_copyable_v<T>) {
    alignas(T) unsigned char bytes[sizeof(T)];
    std::memset(bytes, 0xff, sizeof(T));
    __builtin_clear_padding(reinterpret_cast<T*>(bytes));
    for (std::size_t i = 0; i < sizeof(T); ++i) is_padding[i] = bytes[i] == 0;
  }
#endif
  return is_padding;
}

/// What `__shared__ T name;` becomes.
template <class T, std::size_t alignment = alignof(T)>
T& shared(
    SharedVariable& variable, const char* name,
    SourceLocation location = {__builtin_FILE(), __builtin_LINE()}) {
  using Element = std::remove_all_extents_t<T>;
  if (variable.launch != launch_number()) {
    const auto before = path_hash;  // only one thread comes this one
    const auto padding = padding_of<std::remove_cv_t<Element>>();
    reserve_shared(variable, sizeof(T), alignment, sizeof(Element), name, location, padding.data());
    path_hash = before;
  }
  return *static_cast<T*>(variable.data);
}

/// What `extern __shared__ T name[];` becomes.
template <class T>
T* dynamic_shared(const char* name) {
  return static_cast<T*>(dynamic_memory(sizeof(T), name));
}

}  // namespace rmsnorm::cpu_device
