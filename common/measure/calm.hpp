#pragma once
/// \file
/// What is timed while something holds the GPU's clocks down is timed again.

#include <functional>
#include <optional>

#include "common/measure/benchmark.hpp"

namespace rmsnorm {

/// What NVML's reasons for lower clocks (nvml.hpp) say. That the GPU is idle, or that somebody has
/// set its clocks, is no disturbance.
std::optional<Disturbance> disturbance_of(unsigned long long reasons);

/// Repeats what was disturbed, in the hope that the GPU gets its clocks back.
class Calm {
 public:
  /// Looks whether something holds the clocks down: to be called while the GPU works.
  using Look = std::function<void()>;
  /// What holds them down at this moment; nothing also where nobody can tell.
  using Reading = std::function<std::optional<Disturbance>()>;
  /// Leaves the GPU alone for so many seconds, and says why.
  using Rest = std::function<void(Disturbance why, int seconds)>;

  static constexpr int kRepeats = 3;  ///< of one measurement, at most
  static constexpr int kInVain = 3;   ///< measurements in a row that no repeat has helped, at most

  /// With the GPU's own reading and rest, or a test's.
  Calm(Reading reading, Rest rest);

  /// What measure(look) returns. If a look found something, the GPU rests and measure is called
  /// again, kRepeats times at most; what stays disturbed says so. After kInVain of those in a row
  /// the next is measured once: a GPU that is always at its cap would do little but rest.
  Timing timed(const std::function<Timing(const Look& look)>& measure);

 private:
  Reading reading_;
  Rest rest_;
  int in_vain_ = 0;
};

}  // namespace rmsnorm
