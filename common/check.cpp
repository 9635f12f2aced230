#include "common/check.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "common/cpu_device/stand_in.hpp"
#include "common/gpu.hpp"
#include "common/options.hpp"
#include "common/regime.hpp"
#include "common/report.hpp"
#include "common/row_cost.hpp"
#include "common/trace_report.hpp"
#include "common/verifier.hpp"
#include "common/workload.hpp"

namespace rmsnorm {
namespace {

/// Where the traffic is compared with the prediction.
constexpr Shape kCounted[] = {{64, 4096}, {256, 128}};

/// Whether a lesson's prediction can hold for a problem: rows fill whole sectors, and there are
/// enough of them to fill the warps that share the weight.
bool is_predictable(const Problem& p) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(p.x) |
                         reinterpret_cast<std::uintptr_t>(p.weight) |
                         reinterpret_cast<std::uintptr_t>(p.y);
  constexpr int kFloatsOfSector = kSectorBytes / static_cast<int>(sizeof(float));
  return p.rows > 0 && p.rows % 32 == 0 && p.hidden % kFloatsOfSector == 0 &&
         addresses % kSectorBytes == 0;
}

/// Whether a lesson predicted what was counted, within one per cent.
bool is_as_predicted(const RowCost& cost, const Traffic& predicted) {
  constexpr double kTolerance = 0.01;
  return std::abs(cost.read - predicted.read) <= kTolerance * predicted.read &&
         std::abs(cost.written - predicted.written) <= kTolerance * predicted.written;
}

/// The check of one lesson.
class Check {
 public:
  Check(const Lesson& lesson, const GauntletLimits& limits) : lesson_(lesson), limits_(limits) {}

  /// Says how it went.
  ExitCode run() const {
    const Verdict verdict = run_gauntlet(lesson_, limits_);
    if (const std::size_t at = verdict.last_refusal.find(cpu_device::kNeedsGpu);
        verdict.right == 0 && at != std::string::npos) {
      fmt::print("{}\n", skipped_line(lesson_, "it" + verdict.last_refusal.substr(at)));
      return kNoDevice;
    }
    if (!verdict.ok()) return fail(text_of(verdict));
    std::string costs;
    for (const Shape shape : kCounted) {
      if (const std::string difference = compare_traffic(shape, costs); !difference.empty()) {
        return fail(fmt::format("on {} x {}:\n{}", shape.rows, shape.hidden, difference));
      }
    }
    fmt::print(
        "{:27} PASS  right on {} problems{}{}\n{}", lesson_.slug, verdict.right,
        verdict.refused == 0
            ? ""
            : fmt::format(", refuses {} (the last: {})", verdict.refused, verdict.last_refusal),
        can_observe() ? "; no mistakes seen; traffic as predicted" : "", costs);
    return kAllVerified;
  }

 private:
  static std::string text_of(const Verdict& verdict) {
    if (verdict.where.empty()) return verdict.complaint;
    std::vector<std::string> lines = {fmt::format("on {}:", verdict.where)};
    if (verdict.hazards.empty()) lines.push_back(verdict.complaint);
    lines.insert(lines.end(), verdict.hazards.begin(), verdict.hazards.end());
    if (!verdict.advice.empty()) lines.push_back(verdict.advice);
    return fmt::format("{}", fmt::join(lines, "\n"));
  }

  /// Counts the traffic, and adds it to a table. What is wrong with it, or "".
  std::string compare_traffic(Shape shape, std::string& costs) const {
    if (!can_observe() || lesson_.memory == Memory::host) return "";
    const Workload workload({.rows = shape.rows, .hidden = shape.hidden});
    const Problem p = workload.problem();
    if (!lesson_.refuses(p).empty() || !is_predictable(p)) return "";
    const Verification found = verify(lesson_, workload, nullptr, Watch::yes);
    if (!found.ok()) return found.complaint;
    const Watched launch{
        .lesson = lesson_.slug,
        .regime = "a check",
        .rows = p.rows,
        .hidden = p.hidden,
        .predicted = lesson_.traffic(p.hidden),
        .observation = found.observation};
    const RowCost cost = row_cost(launch.observation.lines, p.rows);
    if (!is_as_predicted(cost, launch.predicted)) {
      return fmt::format(
          "it predicts that a row reads {:.0f} and writes {:.0f} bytes, but {:.0f} and {:.0f} were "
          "counted\n{}",
          launch.predicted.read, launch.predicted.written, cost.read, cost.written,
          line_table(launch));
    }
    costs += cost_table({launch});
    return "";
  }

  ExitCode fail(const std::string& sentence) const {
    fmt::print("{}\n", failed_line(lesson_, sentence));
    return kLessonWrong;
  }

  const Lesson& lesson_;
  const GauntletLimits& limits_;
};

}  // namespace

int check_lessons(const std::vector<Lesson>& lessons, const GauntletLimits& limits) {
  if (lessons.empty()) {
    fmt::print(stderr, "the file registers no lesson: it needs a rmsnorm::Registration\n");
    return kBadUsage;
  }
  try {
    const Gpu gpu = find_gpu();
    fmt::print(stderr, "checking on {}\n", is_cpu_device() ? "the CPU device" : gpu.name);
    ExitCode worst = kAllVerified;
    for (const Lesson& lesson : lessons) {
      const ExitCode found = Check(lesson, limits).run();
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
