#include "common/cpu_device/runtime/device_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/base/sanitizer.hpp"

namespace rmsnorm::cpu_device {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 43;  // addresses cost nothing
constexpr std::size_t kPage = 4096;

/// What has been given, and what is to be given.
struct Addresses {
  char* begin;
  char* next;
};

Addresses& addresses() {
  static Addresses all = [] {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const begin = mmap(nullptr, kBytes, PROT_NONE, kFlags, -1, 0);
    auto* const first = begin == MAP_FAILED ? nullptr : static_cast<char*>(begin);
    // Addresses before the first tensor are the device's, too.
    return Addresses{first, first == nullptr ? first : first + kBytes / 2};
  }();
  return all;
}

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

/// Maps the pattern, of whole pages, as often as it takes to fill the pages.
bool repeat(char* pages, std::size_t bytes, std::string_view pattern) {
  const int file = memfd_create("pattern", 0);
  bool is_there = file >= 0 && write(file, pattern.data(), pattern.size()) == std::ssize(pattern);
  for (std::size_t at = 0; at < bytes && is_there; at += pattern.size()) {
    is_there = mmap(
                   pages + at, std::min(pattern.size(), bytes - at), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, file, 0) != MAP_FAILED;
  }
  if (file >= 0) close(file);
  return is_there;
}

}  // namespace

char* take_addresses(std::size_t bytes) {
  Addresses& all = addresses();
  const std::size_t pages = whole_pages(bytes);
  const auto given = static_cast<std::size_t>(all.next - all.begin);
  if (all.begin == nullptr || pages + kPage > kBytes - given) return nullptr;
  all.next += pages + kPage;  // a page between two that nobody may touch
  return all.next - pages - kPage;
}

char* take_device_memory(std::size_t bytes) {
  char* const data = take_addresses(bytes);
  const std::size_t pages = whole_pages(bytes);
  if (data == nullptr || mprotect(data, pages, PROT_READ | PROT_WRITE) != 0) return nullptr;
  std::memset(data, 0xff, bytes);
  make_inaccessible(data + bytes, pages - bytes);
  return data;
}

char* take_repeated_memory(std::size_t bytes, std::string_view pattern) {
  char* const data = take_addresses(bytes);
  return data != nullptr && repeat(data, bytes, pattern) ? data : nullptr;
}

bool set_repeated_memory(char* data, std::size_t bytes, int value) {
  constexpr std::size_t kPattern = 1 << 24;  // a process may have 65530 mappings
  const auto before = (kPage - reinterpret_cast<std::uintptr_t>(data) % kPage) % kPage;
  const std::size_t first = std::min(before, bytes);
  const std::size_t pages = (bytes - first) / kPage * kPage;
  std::memset(data, value, first);
  std::memset(data + first + pages, value, bytes - first - pages);
  return repeat(data + first, pages, std::string(kPattern, static_cast<char>(value)));
}

void give_back_device_memory(char* data, std::size_t bytes) {
  madvise(data, whole_pages(bytes), MADV_DONTNEED);
  mprotect(data, whole_pages(bytes), PROT_NONE);
}

bool is_device_address(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto begin = reinterpret_cast<std::uintptr_t>(addresses().begin);
  return at - begin < kBytes;
}

}  // namespace rmsnorm::cpu_device
