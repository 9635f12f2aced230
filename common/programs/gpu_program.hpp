#pragma once
/// \file
/// What programs that measure a GPU do alike: read the command line, and report what failed.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "common/base/cuda_check.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/terminal.hpp"
#include "common/measure/gpu.hpp"

namespace rmsnorm {

/// Parses the command line, then calls work(). A mistake or an exception becomes one sentence on
/// stderr and an exit code. \tparam Wrong  what work() throws where a kernel gave wrong results
template <class Wrong, class Work>
int run_gpu_program(CLI::App& app, int argc, const char* const* argv, Work work) {
  const auto ended = [](ExitCode exit_code, const std::string& sentence) {
    end_progress();
    fmt::print(stderr, "{}\n", sentence);
    return exit_code;
  };
  try {
    app.parse(argc, argv);
    work();
    return kAllVerified;
  } catch (const CLI::Success& success) {  // --help
    return app.exit(success);
  } catch (const CLI::Error& error) {
    return ended(kBadUsage, fmt::format("{} (--help lists the options)", error.what()));
  } catch (const NoGpu& error) {
    return ended(kNoDevice, error.what());
  } catch (const CudaError& error) {
    return ended(kNoDevice, fmt::format("stopped: {}", error.what()));
  } catch (const Wrong& error) {
    return ended(kLessonWrong, error.what());
  } catch (const std::runtime_error& error) {
    return ended(kBadUsage, error.what());
  }
}

}  // namespace rmsnorm
