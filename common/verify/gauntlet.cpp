#include "common/verify/gauntlet.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <utility>

#include "common/base/cuda_check.hpp"
#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/terminal.hpp"
#include "common/verify/verifier.hpp"

namespace rmsnorm {
namespace {

/// Lengths around what kernels are made of: a vector, a warp, a block, a block of vectors, and one
/// more or less.
constexpr int kHidden[] = {1,   2,   3,   4,   5,    31,   32,   33,   64,   100,  127,  128, 129,
                           255, 256, 257, 512, 1000, 1023, 1024, 1025, 2048, 4096, 4100, 8192};
/// No row, one, some, and enough to fill the last block of several rows only in part.
constexpr int kRows[] = {0, 1, 3, 65};
/// Lengths around a vector of 8, and with each power of two up to 8 as their largest, for the
/// types.
constexpr int kHiddenOfTypes[] = {1, 4, 6, 8, 9, 33, 128, 1000, 4096, 4100, 12288};
/// Shapes of their own: many rows, and long ones.
constexpr Shape kMore[] = {{3000, 128}, {2, 20000}, {2, 49152}};

/// Other numbers than the workload's, of one of its inputs: x or another matrix.
struct Values {
  const char* name;
  float (*change)(float x, int row, int col);
  const char* input = "x";
};

constexpr Values kAsDrawn = {"", nullptr};
constexpr Values kValues[] = {
    {"a NaN in one row", [](float x, int row, int col) { return row == 7 && col == 99 ? NAN : x; }},
    {"an Inf in every third row",
     [](float x, int row, int col) { return row % 3 == 0 && col == row ? INFINITY : x; }},
    {"zeros in every second row", [](float x, int row, int) { return row % 2 == 0 ? 0 : x; }},
    {"every second row large", [](float x, int row, int) { return row % 2 == 0 ? x * 1e15f : x; }},
    {"every second row tiny", [](float x, int row, int) { return row % 2 == 0 ? x * 1e-30f : x; }},
    // Beside every row, once, rows that nobody may look at.
    {"NaN in every even row", [](float x, int row, int) { return row % 2 == 0 ? NAN : x; }},
    {"NaN in every odd row", [](float x, int row, int) { return row % 2 != 0 ? NAN : x; }},
    // Where all additions round in the same direction.
    {"one number in every row", [](float, int row, int) { return 0.7f + 0.013f * row; }},
    {"a row whose sum is beyond fp32", [](float x, int row, int) { return row == 2 ? 1e30f : x; }},
};

/// Whose squares fp16 cannot hold.
constexpr Values kLargeFp16 = {"every second row near the end of fp16", [](float x, int row, int) {
                                 return row % 2 == 0 ? x * 8000 : x;
                               }};

/// True of the problems that every kernel is tried on first.
bool is_plain(const WorkloadSpec& spec, const Values& values) {
  return spec.eps == WorkloadSpec{}.eps && spec.seed == WorkloadSpec{}.seed &&
         values.change == nullptr && spec.types == Types{};
}

/// "3 x 1000", and what is not as usual.
std::string text_of(const WorkloadSpec& spec, const Values& values) {
  std::string text = fmt::format("{} x {}", spec.rows, spec.hidden);
  if (spec.types != Types{}) text += fmt::format(", {}", to_string(spec.types));
  if (spec.types.weight_bias != 0) text += fmt::format(", {} + the weight", spec.types.weight_bias);
  if (spec.eps != WorkloadSpec{}.eps) text += fmt::format(", eps {}", spec.eps);
  if (spec.seed != WorkloadSpec{}.seed) text += fmt::format(", seed {}", spec.seed);
  if (spec.misalign != 0) {
    text += fmt::format(
        ", with tensors that begin {} bytes behind a 16-byte boundary",
        spec.misalign * bytes_of(spec.types.dtype));
  }
  if (spec.spread != 0) {
    text += fmt::format(
        ", with tensors that begin 0, {}, {}, ... elements behind a 16-byte boundary", spec.spread,
        2 * spec.spread);
  }
  if (values.change != nullptr) text += fmt::format(", {}", values.name);
  if (values.input != std::string_view("x")) text += fmt::format(" of {}", values.input);
  return text;
}

/// While it lives, what runs has so many seconds; then the program says a sentence and ends. A
/// kernel of the CPU device cannot be asked to stop: it runs in our own thread.
class TimeLimit {
 public:
  TimeLimit(unsigned seconds, const std::string& sentence) {
    sentence_ = sentence;
    std::fflush(stdout);  // the sentence goes past it
    struct sigaction action {};
    action.sa_handler = give_up;
    action.sa_flags = SA_ONSTACK;  // the device's, while a kernel runs: its own may be short
    sigaction(SIGALRM, &action, &before_);
    alarm(seconds);
  }
  TimeLimit(const TimeLimit&) = delete;
  ~TimeLimit() {
    alarm(0);
    sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  static void give_up(int) {
    [[maybe_unused]] const auto written = write(STDOUT_FILENO, sentence_.data(), sentence_.size());
    _exit(kLessonWrong);
  }

  static inline std::string sentence_;
  struct sigaction before_ {};
};

/// One problem to solve.
struct Attempt {
  WorkloadSpec spec;
  Values values = kAsDrawn;
  bool keep_launch = false;
};

/// All problems for an implementation, in their order.
std::vector<Attempt> attempts_for(
    const Implementation& implementation, const std::vector<Counted>& counted) {
  std::vector<Attempt> attempts;
  const auto add = [&](WorkloadSpec spec, const Values& values = kAsDrawn) {
    spec.memory = implementation.memory;
    attempts.push_back({spec, values});
  };
  const auto add_eps = [&](std::initializer_list<float> all, WorkloadSpec spec) {
    if (!implementation.operation->has_eps) return;
    for (const float eps : all) {
      spec.eps = eps;
      add(spec);
    }
  };
  const auto add_values = [&](const WorkloadSpec& spec) {
    for (const TensorSpec& tensor : implementation.operation->tensors) {
      if (!is_input_matrix(tensor)) continue;
      for (Values values : kValues) {
        values.input = tensor.name;
        add(spec, values);
      }
    }
  };

  for (const int hidden : kHidden) {
    for (const int rows : kRows) add({.rows = rows, .hidden = hidden});
    add({.rows = 3, .hidden = hidden, .misalign = 1});
  }
  for (const Shape shape : kMore) add({.rows = shape.rows, .hidden = shape.hidden});
  for (const auto& [shape, types] : counted) {
    add({.rows = shape.rows, .hidden = shape.hidden, .types = types});
    attempts.back().keep_launch = true;
  }
  for (const int hidden : {37, 1000, 4096}) {
    for (const std::uint64_t seed : {0, 2, 3}) add({.rows = 7, .hidden = hidden, .seed = seed});
    add_eps({0.0f, 1e-12f, 1.0f, 1e30f}, {.rows = 7, .hidden = hidden});
    for (const int misalign : {2, 3}) add({.rows = 7, .hidden = hidden, .misalign = misalign});
    for (const int spread : {1, 2}) add({.rows = 7, .hidden = hidden, .spread = spread});
  }
  add_values({.rows = 9, .hidden = 1024});
  if (!implementation.is_typed) return attempts;

  std::vector<Types> other_types = all_types();
  std::erase(other_types, Types{});
  for (Types types : all_types()) {
    types.weight_bias = 1;
    if (types.weight) other_types.push_back(types);
  }
  for (const Types& types : other_types) {
    for (const int hidden : kHiddenOfTypes) {
      for (const int rows : {0, 3}) add({.rows = rows, .hidden = hidden, .types = types});
      for (const int misalign : {1, 4}) {
        add({.rows = 3, .hidden = hidden, .misalign = misalign, .types = types});
      }
      add({.rows = 3, .hidden = hidden, .spread = 4, .types = types});
    }
    // With 1e8, y is subnormal in fp16, and with more 0.
    add_eps({0.0f, 1.0f, 1e8f, 1e30f}, {.rows = 7, .hidden = 1000, .types = types});
    add_values({.rows = 9, .hidden = 1024, .types = types});
    add({.rows = 9, .hidden = 1024, .types = types}, kLargeFp16);
  }
  return attempts;
}

/// The gauntlet of one lesson.
class Gauntlet {
 public:
  Gauntlet(const Implementation& implementation, const GauntletLimits& limits)
      : implementation_(implementation), limits_(limits) {}

