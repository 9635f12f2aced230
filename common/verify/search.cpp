#include "common/verify/search.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <exception>
#include <iterator>
#include <limits>
#include <utility>

#include "common/base/device.hpp"
#include "common/tensors/random.hpp"
#include "common/verify/verifier.hpp"

namespace rmsnorm {
namespace {

constexpr double kMostOfProblem = 1 << 22;   // of one problem
constexpr double kElementsOfPair = 1 << 20;  // of one of two sizes that a constant limits
constexpr double kMostWork = 2e6;            // of all at constants, and of all with other values
constexpr int kElementsOfRow = 256;          // that take as long as a row does beside its elements
constexpr int kElementsOfProblem = 4096;     // that take as long as a problem does beside its rows
constexpr int kRowsDrawn = 2048;             // at most
constexpr int kHiddenDrawn = 32768;          // likewise
constexpr int kElementsDrawn = 1 << 16;      // likewise
constexpr int kSizeDrawn = 32;               // likewise, of a size beside rows and columns
constexpr int kDrawnAtOnce = 16;             // random problems
constexpr int kMostDrawn = 96;               // likewise

/// Sizes at one that may be the last or the first of its kind: a kernel may want multiples of 8.
std::vector<double> around(double size) {
  const double below = std::ceil(size / 8 - 1) * 8;
  const double above = std::floor(size / 8 + 1) * 8;
  return {size, size - 1, size + 1, below, above};
}

}  // namespace

double work(const Operation& operation, const WorkloadSpec& spec) {
  const auto lines = static_cast<double>(lines_of(operation, sizes_of(operation, spec)));
  return kElementsOfProblem + lines * std::max<double>(spec.hidden, kElementsOfRow);
}

Search::Search(const Implementation& implementation, std::uint64_t seed)
    : implementation_(implementation),
      seed_(seed),
      left_for_sizes_(4 * kMostWork),
      left_for_numbers_(2 * kMostWork),
      left_for_pairs_(kMostWork),
      left_for_multiprocessors_(kMostWork),
      left_for_values_(kMostWork) {
  forget_comparisons();
  take_asked_for_multiprocessors();
}

void Search::begin(const Attempt& attempt) {
  leave(attempt);
  cover(static_cast<int>(attempts_.size()) - 1);
}

void Search::leave(const Attempt& attempt) {
  attempts_.push_back(attempt);
  texts_.insert(text_of(*implementation_.operation, attempt));
}

void Search::end(bool supported) {
  const int number = static_cast<int>(attempts_.size()) - 1;
  for (const std::size_t place : covered_places()) {
    note_place(place, number);
    if (attempts_.back().values.is_one_nan || !supported) with_values_.insert(place);
  }
  asks_for_multiprocessors_ |= take_asked_for_multiprocessors();
}

void Search::note_place(std::size_t place, int number) {
  // Several rows say more than one, and no other values fit into none.
  const auto rank = [&](int index) {
    const WorkloadSpec& spec = attempts_[index].spec;
    return std::pair(std::min(spec.rows, 3), -work_of(spec));
  };
  const auto [known, inserted] = reached_by_.try_emplace(place, number);
  if (rank(number) > rank(known->second)) known->second = number;
}

void Search::pack(Packed& packed) const {
  packed.put(asks_for_multiprocessors_, reached_by_.size());
  for (const auto& [place, number] : reached_by_) {
    packed.put(place, number, with_values_.contains(place));
  }
}

void Search::add(Packed& packed) {
  asks_for_multiprocessors_ |= packed.take<bool>();
  for (auto left = packed.take<std::size_t>(); left > 0; --left) {
    const auto place = packed.take<std::size_t>();
    note_place(place, packed.take<int>());
    if (packed.take<bool>()) with_values_.insert(place);
    mark_covered(place);
  }
}

std::vector<Attempt> Search::next() {
  if (queue_.empty()) propose_at_constants();
  if (queue_.empty()) propose_at_numbers();
  if (queue_.empty()) propose_pairs();
  if (queue_.empty()) propose_multiprocessors();
  if (queue_.empty()) propose_values();
  if (queue_.empty()) draw();
  return std::exchange(queue_, {});
}

void Search::propose_at_constants() {
  for (const Threshold& threshold : thresholds_not_crossed()) {
    if (threshold.is_float) {
      propose_numbers(threshold);
    } else {
      propose_sizes(threshold);
    }
  }
  keep_small(left_for_sizes_);
}

/// The small problems of the queue, as far as there is time.
void Search::keep_small(double& left) {
  std::ranges::stable_sort(queue_, [&](const Attempt& a, const Attempt& b) {
    return work_of(a.spec) < work_of(b.spec);
  });
  std::erase_if(queue_, [&](const Attempt& attempt) {
    const bool fits = work_of(attempt.spec) <= left;
    if (fits) left -= work_of(attempt.spec);
    return !fits;
  });
}

void Search::propose_sizes(const Threshold& threshold) {
  Attempt base = attempts_[threshold.problem];
  if (base.spec.rows == 0) base.spec.rows = 3;  // nothing runs without a row
  // What is compared is a size, in proportion to one, or away from one by as much as now.
  const auto sizes = [&](double size) {
    return std::vector{
        threshold.constant, size * threshold.constant / threshold.nearest,
        size + threshold.constant - threshold.nearest};
  };
  for (const double hidden : sizes(base.spec.hidden)) {
    for (const double size : around(std::round(hidden))) {
      propose_shape(base, base.spec.rows, size);
      propose_shape(base, std::min(base.spec.rows, 3), size);  // which may do, and costs less
    }
  }
  const Operation& operation = *implementation_.operation;
  const Sizes now = sizes_of(operation, base.spec);
  for (std::size_t i = 0; i < operation.sizes.size(); ++i) {
    for (const double more : sizes(now.more[i])) {
      for (const double size : around(std::round(more))) {
        if (!(size >= 1 && size <= operation.sizes[i].most)) continue;
        Attempt attempt = base;
        attempt.spec.more[i] = static_cast<int>(size);
        propose_shape(attempt, std::min(base.spec.rows, 3), base.spec.hidden);
      }
    }
  }
  for (const double rows : sizes(base.spec.rows)) {
    for (const double size : around(std::round(rows))) {
      propose_shape(base, size, base.spec.hidden);
      propose_shape(base, size, std::min(base.spec.hidden, kElementsOfRow));
    }
  }
}

void Search::propose_shape(Attempt attempt, double rows, double hidden) {
  if (!(rows >= 0 && hidden >= 1)) return;
  const Operation& operation = *implementation_.operation;
  WorkloadSpec one = attempt.spec;
  one.rows = one.hidden = 1;
  const auto lines = static_cast<double>(lines_of(operation, sizes_of(operation, one)));
  const double most = kMostOfProblem / lines;
  if (rows * hidden > most) {  // the other size makes room
    (rows == attempt.spec.rows ? rows : hidden) = rows == attempt.spec.rows ? 1 : 8;
  }
  hidden = std::ceil(hidden / operation.hidden_multiple) * operation.hidden_multiple;
  if (std::max(rows, 1.0) * hidden > most) return;
  attempt.spec.rows = static_cast<int>(rows);
  attempt.spec.hidden = static_cast<int>(hidden);
  attempt.keep_launch = false;
  // Other numbers than in the fixed list: a kernel may have such a size to itself.
  if (implementation_.operation->has_eps) attempt.spec.eps = 0.01f;
  if (texts_.insert(text_of(*implementation_.operation, attempt)).second) {
    queue_.push_back(attempt);
  }
}

void Search::propose_numbers(const Threshold& threshold) {
  const auto constant = static_cast<float>(std::abs(threshold.constant));
  WorkloadSpec base = attempts_[threshold.problem].spec;
  if (base.rows == 0) return;
  std::set<float>& numbers = numbers_[to_string(base.types)];
  if (!numbers.insert(constant).second) return;
  base.rows = std::min(base.rows, 3);
  std::vector<float> values;
  for (const float number : {constant, std::sqrt(constant)}) {
    for (const float factor : {0.99f, 1.0f, 1.01f}) values.push_back(number * factor);
  }
  const auto at = numbers.find(constant);  // and between it and its neighbours
  if (at != numbers.begin()) values.push_back((*std::prev(at) + constant) / 2);
  if (std::next(at) != numbers.end()) values.push_back((*std::next(at) + constant) / 2);
  if (constant == 0 || std::isinf(constant)) values = {constant, -constant};
  for (const float value : values) {
    Attempt attempt{base};
    attempt.values = one_in_every_second_row(value);
    queue_.push_back(attempt);
    attempt.values = every_third_weight(value);
    if (base.types.weight) queue_.push_back(attempt);
    if (!implementation_.operation->has_eps || !(value >= 0 && std::isfinite(value))) continue;
    attempt = {base};
    attempt.spec.eps = value;
    queue_.push_back(attempt);
  }
}

/// Multiples of each number in the source, and of the next, as a mask has it, with one beside:
/// alone, and rows of one with columns of another.
void Search::propose_at_numbers() {
  constexpr int kRows = 3;
  constexpr int kHidden = 40;
  if (std::exchange(has_numbers_, true) || reached_by_.empty()) return;
  std::vector<std::size_t> places;
  for (const auto& [place, number] : reached_by_) places.push_back(place);
  const std::vector<int> numbers = numbers_in_sources(places);
  const Attempt base{{.memory = implementation_.memory}};
  for (const int number : numbers) {
    for (const int size : {number, 2 * number, number + 1, 2 * number + 2, number - 1}) {
      propose_shape(base, kRows, size);
      propose_shape(base, size, kHidden);
    }
  }
  const auto is_power = [](int n) { return std::has_single_bit(static_cast<unsigned>(n)); };
  for (const int rows : numbers) {
    for (const int hidden : numbers) {
      const bool is_usual = is_power(rows) && is_power(hidden);
      if (!is_usual && double{1} * rows * hidden <= kElementsOfPair)
        propose_shape(base, rows, hidden);
    }
  }
  keep_small(left_for_numbers_);
}

/// Problems with each two sizes that decide about something: what needs both has not been seen yet.
void Search::propose_pairs() {
  if (std::exchange(has_pairs_, true)) return;
  const std::vector<SizeTest> tests = size_tests();
  std::set<int> all_rows;
  std::set<int> all_hidden;
  for (const SizeTest& test : tests) {
    // Of each outcome, the smallest problem. What it depends on stays with the other size.
    for (const auto& [of, chosen] :
         {std::pair(&WorkloadSpec::rows, &all_rows),
          std::pair(&WorkloadSpec::hidden, &all_hidden)}) {
      std::map<int, double> number_of;
      bool depends_on_it_alone = true;
      std::array<int, 3> least{};
      for (const auto& [problem, number] : test.numbers) {
        const int size = attempts_[problem].spec.*of;
        const auto [known, is_new] = number_of.try_emplace(size, number);
        depends_on_it_alone &= is_new || known->second == number;
        int& smallest = least[number < test.constant ? 0 : number == test.constant ? 1 : 2];
        if (smallest == 0 || size < smallest) smallest = size;
      }
      if (depends_on_it_alone) chosen->insert(least.begin(), least.end());
    }
  }
  for (const int rows : all_rows) {
    for (const int hidden : all_hidden) {
      if (rows > 0 && hidden > 0 && double{1} * rows * hidden <= kElementsOfPair) {
        propose_shape({{.memory = implementation_.memory}}, rows, hidden);
      }
    }
  }
  keep_small(left_for_pairs_);
}

/// A problem of each kind once more, on GPUs of other sizes.
void Search::propose_multiprocessors() {
  if (!std::exchange(asks_for_multiprocessors_, false)) return;
  std::set<int> numbers;
  for (const auto& [place, number] : reached_by_) numbers.insert(number);
  for (const int number : numbers) {
    for (const int multiprocessors : {1, 16, 132}) {
      Attempt attempt = attempts_[number];
      attempt.multiprocessors = multiprocessors;
      attempt.keep_launch = false;
      if (texts_.insert(text_of(*implementation_.operation, attempt)).second) {
        queue_.push_back(attempt);
      }
    }
  }
  keep_small(left_for_multiprocessors_);
}

void Search::propose_values() {
  // One problem for many places: the next is asked for when these values have been there.
  int next = -1;
  for (const auto& [place, number] : reached_by_) {
    const WorkloadSpec& spec = attempts_[number].spec;
    if (spec.rows == 0 || with_values_.contains(place) || are_done_.contains(number)) continue;
    if (next < 0 || work_of(spec) < work_of(attempts_[next].spec)) next = number;
  }
  if (next < 0) return;
  are_done_.insert(next);
  for (Attempt& attempt : with_other_values(*implementation_.operation, attempts_[next].spec)) {
    queue_.push_back(std::move(attempt));
  }
  keep_small(left_for_values_);
}

std::string Search::let_calls_fail() const {
  constexpr int kMostCalls = 8;
  if (implementation_.memory == Memory::host) return "";
  std::set<int> numbers;
  for (const auto& [place, number] : reached_by_) {
    if (work_of(attempts_[number].spec) <= kMostWork / 10) numbers.insert(number);
  }
  const std::vector<int> all(numbers.begin(), numbers.end());
  int done = -1;  // the problem in which each call has failed
  return cover_apart(static_cast<int>(all.size()) * kMostCalls, [&](int i) -> std::string {
    if (i / kMostCalls == done) return "";
    cudaGetLastError();  // that of the work before
    const Attempt& attempt = attempts_[all[i / kMostCalls]];
    set_multiprocessors(attempt.multiprocessors);
    const Workload workload(*implementation_.operation, attempt.spec);
    Problem many = workload.problem(), wide = many;  // what it says of these needs no memory
    many.rows = std::numeric_limits<int>::max();
    wide.hidden = 1 << 30;
    for (const Problem& large : {many, wide}) implementation_.unsupported(large);
    if (!implementation_.unsupported(workload.problem()).empty()) return "";
    Implementation failing = implementation_;
    failing.launch = [&](const Problem& p, cudaStream_t stream) {
      let_call_fail(i % kMostCalls);
      const bool is_supported = implementation_.unsupported(p).empty();
      const cudaError_t error =
          is_supported ? implementation_.launch(p, stream) : cudaErrorNotSupported;
      let_call_fail(-1);  // what cleans up works
      return error;
    };
    try {
      const Verification found = verify_once(failing, workload);
      if (call_that_failed().empty()) done = i / kMostCalls;
      if (!found.mismatch || call_that_failed().empty()) return "";
      return fmt::format(
          "on {}, while one call fails, {}, and the launch returns no error:\n  {}",
          text_of(*implementation_.operation, {attempt.spec}), call_that_failed(), found.complaint);
    } catch (const std::exception&) {  // that is an answer, too
      return "";
    }
  });
}

void Search::draw() {
  const bool in_vain = drawn_ > 0 && reached_by_.size() == places_before_draw_;
  if (in_vain || drawn_ >= kMostDrawn) return;
  places_before_draw_ = reached_by_.size();
  for (int i = 0; i < kDrawnAtOnce; ++i) queue_.push_back(random_attempt());
}

Attempt Search::random_attempt() {
  std::uint64_t index = 16 * static_cast<std::uint64_t>(drawn_);  // so many at most for each
  const auto number = [&](double end) { return (random_float(seed_, index++) + 1) / 2 * end; };
  const auto log_uniform = [&](double most) {
    return static_cast<int>(std::exp(number(std::log(most + 1))));
  };
  WorkloadSpec spec{.memory = implementation_.memory, .seed = seed_ + 100 + drawn_};
  spec.hidden = log_uniform(kHiddenDrawn);
  spec.rows = log_uniform(std::min(kRowsDrawn, kElementsDrawn / spec.hidden));
  // Half of them are multiples of 8: some kernels support no others.
  if (number(2) < 1) spec.hidden = (spec.hidden + 7) / 8 * 8;
  const Operation& operation = *implementation_.operation;
  const int multiple = operation.hidden_multiple;
  spec.hidden = (spec.hidden + multiple - 1) / multiple * multiple;
  for (std::size_t i = 0; i < operation.sizes.size(); ++i) {
    spec.more[i] = log_uniform(std::min(operation.sizes[i].most, kSizeDrawn));
  }
  for (std::size_t i = 0; i < operation.scalars.size(); ++i) {
    spec.scalars[i] = static_cast<float>(number(8) - 4);
  }
  const auto lines = [&] { return lines_of(operation, sizes_of(operation, spec)); };
  while (spec.rows > 1 && lines() > spec.rows && lines() * spec.hidden > kElementsDrawn) {
    spec.rows /= 2;
  }
  if (number(2) < 1) spec.misalign = static_cast<int>(number(8));
  if (implementation_.operation->has_eps) spec.eps = std::exp(static_cast<float>(-number(20)));
  if (implementation_.is_typed) {
    std::vector<Types> all = all_types();
    spec.types = all[static_cast<std::size_t>(number(static_cast<double>(all.size())))];
    if (spec.types.weight && number(2) < 1)
      spec.types.weight_bias = kWeightBiases[static_cast<std::size_t>(number(2))];
  }
  ++drawn_;
  return {spec};
}

}  // namespace rmsnorm
