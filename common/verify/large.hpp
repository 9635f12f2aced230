#pragma once
/// \file
/// A problem of more than 2^32 elements and many rows, on the CPU device: of its launch, few blocks
/// run, and what they store is compared.

#include <string>
#include <vector>

#include "common/contract/lesson.hpp"

namespace rmsnorm {

/// How the name of such a problem ends.
inline constexpr const char* kFewBlocks = ", of which few blocks ran";

/// How a large problem went.
struct LargeResult {
  /// What came of it.
  enum class Verdict {
    right,        ///< every element that was stored is
    wrong,        ///< an element is not, or the launch made a mistake
    none,         ///< the blocks that ran say nothing of the launch
    unsupported,  ///< it supports no such problem
  };
  Verdict verdict = Verdict::none;  ///< on all that ran
  std::string where = {};           ///< the problem: "8264704 x 520, of which few blocks ran"
  std::string why = {};             ///< the complaint, or why there is no verdict
};

/// Tries the implementation on the largest problem of some that it supports. It runs in a process
/// of its own, which may take this many seconds.
LargeResult try_large(const Implementation& implementation, const Types& types, unsigned seconds);

}  // namespace rmsnorm
