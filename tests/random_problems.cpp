#include "tests/random_problems.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "common/base/cuda_check.hpp"
#include "common/tensors/random.hpp"
#include "common/verify/verifier.hpp"

namespace tests {

using namespace rmsnorm;

namespace {

constexpr const char* kVariable = "RMSNORM_TEST_SEED";

/// The complaint about one problem, "" if there is none or it is not supported.
std::string complaint_of(const Implementation& implementation, WorkloadSpec spec) {
  spec.memory = implementation.memory;
  if (!implementation.is_typed) spec.types = {};
  const Workload workload(*implementation.operation, spec);
  if (!implementation.unsupported(workload.problem()).empty()) return "";
  return verify(implementation, workload, nullptr, Watch::yes).complaint;
}

std::string text_of(const WorkloadSpec& spec) {
  return fmt::format(
      "{} x {}, eps {}, seed {}, {} elements behind a 256-byte boundary{}", spec.rows, spec.hidden,
      spec.eps, spec.seed, spec.misalign,
      spec.types == Types{} ? "" : fmt::format(", {}", to_string(spec.types)));
}

/// Values between `least` and `value` to try in its place: the least one, and then with steps that
/// are powers of two, the largest first. So what fails only with certain last bits shrinks, too.
std::vector<int> smaller(int value, int least) {
  std::vector<int> values;
  if (value > least) values.push_back(least);
  for (int step = 1 << 30; step > 0; step /= 2) {
    if (value - step > least) values.push_back(value - step);
  }
  return values;
}

/// All problems that are one step smaller, the smallest first.
std::vector<WorkloadSpec> steps_from(const WorkloadSpec& spec) {
  std::vector<WorkloadSpec> steps;
  const auto add = [&](auto&& change) {
    steps.push_back(spec);
    change(steps.back());
  };
  for (const int rows : smaller(spec.rows, 0)) add([&](WorkloadSpec& s) { s.rows = rows; });
  for (const int hidden : smaller(spec.hidden, 1)) add([&](WorkloadSpec& s) { s.hidden = hidden; });
  for (const int misalign : smaller(spec.misalign, 0)) {
    add([&](WorkloadSpec& s) { s.misalign = misalign; });
  }
  const WorkloadSpec plain;
  if (spec.eps != plain.eps) add([&](WorkloadSpec& s) { s.eps = plain.eps; });
  if (spec.types != plain.types) add([&](WorkloadSpec& s) { s.types = plain.types; });
  if (spec.seed != plain.seed) add([&](WorkloadSpec& s) { s.seed = plain.seed; });
  return steps;
}

}  // namespace

std::uint64_t test_seed() {
  const char* const given = std::getenv(kVariable);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

WorkloadSpec random_problem(std::uint64_t seed, std::uint64_t index, int most) {
  std::mt19937_64 random(random_bits(seed, index));
  const auto below = [&](int end) { return static_cast<int>(random() % std::max(end, 1)); };
  // A power of two, and something below it: all sizes alike, the small ones as often as the large.
  const auto any_size = [&](int limit) {
    int bits = 0;
    while (bits < 30 && (2 << bits) <= limit) ++bits;
    const int high = 1 << below(bits + 1);
    return std::min(limit, high + below(high));
  };

  WorkloadSpec spec;
  spec.hidden = any_size(std::min(most, 1 << 16));
  if (below(3) > 0) {
    const int multiple = 1 << below(8);
    spec.hidden = std::min(most, std::max(1, spec.hidden / multiple) * multiple + below(2));
  }
  spec.rows = any_size(std::max(1, most / std::max(spec.hidden, 256)));
  spec.misalign = below(2) * below(4);
  constexpr float kEps[] = {1e-5f, 1e-6f, 1e-12f, 0.0f, 1.0f, 1e-3f};
  spec.eps = kEps[below(std::size(kEps))];
  spec.seed = random() % 1000;
  const std::vector<Types> types = all_types();
  spec.types = types[below(static_cast<int>(types.size()))];
  if (spec.types.weight) spec.types.weight_bias = static_cast<float>(below(2));
  return spec;
}

WorkloadSpec shrink(WorkloadSpec spec, const std::function<bool(const WorkloadSpec&)>& fails) {
  while (true) {
    const std::vector<WorkloadSpec> steps = steps_from(spec);
    const auto step = std::find_if(steps.begin(), steps.end(), fails);
    if (step == steps.end()) return spec;
    spec = *step;
  }
}

std::string try_random_problems(
    const std::vector<Implementation>& implementations, std::uint64_t seed, int most,
    std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  const std::string again = fmt::format("again: {}={}", kVariable, seed);
  for (std::uint64_t index = 0; std::chrono::steady_clock::now() < end; ++index) {
    const WorkloadSpec drawn = random_problem(seed, index, most);
    for (const Implementation& implementation : implementations) {
      try {
        if (complaint_of(implementation, drawn).empty()) continue;
        const WorkloadSpec least = shrink(drawn, [&](const WorkloadSpec& spec) {
          return !complaint_of(implementation, spec).empty();
        });
        return fmt::format(
            "{} is wrong on {}: {} (drawn as {}; {})", implementation.slug, text_of(least),
            complaint_of(implementation, least), text_of(drawn), again);
      } catch (const CudaError& error) {  // the GPU is lost: nothing can be made smaller
        return fmt::format("{} on {} ({})", error.what(), text_of(drawn), again);
      }
    }
  }
  return "";
}

}  // namespace tests
