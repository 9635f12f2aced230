#include "common/cpu_device/watch/views.hpp"

#include <cstring>

#include "common/cpu_device/watch/bounds.hpp"

namespace rmsnorm::cpu_device {

const void* Views::view(const void* address, CachePolicy policy) {
  address = resolve(address).first;  // it may have a policy already
  if (policy == CachePolicy::normal) return address;
  const Allocation* const of = memory_.find(address);
  if (of == nullptr || of->is_repeated) return address;
  const auto offset = static_cast<const char*>(address) - of->data;
  for (const View& view : views_) {
    if (view.of == of->data && view.policy == policy) return view.data() + offset;
  }
  auto copy = std::make_unique<Line[]>((of->bytes - 1) / sizeof(Line) + 1);
  std::memcpy(copy.get(), of->data, of->bytes);
  views_.push_back({of->data, of->bytes, policy, std::move(copy)});
  return views_.back().data() + offset;
}

std::pair<const void*, CachePolicy> Views::resolve(const void* address) const {
  for (const View& view : views_) {
    if (!is_in(address, view.data(), view.bytes)) continue;
    return {view.of + (static_cast<const char*>(address) - view.data()), view.policy};
  }
  return {address, CachePolicy::normal};
}

const char* to_string(CachePolicy policy) {
  switch (policy) {
    case CachePolicy::normal:
      return "";
    case CachePolicy::evict_last:
      return "evict_last";
    case CachePolicy::evict_first:
      return "evict_first";
  }
  return "";
}

}  // namespace rmsnorm::cpu_device
