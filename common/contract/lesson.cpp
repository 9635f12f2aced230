#include "common/contract/lesson.hpp"

#include <fmt/format.h>

#include <string_view>

namespace rmsnorm {

std::string unsupported_types(const char* slug, const Problem& p) {
  if (types_of(p) == Types{}) return "";
  const std::string_view name = slug;
  return fmt::format(
      "{} knows fp32 alone: its kernel takes float*, and adds no bias",
      name.substr(0, name.find('/')));
}

std::int64_t shared_memory_of_block() {
  int most = 0;
  cuda_check(
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
      "asking for a block's shared memory");
  return most;
}

}  // namespace rmsnorm
