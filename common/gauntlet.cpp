#include "common/gauntlet.hpp"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "common/check.hpp"
#include "common/cuda_check.hpp"
#include "common/gpu.hpp"
#include "common/verifier.hpp"

namespace rmsnorm {
namespace {

/// Other numbers than the workload's.
struct Values {
  const char* name;
  float (*change)(float x, int row, int col);
};

constexpr Values kAsDrawn = {"", nullptr};

constexpr Values kValues[] = {
    {"a NaN in one row", [](float x, int row, int col) { return row == 7 && col == 99 ? NAN : x; }},
    {"an Inf in every third row",
     [](float x, int row, int col) { return row % 3 == 0 && col == row ? INFINITY : x; }},
    {"zeros in every second row", [](float x, int row, int) { return row % 2 == 0 ? 0 : x; }},
    {"every second row large", [](float x, int row, int) { return row % 2 == 0 ? x * 1e15f : x; }},
    {"every second row tiny", [](float x, int row, int) { return row % 2 == 0 ? x * 1e-30f : x; }},
    {"a row whose sum is beyond fp32", [](float x, int row, int) { return row == 2 ? 1e30f : x; }},
};

/// The gauntlet of one lesson.
class Gauntlet {
 public:
  explicit Gauntlet(const Lesson& lesson) : lesson_(lesson) {}

  Verdict run() {
    for (const WorkloadSpec& spec : problems_to_check()) {
      if (!is_right(spec)) return verdict_;
    }
    for (const int hidden : {37, 1000, 4096}) {
      for (const std::uint64_t seed : {0, 2, 3}) {
        if (!is_right({.rows = 7, .hidden = hidden, .seed = seed})) return verdict_;
      }
      for (const float eps : {0.0f, 1e-12f, 1.0f, 1e30f}) {
        if (!is_right({.rows = 7, .hidden = hidden, .eps = eps})) return verdict_;
      }
      for (const int misalign : {2, 3}) {
        if (!is_right({.rows = 7, .hidden = hidden, .misalign = misalign})) return verdict_;
      }
    }
    for (const Values& values : kValues) {
      if (!is_right({.rows = 9, .hidden = 1024}, values)) return verdict_;
    }
    constexpr WorkloadSpec kBeyond32Bits = {.rows = 4194305, .hidden = 513};
    if (has_room_for(kBeyond32Bits)) is_right(kBeyond32Bits);
    return verdict_;
  }

 private:
  bool is_right(WorkloadSpec spec, const Values& values = kAsDrawn) {
    spec.memory = lesson_.memory;
    const Workload workload(spec);
    const Problem p = workload.problem();
    if (!lesson_.refuses(p).empty()) {
      ++verdict_.refused;
      return true;
    }
    if (values.change != nullptr) {
      std::vector<float> x = to_host(p.x, static_cast<std::size_t>(p.rows) * p.hidden);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t row = i / p.hidden;
        x[i] = values.change(x[i], static_cast<int>(row), static_cast<int>(i - row * p.hidden));
      }
      workload.set_x(x);
    }
    verdict_.where = fmt::format(
        "{} x {}, eps {}, seed {}, {} floats behind a 256-byte boundary{}{}", spec.rows,
        spec.hidden, spec.eps, spec.seed, spec.misalign, values.change == nullptr ? "" : ", ",
        values.name);
    const Verification found = verify(lesson_, workload, nullptr, Watch::yes);
    verdict_.complaint = found.complaint;
    verdict_.hazards = found.hazards;
    if (!verdict_.complaint.empty()) return false;
    ++verdict_.right;
    return true;
  }

  bool has_room_for(const WorkloadSpec& spec) const {
    if (lesson_.memory == Memory::host || is_cpu_device()) return false;  // it would take minutes
    std::size_t free = 0;
    std::size_t total = 0;
    cuda_check(cudaMemGetInfo(&free, &total), "asking for the free memory");
    return Workload::bytes(spec.rows, spec.hidden, 1) <= free / 10 * 9;
  }

  const Lesson& lesson_;
  Verdict verdict_;
};

}  // namespace

Verdict run_gauntlet(const Lesson& lesson) {
  return Gauntlet(lesson).run();
}

}  // namespace rmsnorm
