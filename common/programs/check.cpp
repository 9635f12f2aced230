#include "common/programs/check.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/measure/gpu.hpp"
#include "common/programs/report.hpp"
#include "common/programs/trace_report.hpp"

namespace rmsnorm {
namespace {

/// The problems whose traffic is compared with the prediction.
std::vector<Counted> counted_for(const Implementation& implementation) {
  std::vector<Counted> counted;
  for (const Shape shape : {Shape{64, 4096}, Shape{256, 128}}) {
    counted.push_back({shape});
    if (!implementation.is_typed) continue;
    for (const char* const name : {"bf16", "fp16/fp32", "bf16/none"}) {
      counted.push_back({shape, *types_named(name)});
    }
  }
  return counted;
}

/// Checks one implementation and says how it went.
ExitCode check(const Implementation& implementation, GauntletLimits limits) {
  limits.counted = counted_for(implementation);
  const GauntletResult verdict = run_gauntlet(implementation, limits);
  const auto fail = [&](const std::string& sentence) {
    fmt::print("{}\n", failed_line(implementation.slug, sentence));
    return kLessonWrong;
  };
  if (const std::size_t at = verdict.last_reason.find(kNeedsGpu);
      verdict.right == 0 && at != std::string::npos) {
    fmt::print("{}\n", skipped_line(implementation.slug, "it" + verdict.last_reason.substr(at)));
    return kNoDevice;
  }
  if (!verdict.ok()) return fail(text_of(verdict));
  for (const Watched& launch : verdict.launches) {
    const std::string difference = difference_from_prediction(launch);
    if (difference.empty()) continue;
    return fail(fmt::format(
        "on {} x {}{}:\n  {}\n{}", launch.rows, launch.hidden,
        with_dtype("", to_string(launch.types)), difference, line_table(launch)));
  }
  std::string text = fmt::format(
      "right on {} problems{}{}\n", verdict.right,
      verdict.drawn == 0 ? ""
                         : fmt::format(", {} of all drawn by seed {}", verdict.drawn, limits.seed),
      can_watch() ? "; no mistakes seen; traffic as predicted" : "");
  if (verdict.unsupported > 0) {
    text += fmt::format(
        "  does not support {} (the last: {})\n", verdict.unsupported, verdict.last_reason);
  }
  for (const Watched& launch : verdict.launches) text += cost_table({launch});
  fmt::print("{:27} PASS  {}", implementation.slug, text);
  return kAllVerified;
}

}  // namespace

int check_implementations(
    const std::vector<Implementation>& implementations, const GauntletLimits& limits) {
  if (implementations.empty()) {
    fmt::print(stderr, "the file registers no kernel: it needs a rmsnorm::Registration\n");
    return kBadUsage;
  }
  try {
    const Gpu gpu = find_gpu();
    fmt::print(stderr, "checking on {}\n", is_cpu_device() ? "the CPU device" : gpu.name);
    ExitCode worst = kAllVerified;
    for (const Implementation& implementation : implementations) {
      const ExitCode found = check(implementation, limits);
      if (worst != kLessonWrong && found != kAllVerified) worst = found;
    }
    return worst;
  } catch (const NoGpu& reason) {
    fmt::print(stderr, "{}\n", reason.what());
    return kNoDevice;
  } catch (const std::exception& error) {
    fmt::print("\nFAIL  {}\n", error.what());
    return kLessonWrong;
  }
}

}  // namespace rmsnorm
