#include "common/verify/gauntlet.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "common/base/coverage.hpp"
#include "common/base/cuda_check.hpp"
#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/terminal.hpp"
#include "common/verify/attempts.hpp"
#include "common/verify/search.hpp"
#include "common/verify/verifier.hpp"

namespace rmsnorm {
namespace {

/// True of the problems that every kernel is tried on first.
bool is_plain(const Attempt& attempt) {
  const WorkloadSpec& spec = attempt.spec;
  return spec.eps == WorkloadSpec{}.eps && spec.seed == WorkloadSpec{}.seed &&
         !attempt.values.change && spec.types == Types{};
}

/// While it lives, what runs has so many seconds of the CPU, which are no fewer on a busy machine;
/// then the program says a sentence and ends. A kernel of the CPU device cannot be asked to stop:
/// it runs in our own thread.
class TimeLimit {
 public:
  TimeLimit(unsigned seconds, const std::string& sentence) {
    sentence_ = sentence;
    std::fflush(stdout);  // the sentence goes past it
    struct sigaction action {};
    action.sa_handler = give_up;
    action.sa_flags = SA_ONSTACK;  // the device's, while a kernel runs: its own may be short
    sigaction(SIGPROF, &action, &before_);
    end_after(seconds);
  }
  TimeLimit(const TimeLimit&) = delete;
  ~TimeLimit() {
    end_after(0);
    sigaction(SIGPROF, &before_, nullptr);
  }

 private:
  static void end_after(unsigned seconds) {
    const itimerval time = {{}, {static_cast<time_t>(seconds), 0}};
    setitimer(ITIMER_PROF, &time, nullptr);
  }

  static void give_up(int) {
    [[maybe_unused]] const auto written = write(STDOUT_FILENO, sentence_.data(), sentence_.size());
    _exit(kLessonWrong);
  }

  static inline std::string sentence_;
  struct sigaction before_ {};
};

/// The gauntlet of one lesson.
class Gauntlet {
 public:
  Gauntlet(const Implementation& implementation, const GauntletLimits& limits)
      : implementation_(implementation), limits_(limits), search_(implementation, limits.seed) {}

  GauntletResult run() {
    std::vector<Attempt> attempts = attempts_for(implementation_, limits_.counted);
    const Attempt large{{.rows = 4194305, .hidden = 513}};
    if (limits_.beyond_32_bits && has_room_for(large.spec)) attempts.push_back(large);
    bool is_through = std::all_of(
        attempts.begin(), attempts.end(), [&](const Attempt& attempt) { return solves(attempt); });
    while (is_through && can_cover()) {
      const std::optional<Attempt> attempt = search_.next();
      if (!attempt) break;
      is_through = solves(*attempt);
    }
    result_.drawn = search_.drawn();
    if (is_through && result_.right == 0) {
      result_.complaint = "it supports no shape: " + result_.last_reason;
    }
    end_progress();
    return result_;
  }

 private:
  bool solves(const Attempt& attempt) {
    search_.begin(attempt);
    const int unsupported = result_.unsupported;
    const bool is_right = is_right_on(attempt);
    search_.end(result_.unsupported == unsupported);
    return is_right;
  }

  bool is_right_on(const Attempt& attempt) {
    const std::string text = text_of(attempt);
    progress(fmt::format("checking {} on {}", implementation_.slug, text));
    const Workload workload(*implementation_.operation, attempt.spec);
    if (std::string reason = implementation_.unsupported(workload.problem()); !reason.empty()) {
      ++result_.unsupported;
      result_.last_reason = std::move(reason);
      return true;
    }
    implementation_.traffic(workload.problem());  // it is code, too
    if (attempt.values.change) change(workload, attempt.values);
    result_.where = text;
    Verification found = run(workload);
    if (found.ok()) {
      ++result_.right;
      if (attempt.keep_launch && !found.counts.lines.empty()) {
        result_.launches.push_back(
            watched(implementation_, workload, "a check", std::move(found.counts)));
      }
      return true;
    }
    result_.complaint = found.complaint;
    result_.hazards = found.hazards;
    // The device sees neither a thread's own variables nor what was meant. But what is right on
    // plain problems and wrong on others has another reason.
    const bool was_watched = can_watch() && implementation_.memory == Memory::device;
    if (was_watched && found.hazards.empty() && found.mismatch && is_plain(attempt) &&
        !found.is_second) {
      const float got = found.mismatch->got;
      const bool is_no_result = !std::isfinite(got) || got == 0 || std::abs(got) > 1e30f;
      result_.advice = is_no_result
                           ? "no mistake was seen on the way: is a variable read before it is "
                             "written, as one is where a __shared__ is missing?"
                           : "no mistake was seen on the way: is a __shared__ missing, an index or "
                             "a bound of a loop off, or the formula wrong?";
    }
    return false;
  }

  Verification run(const Workload& workload) const {
    const unsigned seconds = limits_.seconds_for_one;
    const std::string why = fmt::format(
        "on {}: no end after {} s: is there a loop that never ends?\n", result_.where, seconds);
    const std::string behind_progress = isatty(STDERR_FILENO) != 0 ? "\n" : "";
    std::optional<TimeLimit> limit;
    if (is_cpu_device()) {
      limit.emplace(seconds, behind_progress + limits_.failed(implementation_.slug, why));
    }
    return verify(implementation_, workload, nullptr, Watch::yes);
  }

  bool has_room_for(const WorkloadSpec& spec) const {
    if (implementation_.memory == Memory::host || is_cpu_device()) return false;  // takes minutes
    std::size_t free = 0;
    std::size_t total = 0;
    cuda_check(cudaMemGetInfo(&free, &total), "asking for the free memory");
    return Workload::bytes(*implementation_.operation, spec) <= free / 10 * 9;
  }

  const Implementation& implementation_;
  const GauntletLimits limits_;
  Search search_;
  GauntletResult result_;
};

}  // namespace

std::string failed_line(std::string_view slug, std::string_view reason) {
  return fmt::format("{:27} FAIL  {}", slug, reason);
}

std::string text_of(const GauntletResult& result) {
  if (result.where.empty()) return result.complaint;
  std::string text = fmt::format("on {}:", result.where);
  if (result.hazards.empty()) text += "\n  " + result.complaint;
  for (const std::string& hazard : result.hazards) text += "\n  " + hazard;
  if (!result.advice.empty()) text += "\n  " + result.advice;
  return text;
}

GauntletResult run_gauntlet(const Implementation& implementation, const GauntletLimits& limits) {
  return Gauntlet(implementation, limits).run();
}

}  // namespace rmsnorm
