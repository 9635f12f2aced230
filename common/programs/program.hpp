#pragma once
/// \file
/// What every lesson program does: verify, time, report.

#include <vector>

#include "common/contract/lesson.hpp"

namespace rmsnorm {

/// The whole program, for the given implementations; returns its exit code (base/exit_code.hpp).
/// Results go to stdout, everything else to stderr.
int run_program(
    int argc, const char* const* argv, const std::vector<Implementation>& implementations);

}  // namespace rmsnorm
