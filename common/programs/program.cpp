#include "common/programs/program.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>

#include "common/base/cuda_check.hpp"
#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/terminal.hpp"
#include "common/measure/gpu.hpp"
#include "common/programs/options.hpp"
#include "common/programs/output.hpp"
#include "common/programs/prediction.hpp"
#include "common/programs/report.hpp"
#include "common/programs/runner.hpp"
#include "common/programs/schedule.hpp"
#include "common/records/csv.hpp"

namespace rmsnorm {
namespace {

std::string describe_gpu(const Gpu& gpu) {
  return fmt::format(
      "{}, driver {}, {} SMs, {} MiB L2, {:.0f} GB/s peak", gpu.name, gpu.driver,
      gpu.multiprocessors, gpu.l2_bytes >> 20, gpu.peak_gbps);
}

/// The GPU, or a line for each implementation that needs one, with the reason why it cannot run.
std::optional<Gpu> find_gpu_or_say(const Options& options, ExitCode& exit_code) {
  std::vector<Implementation> on_gpu = options.implementations;
  std::erase_if(on_gpu, [](const Implementation& i) { return i.memory == Memory::host; });
  if (on_gpu.empty()) return std::nullopt;  // lesson 01 needs no GPU, not even a broken one
  try {
    const Gpu gpu = find_gpu();
    if (!is_cpu_device()) fmt::print(stderr, "{}\n", describe_gpu(gpu));
    return gpu;
  } catch (const std::runtime_error& error) {
    for (const Implementation& implementation : on_gpu) {
      fmt::print(
          "{}\n",
          wrapped(skipped_line(implementation.slug, error.what()), width_of(STDOUT_FILENO)));
    }
  }
  exit_code = kNoDevice;
  return std::nullopt;
}

std::string grade_by(
    const Options& options, const std::vector<Result>& results, std::string_view whose) {
  return graded_prediction(
      *options.predicted, options.implementations.front().slug, options.implementations.back().slug,
      options.regimes.front(), results, whose);
}

std::string grade_by_record(const Options& options) {
  const std::vector<Result> recorded = read_csv(options.recorded_file);
  try {
    return grade_by(options, recorded, "recorded");
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("{}: {}", options.recorded_file, error.what()));
  }
}

/// What was asked for is larger than the memory, or the GPU was lost: nothing more can be run.
ExitCode stopped(const std::string& why) {
  end_progress();
  fmt::print(stderr, "{}\n", why);
  return kNoDevice;
}

ExitCode run_schedule(const Options& options, const std::optional<Gpu>& gpu, Output& output) {
  try {
    const Schedule schedule = make_schedule(options, gpu);
    for (const std::string& note : schedule.notes) output.add_note(note);
    for (const Job& job : schedule.jobs) run_job(job, gpu, options.min_seconds, output);
  } catch (const TooLarge& error) {
    return stopped(error.what());
  } catch (const std::bad_alloc&) {
    return stopped("this machine has not enough memory for the problem");
  } catch (const CudaError& error) {
    return stopped(fmt::format("stopped: {}", error.what()));
  }
  return kAllVerified;
}

int run(const Options& options, std::vector<Result>* results) {
  ExitCode exit_code = kAllVerified;
  const std::optional<Gpu> gpu = find_gpu_or_say(options, exit_code);
  Output output(options);
  // What cannot be graded is found out before anything is done in vain.
  const bool is_recorded = options.predicted && is_cpu_device();
  const std::string grades = is_recorded ? grade_by_record(options) : "";

  if (const ExitCode ended = run_schedule(options, gpu, output); ended != kAllVerified) {
    exit_code = ended;
  }
  if (results != nullptr) *results = output.results();
  if (output.results().empty() && exit_code == kAllVerified) {
    fmt::print(stderr, "nothing to run: some operations have a regime of their own\n");
    exit_code = kBadUsage;
  }
  try {
    output.save();
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "{}\n", error.what());
    exit_code = kBadUsage;
  }
  output.print_end();
  if (output.is_any_wrong()) return kLessonWrong;
  if (options.predicted && exit_code == kAllVerified) {
    fmt::print("\n{}", is_recorded ? grades : grade_by(options, output.results(), "measured now"));
  }
  return exit_code;
}

}  // namespace

int run_program(
    int argc, const char* const* argv, const std::vector<Implementation>& implementations,
    std::vector<Result>* results) {
  const ParsedOptions parsed = parse_options(argc, argv, implementations);
  if (parsed.exit_code) return *parsed.exit_code;
  if (parsed.options.list) {
    const std::string list = implementation_list(parsed.options.implementations);
    fmt::print("{}", wrapped(list, width_of(STDOUT_FILENO), 57));
    return kAllVerified;
  }
  try {
    if (parsed.options.l2) {
      fmt::print("{}\n", find_gpu().l2_bytes >> 20);
      return kAllVerified;
    }
    return run(parsed.options, results);
  } catch (const NoGpu& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kNoDevice;
  } catch (const CudaError& error) {
    fmt::print(stderr, "the GPU cannot be used: {}\n", error.what());
    return kNoDevice;
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kBadUsage;
  }
}

}  // namespace rmsnorm
