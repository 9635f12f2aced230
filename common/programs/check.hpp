#pragma once
/// \file
/// Checks kernels of a reader's own: right on every problem of the gauntlet, without mistakes that
/// the device sees, and with the traffic that they predict.

#include <string>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/verify/gauntlet.hpp"

namespace rmsnorm {

/// Names the kernels after the file that they are in, where they have the slugs of one lesson and
/// its variants: a reader's changed copy is not called as the lesson is. A variant's name stays
/// behind the slash.
void name_after_file(std::vector<Implementation>& implementations, const std::string& file);

/// Checks the implementations and prints a line for each, or the first failure of one in plain
/// words. Returns an ExitCode (base/exit_code.hpp): kLessonWrong if one is wrong, else kNoDevice if
/// one cannot run on this device, kBadUsage if there are none, and kNotChecked if all are right but
/// a line of theirs has not run.
int check_implementations(
    const std::vector<Implementation>& implementations, GauntletLimits limits = {});

/// The same by the options of a command line, of some of these. Returns an ExitCode.
int run_check(int argc, const char* const* argv, std::vector<Implementation> implementations);

}  // namespace rmsnorm
