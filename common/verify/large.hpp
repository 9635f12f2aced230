#pragma once
/// \file
/// A problem of more than 2^32 elements and many rows, on the CPU device: of its launch, few blocks
/// run, and what they store is compared.

#include <cstdint>
#include <memory>
#include <string>

#include "common/contract/lesson.hpp"
#include "common/verify/process_copy.hpp"

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

/// The largest problem of some that an implementation supports, in a process of its own: at the
/// same time as others.
class LargeTrial {
 public:
  /// Begins it. It may take so many steps (StepLimit).
  LargeTrial(const Implementation& implementation, const Types& types, std::uint64_t steps);
  LargeResult finish();  ///< waits for it

 private:
  LargeResult result_;  ///< what is known without it
  std::unique_ptr<ProcessCopy> copy_;
};

}  // namespace rmsnorm
