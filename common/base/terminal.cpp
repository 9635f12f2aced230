#include "common/base/terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace rmsnorm {

void progress(std::string_view what) {
  if (isatty(STDERR_FILENO) != 0) {
    fmt::print(stderr, "\r\033[K{} ...", what);
    return;
  }
  using Clock = std::chrono::steady_clock;
  static Clock::time_point last = Clock::now();
  if (Clock::now() - last < std::chrono::seconds(10)) return;
  last = Clock::now();
  fmt::print(stderr, "{} ...\n", what);
}

void end_progress() {
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
}

bool wants_colour(int file_descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(file_descriptor) != 0 && (no_colour == nullptr || *no_colour == '\0');
}

}  // namespace rmsnorm
