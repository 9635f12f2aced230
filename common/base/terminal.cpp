#include "common/base/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace rmsnorm {

void progress(std::string_view what) {
  if (isatty(STDERR_FILENO) != 0) {  // [?7l: what is wider than the terminal is cut
    fmt::print(stderr, "\r\033[K\033[?7l{} ...\033[?7h", what);
    return;
  }
  using Clock = std::chrono::steady_clock;
  static Clock::time_point last = Clock::now();
  if (Clock::now() - last < std::chrono::seconds(10)) return;
  last = Clock::now();
  fmt::print(stderr, "{} ...\n", cut(what, width_of(STDERR_FILENO) - 4));
}

void end_progress() {
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
}

bool wants_colour(int file_descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(file_descriptor) != 0 && (no_colour == nullptr || *no_colour == '\0');
}

int width_of(int file_descriptor) {
  constexpr int kMost = 100;
  winsize size{};
  if (ioctl(file_descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kMost;
  return std::min<int>(kMost, size.ws_col);
}

int columns_of(std::string_view text) {
  int columns = 0;
  bool in_colour = false;
  for (const char c : text) {
    if (c == '\033') in_colour = true;
    const bool goes_on = (static_cast<unsigned char>(c) & 0xC0) == 0x80;  // of the same character
    if (!in_colour && !goes_on) ++columns;
    if (c == 'm') in_colour = false;
  }
  return columns;
}

std::string wrapped(std::string_view text, int columns, int indent) {
  std::string all;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
    const auto in_front = std::max(first, static_cast<std::size_t>(indent));
    std::size_t begin = first;  // no line is broken in front of its first word
    while (columns_of(line) > columns) {
      std::size_t at = line.size();
      do {
        at = line.find_last_of(' ', at - 1);
      } while (at != line.npos && at > begin && columns_of(line.substr(0, at)) > columns);
      if (at == line.npos || at <= begin) at = line.find(' ', begin + 1);  // a longer word
      if (at == line.npos) break;
      all += line.substr(0, line.find_last_not_of(' ', at) + 1) + "\n";
      const std::size_t next = std::min(line.find_first_not_of(' ', at), line.size());
      line = std::string(in_front, ' ') + line.substr(next);
      begin = in_front;
    }
    all += line + "\n";
  }
  if (!text.ends_with('\n') && !all.empty()) all.pop_back();
  return all;
}

std::string cut(std::string_view line, int columns) {
  if (columns_of(line) <= columns) return std::string(line);
  constexpr std::string_view kMore = "...";
  std::string shown(line);
  while (!shown.empty() && columns_of(shown) + static_cast<int>(kMore.size()) > columns) {
    while ((static_cast<unsigned char>(shown.back()) & 0xC0) == 0x80) shown.pop_back();
    shown.pop_back();
  }
  return shown + std::string(kMore);
}

}  // namespace rmsnorm
