#pragma once
/// \file
/// What programs end with.

namespace rmsnorm {

/// The programs' exit codes.
enum ExitCode {
  kAllVerified = 0,  ///< every implementation that ran is right
  kLessonWrong = 1,  ///< at least one is wrong
  kBadUsage = 2,     ///< the command line, or a file, is not as it has to be
  kNoDevice = 3,     ///< there is no device that can run what was asked for
  kGoalMissed = 4,   ///< of an exercise: its kernel is right, but its goal is not reached
  kNotChecked = 5,   ///< a part of the kernel has not run: nobody knows whether it is right
};

}  // namespace rmsnorm
