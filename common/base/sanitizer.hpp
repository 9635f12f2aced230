#pragma once
/// \file
/// Whether AddressSanitizer watches this build, and what it has to be told.

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define RMSNORM_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RMSNORM_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef RMSNORM_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace rmsnorm {

/// From now on, nobody may touch these bytes.
inline void make_inaccessible([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#ifdef RMSNORM_ADDRESS_SANITIZER
  __asan_poison_memory_region(data, bytes);
#endif
}

/// From now on, everybody may.
inline void make_accessible([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#ifdef RMSNORM_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(data, bytes);
#endif
}

}  // namespace rmsnorm
