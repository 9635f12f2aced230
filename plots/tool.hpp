#pragma once
/// \file
/// What the two programs of this folder do alike: read the command line, and report what failed.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

namespace rmsnorm::plots {

enum ExitCode { kDone = 0, kFailed = 1, kBadUsage = 2 };

/// Parses the command line, then returns what work() returns. A mistake or an exception becomes one
/// sentence on stderr and an exit code.
template <class Work>
int run_tool(CLI::App& app, int argc, const char* const* argv, Work work) {
  try {
    app.parse(argc, argv);
    return work();
  } catch (const CLI::Success& success) {  // --help
    return app.exit(success);
  } catch (const CLI::Error& error) {
    fmt::print(stderr, "{} (--help lists the options)\n", error.what());
    return kBadUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kFailed;
  }
}

}  // namespace rmsnorm::plots
