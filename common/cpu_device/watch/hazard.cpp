#include "common/cpu_device/watch/hazard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/cpu_device/runtime/source_lines.hpp"

namespace rmsnorm::cpu_device {

std::string text_of(uint3 location) {
  if (location.y == 0 && location.z == 0) return fmt::format("{}", location.x);
  return fmt::format("({}, {}, {})", location.x, location.y, location.z);
}

std::string Hazard::text() const {
  std::string where = file.empty() ? "" : fmt::format("{}:{}: ", file, line);
  const std::string owner = owner_of(file);
  if (!owner.empty()) where.insert(where.size() - 2, fmt::format(" (a file of {})", owner));
  if (kernel.empty()) return fmt::format("{}{}. {}", where, what, advice);
  return fmt::format(
      "{}{} (kernel {}, block {}, thread {}). {}", where, what, kernel, text_of(block),
      text_of(thread), advice);
}

void Hazards::add(const std::string& key, const std::function<Hazard()>& describe) {
  constexpr std::size_t kMost = 20;  // nobody reads more
  if (keys_.size() >= kMost || std::find(keys_.begin(), keys_.end(), key) != keys_.end()) return;
  keys_.push_back(key);
  hazards_.push_back(describe());
}

std::vector<Hazard> Hazards::take() {
  keys_.clear();
  std::stable_partition(
      hazards_.begin(), hazards_.end(), [](const Hazard& hazard) { return !hazard.is_symptom; });
  return std::exchange(hazards_, {});
}

}  // namespace rmsnorm::cpu_device
