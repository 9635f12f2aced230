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

/// The check of one implementation.
class Check {
 public:
  Check(const Implementation& implementation, const GauntletLimits& limits)
      : implementation_(implementation), limits_(limits) {
    // The traffic is compared with the prediction.
    for (const Shape shape : {Shape{64, 4096}, Shape{256, 128}}) {
      limits_.counted.push_back({shape});
      if (!implementation.is_typed) continue;
      for (const char* const name : {"bf16", "fp16/fp32", "bf16/none"}) {
        limits_.counted.push_back({shape, *types_named(name)});
      }
    }
  }

  /// Says how it went.
  ExitCode run() const {
    const GauntletResult verdict = run_gauntlet(implementation_, limits_);
    if (const std::size_t at = verdict.last_reason.find(kNeedsGpu);
        verdict.right == 0 && at != std::string::npos) {
      fmt::print("{}\n", skipped_line(implementation_.slug, "it" + verdict.last_reason.substr(at)));
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
    fmt::print(
        "{:27} PASS  right on {} problems{}{}\n", implementation_.slug, verdict.right,
        verdict.unsupported == 0
            ? ""
            : fmt::format(
                  ", does not support {} (the last: {})", verdict.unsupported, verdict.last_reason),
        can_observe() ? "; no mistakes seen; traffic as predicted" : "");
    for (const Watched& launch : verdict.launches) fmt::print("{}", cost_table({launch}));
    return kAllVerified;
  }

 private:
  ExitCode fail(const std::string& sentence) const {
    fmt::print("{}\n", failed_line(implementation_.slug, sentence));
    return kLessonWrong;
  }

  const Implementation& implementation_;
  GauntletLimits limits_;
};

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
      const ExitCode found = Check(implementation, limits).run();
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
