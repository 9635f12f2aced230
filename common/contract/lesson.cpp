#include "common/contract/lesson.hpp"

#include <fmt/format.h>

namespace rmsnorm {

std::string unsupported_types(const char* slug, const Problem& p) {
  if (types_of(p) == Types{}) return "";
  std::string who = slug;  // "02_naive", "02_naive as 'thread_per_row'"
  if (const std::size_t slash = who.find('/'); slash != who.npos)
    who.replace(slash, 1, " as '").push_back('\'');
  return fmt::format("{} knows fp32 alone: its kernel takes float*, and adds no bias", who);
}

std::int64_t shared_memory_of_block() {
  int most = 0;
  cuda_check(
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
      "asking for a block's shared memory");
  return most;
}

}  // namespace rmsnorm
