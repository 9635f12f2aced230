#pragma once
/// \file
/// What every lesson program does: verify, time, report.

#include <vector>

#include "common/contract/lesson.hpp"
#include "common/records/result.hpp"

namespace rmsnorm {

/// The whole program, for the given implementations; returns its exit code (base/exit_code.hpp).
/// Results go to stdout, everything else to stderr.
/// \param argc  main()'s
/// \param argv  main()'s
/// \param implementations  from which the options choose
/// \param results  takes them, too, if it is not null
int run_program(
    int argc, const char* const* argv, const std::vector<Implementation>& implementations,
    std::vector<Result>* results = nullptr);

}  // namespace rmsnorm
