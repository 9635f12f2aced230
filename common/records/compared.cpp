#include "common/records/compared.hpp"

#include <algorithm>

namespace rmsnorm {

Compared compared(
    const std::vector<Result>& results, const std::string& before, const std::string& lesson,
    const std::string& regime, Cache cache) {
  const auto find = [&](const std::string& implementation, const char* dtype) -> const Result* {
    const auto found = std::ranges::find_if(results, [&](const Result& r) {
      return r.implementation == implementation && r.regime == regime && r.dtype == dtype &&
             (!r.cache || r.cache == cache);
    });
    return found == results.end() ? nullptr : &*found;
  };
  const bool lacks_bf16 = std::ranges::any_of(results, [&](const Result& r) {
    return r.implementation == before && r.regime == regime && r.dtype == "bf16" &&
           r.verdict == Verdict::unsupported;
  });
  const auto best = [&](const std::string& implementation) {
    const Result* const in_bf16 = lacks_bf16 ? nullptr : find(implementation, "bf16");
    return in_bf16 != nullptr ? in_bf16 : find(implementation, "fp32");
  };
  return {best(before), best(lesson)};
}

}  // namespace rmsnorm
