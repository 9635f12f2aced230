/// \file
/// What kernels print.

#include <cstdarg>
#include <cstdio>

#include "common/cpu_device/runtime/crash.hpp"
#include "common/cpu_device/runtime/runtime_api.hpp"

namespace rmsnorm::cpu_device {

int print(const char* format, ...) {
  constexpr int kMost = 20;
  static int printed = 0;
  if (is_in_kernel() && printed > kMost) return 0;
  if (is_in_kernel() && printed++ == kMost) {
    std::printf("\nwhat kernels print from here on is not shown\n");
    return 0;
  }
  va_list arguments;
  va_start(arguments, format);
  const int written = std::vprintf(format, arguments);
  va_end(arguments);
  return written;
}

}  // namespace rmsnorm::cpu_device