  GauntletResult run() {
    std::vector<Attempt> attempts = attempts_for(implementation_, limits_.counted);
    const Attempt large{{.rows = 4194305, .hidden = 513}};
    if (limits_.beyond_32_bits && has_room_for(large.spec)) attempts.push_back(large);
    const bool is_through = std::all_of(
        attempts.begin(), attempts.end(), [&](const Attempt& attempt) { return solves(attempt); });
    if (is_through && result_.right == 0) {
      result_.complaint = "it supports no shape: " + result_.last_reason;
    }
    end_progress();
    return result_;
  }

 private:
  bool solves(const Attempt& attempt) {
    const std::string text = text_of(attempt.spec, attempt.values);
    progress(fmt::format("checking {} on {}", implementation_.slug, text));
    const Workload workload(*implementation_.operation, attempt.spec);
    if (std::string reason = implementation_.unsupported(workload.problem()); !reason.empty()) {
      ++result_.unsupported;
      result_.last_reason = std::move(reason);
      return true;
    }
    if (attempt.values.change != nullptr) change(workload, attempt.values);
    result_.where = text;
    Verification found = run(workload);
    if (found.ok()) {
      ++result_.right;
      if (attempt.keep_launch && !found.observation.lines.empty()) {
        result_.launches.push_back(
            watched(implementation_, workload, "a check", std::move(found.observation)));
      }
      return true;
    }
    result_.complaint = found.complaint;
    result_.hazards = found.hazards;
    // The device sees neither a thread's own variables nor what was meant. But what is right on
    // plain problems and wrong on others has another reason.
    const bool was_watched = can_observe() && implementation_.memory == Memory::device;
    if (was_watched && found.hazards.empty() && found.mismatch &&
        is_plain(attempt.spec, attempt.values)) {
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

  static void change(const Workload& workload, const Values& values) {
    std::vector<float> numbers = workload.tensor(values.input).values();
    const int hidden = workload.spec().hidden;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t row = i / hidden;
      numbers[i] =
          values.change(numbers[i], static_cast<int>(row), static_cast<int>(i - row * hidden));
    }
    workload.set(values.input, numbers);
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
