#pragma once
/// \file
/// By which results a lesson and what it starts from are compared: predictions and charts agree.

#include <string>
#include <vector>

#include "common/contract/cache.hpp"
#include "common/records/result.hpp"

namespace rmsnorm {

/// The results of two implementations; null where there is none.
struct Compared {
  const Result* before;  ///< of what the lesson starts from
  const Result* lesson;  ///< of the lesson
};

/// Their results in a regime, with this state of the cache or not timed. They are in bf16, in which
/// a lesson that knows it is used, and in fp32 where there are none in bf16. Where `before` refuses
/// bf16, both are in fp32: they have to do the same.
Compared compared(
    const std::vector<Result>& results, const std::string& before, const std::string& lesson,
    const std::string& regime, Cache cache);

}  // namespace rmsnorm
