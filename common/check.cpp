#include "common/check.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "common/cuda_check.hpp"
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

/// Lengths around what kernels are made of: a vector, a warp, a block, a block of vectors, and one
/// more or less.
constexpr int kHidden[] = {1,   2,   3,   4,   5,    31,   32,   33,   64,   100,  127,  128, 129,
                           255, 256, 257, 512, 1000, 1023, 1024, 1025, 2048, 4096, 4100, 8192};
/// No row, one, some, and enough to fill the last block of several rows only in part.
constexpr int kRows[] = {0, 1, 3, 65};
/// Shapes of their own: many rows, and long ones.
constexpr Shape kMore[] = {{3000, 128}, {2, 20000}, {2, 49152}};
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

class Check {
 public:
  explicit Check(const Lesson& lesson) : lesson_(lesson) {}

  /// Says how it went. True if all is well.
  bool run() {
    for (const WorkloadSpec& spec : problems_to_check()) {
      if (!is_right(spec)) return false;
    }
    if (right_ == 0) return fail("it refuses every shape: " + last_refusal_);
    for (const Shape shape : kCounted) {
      if (!predicts(shape)) return false;
    }
    end_progress();
    fmt::print(
        "{:27} PASS  right on {} problems{}{}\n", lesson_.slug, right_,
        refused_ == 0 ? "" : fmt::format(", refuses {} (the last: {})", refused_, last_refusal_),
        can_observe() ? "; no mistakes seen; traffic as predicted" : "");
    fmt::print("{}", costs_);
    return true;
  }

 private:
  bool is_right(WorkloadSpec spec) {
    spec.memory = lesson_.memory;
    progress(fmt::format("checking {} on {} x {}", lesson_.slug, spec.rows, spec.hidden));
    const Workload workload(spec);
    const std::string refusal = lesson_.refuses(workload.problem());
    if (!refusal.empty()) {
      ++refused_;
      last_refusal_ = refusal;
      return true;
    }
    const Verification found = verify(lesson_, workload, nullptr, Watch::yes);
    if (found.ok()) {
      ++right_;
      return true;
    }
    return fail(fmt::format(
        "on {} x {}{}:\n{}", spec.rows, spec.hidden,
        spec.misalign == 0 ? "" : ", with tensors that begin 4 bytes behind a 16-byte boundary",
        found.hazards.empty() ? found.complaint
                              : fmt::format("{}", fmt::join(found.hazards, "\n"))));
  }

  bool predicts(Shape shape) {
    if (!can_observe() || lesson_.memory == Memory::host) return true;
    const Workload workload({.rows = shape.rows, .hidden = shape.hidden});
    const Problem p = workload.problem();
    if (!lesson_.refuses(p).empty() || !is_predictable(p)) return true;
    Watched launch{
        .lesson = lesson_.slug,
        .regime = "a check",
        .rows = p.rows,
        .hidden = p.hidden,
        .predicted = lesson_.traffic(p.hidden),
        .observation = verify(lesson_, workload, nullptr, Watch::yes).observation};
    const RowCost cost = row_cost(launch.observation.lines, p.rows);
    if (!is_as_predicted(cost, launch.predicted)) {
      return fail(fmt::format(
          "on {} x {}:\nit predicts that a row reads {:.0f} and writes {:.0f} bytes, but {:.0f} "
          "and "
          "{:.0f} were counted\n{}",
          p.rows, p.hidden, launch.predicted.read, launch.predicted.written, cost.read,
          cost.written, line_table(launch)));
    }
    costs_ += cost_table({launch});
    return true;
  }

  bool fail(const std::string& sentence) const {
    end_progress();
    fmt::print("{:27} FAIL  {}\n", lesson_.slug, sentence);
    return false;
  }

  const Lesson& lesson_;
  int right_ = 0;
  int refused_ = 0;
  std::string last_refusal_;
  std::string costs_;
};

}  // namespace

std::vector<WorkloadSpec> problems_to_check() {
  std::vector<WorkloadSpec> specs;
  for (const int hidden : kHidden) {
    for (const int rows : kRows) specs.push_back({.rows = rows, .hidden = hidden});
    specs.push_back({.rows = 3, .hidden = hidden, .misalign = 1});
  }
  for (const Shape shape : kMore) specs.push_back({.rows = shape.rows, .hidden = shape.hidden});
  return specs;
}

int check_lessons(const std::vector<Lesson>& lessons) {
  if (lessons.empty()) {
    fmt::print(stderr, "the file registers no lesson: it needs a rmsnorm::Registration\n");
    return kBadUsage;
  }
  try {
    const Gpu gpu = find_gpu();
    fmt::print(stderr, "checking on {}\n", is_cpu_device() ? "the CPU device" : gpu.name);
    bool all_well = true;
    for (const Lesson& lesson : lessons) all_well = Check(lesson).run() && all_well;
    return all_well ? kAllVerified : kLessonWrong;
  } catch (const NoGpu& reason) {
    fmt::print(stderr, "{}\n", reason.what());
    return kNoDevice;
  } catch (const std::exception& error) {
    fmt::print("\nFAIL  {}\n", error.what());
    return kLessonWrong;
  }
}

}  // namespace rmsnorm
