#include "common/verify/gauntlet.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "common/base/cuda_check.hpp"
#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/terminal.hpp"
#include "common/cpu_device/interface/coverage.hpp"
#include "common/verify/large.hpp"
#include "common/verify/process_copy.hpp"
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

constexpr double kElementsForCopy = 1e5;  // that take longer than a copy of the process

class Gauntlet {
 public:
  Gauntlet(const Implementation& implementation, const GauntletLimits& limits)
      : implementation_(implementation), limits_(limits), search_(implementation, limits.seed) {}

  GauntletResult run() {
    if (!limits_.only.empty()) {
      run_only();
      end_progress();
      return result_;
    }
    std::vector<Attempt> attempts = attempts_for(implementation_, limits_.counted);
    add_large(attempts);
    bool is_through = solves_all(attempts);
    while (is_through && can_cover()) {
      attempts = search_.next();
      if (attempts.empty()) break;
      is_through = solves_all(attempts);
    }
    result_.drawn = search_.drawn();
    set_multiprocessors(0);
    if (is_through && result_.right > 0) is_through = is_right_on_large();
    if (is_through) {
      result_.complaint = complaint_about_support();
      is_through = result_.ok();
      if (!is_through) result_.where.clear();
    }
    if (is_through && can_cover()) {
      result_.complaint = search_.let_calls_fail();
      is_through = result_.ok();
      if (!is_through) result_.where.clear();  // that problem alone is right
    }
    if (is_through && result_.right == 0) {
      result_.complaint = "it supports no shape: " + result_.last_reason;
    }
    end_progress();
    return result_;
  }

 private:
  /// On the CPU device, a copy of this process does the second half at the same time. It is told
  /// after the first, so the first mistake in the order of the problems is always the one told.
  bool solves_all(std::vector<Attempt>& attempts) {
    const auto solve = [this](const Attempt& attempt) { return solves(attempt); };
    double elements = 0;
    for (const Attempt& attempt : attempts) elements += work_of(attempt);
    if (!can_cover() || elements < kElementsForCopy) {
      return std::ranges::all_of(attempts, solve);
    }
    const auto leave = [this](const Attempt& attempt) { search_.leave(attempt); };
    const auto second = second_half(attempts, elements / 2);
    const auto copy = ProcessCopy::start([&] {
      result_ = {};
      std::for_each(attempts.begin(), second, leave);
      try {
        static_cast<void>(std::all_of(second, attempts.end(), solve));
      } catch (const std::exception& error) {
        result_.complaint = error.what();
      }
      Packed packed;
      pack(packed);
      return packed.bytes();
    });
    if (!std::all_of(attempts.begin(), second, solve)) return false;
    if (copy == nullptr) return std::all_of(second, attempts.end(), solve);
    std::for_each(second, attempts.end(), leave);
    progress(fmt::format("checking {}: the other half", implementation_.slug));
    add(copy->finish());
    return result_.ok();
  }

  /// Where the second half of the work begins. None of it is counted: such problems go before it.
  std::vector<Attempt>::iterator second_half(std::vector<Attempt>& attempts, double left) const {
    const auto half = std::ranges::find_if(attempts, [&](const Attempt& attempt) {
      left -= work_of(attempt);
      return left < 0;
    });
    return std::stable_partition(
        half, attempts.end(), [](const Attempt& attempt) { return attempt.keep_launch; });
  }

  double work_of(const Attempt& attempt) const {
    return work(*implementation_.operation, attempt.spec);
  }

  void pack(Packed& packed) const {
    packed.put(result_.complaint, result_.advice, result_.where, result_.last_reason);
    packed.put(result_.hazards, result_.notes, result_.right, result_.unsupported);
    packed.put(result_.reasons.size());
    for (const auto& [reason, count] : result_.reasons) packed.put(reason, count);
    search_.pack(packed);
    pack_comparisons(packed);
  }

  void add(const ProcessCopy::Ended& ended) {
    if (!ended.is_done) {
      if (ended.printed.find(limits_.failed(implementation_.slug, "")) != std::string::npos) {
        end_progress();  // a crash, or no end: it has said so
        fmt::print("{}", ended.printed);
        std::fflush(stdout);
        _exit(kLessonWrong);
      }
      result_.complaint = ended.signal == 0
                              ? "it ended the program"
                              : fmt::format("its process was ended: {}", strsignal(ended.signal));
      result_.where.clear();
      return;
    }
    Packed packed(ended.result);
    const auto complaint = packed.take<std::string>();
    const auto advice = packed.take<std::string>();
    const auto where = packed.take<std::string>();
    const auto last_reason = packed.take<std::string>();
    const auto hazards = packed.take<std::vector<std::string>>();
    if (!complaint.empty()) {
      result_.complaint = complaint;
      result_.advice = advice;
      result_.where = where;
      result_.hazards = hazards;
      fmt::print("{}", ended.printed);  // what the kernel itself has printed
    }
    for (const auto& note : packed.take<std::vector<std::string>>()) result_.add_note(note);
    if (result_.last_reason.empty()) result_.last_reason = last_reason;
    result_.right += packed.take<int>();
    result_.unsupported += packed.take<int>();
    for (auto left = packed.take<std::size_t>(); left > 0; --left) {
      const auto reason = packed.take<std::string>();
      result_.reasons[reason] += packed.take<int>();
    }
    search_.add(packed);
    add_comparisons(packed);
  }

  bool solves(const Attempt& attempt) {
    search_.begin(attempt);
    const int unsupported = result_.unsupported;
    const bool is_right = is_right_on(attempt);
    search_.end(result_.unsupported == unsupported);
    return is_right;
  }

  void run_only() {
    if (limits_.only.ends_with(kFewBlocks)) {
      if (is_right_on_large()) ++result_.right;
      return;
    }
    std::optional<Attempt> attempt = attempt_of(*implementation_.operation, limits_.only);
    if (!attempt) {
      result_.complaint = fmt::format("there is no problem '{}'", limits_.only);
      return;
    }
    attempt->spec.memory = implementation_.memory;
    attempt->keep_launch = true;
    if (is_right_on(*attempt) && result_.unsupported > 0) {
      result_.complaint = "it does not support this problem: " + result_.last_reason;
    }
  }

  bool is_right_on(const Attempt& attempt) {
    const std::string text = text_of(*implementation_.operation, attempt);
    progress(fmt::format("checking {} on {}", implementation_.slug, text));
    set_multiprocessors(attempt.multiprocessors);
    const Workload workload(*implementation_.operation, attempt.spec);
    say_before_crash(limits_.failed(implementation_.slug, fmt::format("on {}:\n  ", text)));
    const StepLimit limit(
        limits_.steps_for_one, [&](const std::string& place) { end_without_end(text, place); });
    if (std::string reason = implementation_.unsupported(workload.problem()); !reason.empty()) {
      ++result_.unsupported;
      ++result_.reasons[reason];
      result_.last_reason = std::move(reason);
      return true;
    }
    implementation_.traffic(workload.problem());  // it is code, too
    if (attempt.values.change) change(workload, attempt.values);
    result_.where = text;
    Verification found = verify(implementation_, workload, nullptr, Watch::yes);
    for (const std::string& note : found.notes) result_.add_note(note);
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
    if (found.hazards.empty() && !found.old_loads.empty()) {
      result_.advice = found.old_loads.front();
    } else if (
        was_watched && found.hazards.empty() && found.mismatch && is_plain(attempt) &&
        !found.is_second) {
      result_.advice = advice_on(found);
    }
    if (attempt.values.sums_to_inf && found.mismatch && std::isnan(found.mismatch->got) &&
        !std::isnan(found.mismatch->expected)) {
      result_.advice = fmt::format(
          "Inf, in this row or as its sum, makes {:.7g} by the formula; NaN comes of Inf - Inf, as "
          "in a sum with a correction (Kahan, Welford), of 0 * Inf, or of Inf / Inf",
          found.mismatch->expected);
    }
    return false;
  }

  /// What may be wrong where nothing else tells.
  static std::string advice_on(const Verification& found) {
    const auto any = [&](const std::string& kind) {
      const auto is_one = [&](const std::string& other) { return other.starts_with(kind); };
      return std::ranges::any_of(found.counts.lines, is_one, &LineCount::kind);
    };
    const std::string begin = "no mistake was seen on the way: ";
    if (any("barrier") && !any("shared ") && !any("signal")) {
      return begin +
             "threads meet at a __syncthreads() and share no memory: is a __shared__ missing?";
    }
    const float got = found.mismatch->got;
    const bool is_no_result = !std::isfinite(got) || got == 0 || std::abs(got) > 1e30f;
    if (!is_no_result) {
      return begin + "is an index or a bound of a loop off, or the formula wrong?" +
             (any("signal") ? " Or is a place used again that a slower rank still reads?" : "");
    }
    return begin + "is a variable read before it is written?" +
           (any("barrier") ? " One without __shared__ is each thread's own" : "");
  }

  /// Between two sizes that are supported, no power of two is refused: else a product of the
  /// largest has come back to a small number. One sentence, or "".
  std::string complaint_about_support() const {
    constexpr int kMost = 1 << 30;
    const Operation& operation = *implementation_.operation;
    const Workload workload(
        operation, {.memory = implementation_.memory, .rows = 1, .hidden = 128});
    Problem p = workload.problem();
    // With the others at their most: there a product is largest.
    for (std::size_t i = 0; i < operation.sizes.size(); ++i) p.more[i] = operation.sizes[i].most;
    for (const auto& [size, name] : {std::pair(&p.rows, "rows"), std::pair(&p.hidden, "columns")}) {
      const int usual = *size;
      int supported = 0;
      int refused = 0;
      for (std::int64_t power = 1; power <= kMost; power *= 2) {
        *size = static_cast<int>(power);
        if (!implementation_.unsupported(p).empty()) {
          refused = *size;
        } else if (supported > 0 && refused > supported) {
          return fmt::format(
              "unsupported() lets {} {} pass, and {}, but not {}: is a product larger than its "
              "type?",
              *size, name, supported, refused);
        } else {
          supported = *size;
        }
      }
      *size = usual;
    }
    return "";
  }

  /// Of what is too large for the CPU device as a whole.
  bool is_right_on_large() {
    if (!limits_.beyond_32_bits || !can_watch() || implementation_.memory == Memory::host) {
      return true;
    }
    const Operation& operation = *implementation_.operation;
    if (ranks_of(operation, sizes_of(operation, {})) > 1) {  // whose blocks wait for each other
      result_.notes.push_back("not tried on more than 2^31 elements: ranks wait for each other");
      return true;
    }
    std::vector<Types> every = {Types{}};
    if (implementation_.is_typed) {
      every.insert(every.end(), {*types_named("bf16"), *types_named("fp16")});
    }
    std::string note;
    bool has_verdict = false;
    bool is_supported = false;
    constexpr std::uint64_t kTimes = 4;  // as long as other problems
    std::vector<LargeTrial> trials;
    for (const Types& types : every) {
      trials.emplace_back(implementation_, types, kTimes * limits_.steps_for_one);
    }
    for (LargeTrial& trial : trials) {
      const LargeResult large = trial.finish();
      if (large.verdict == LargeResult::Verdict::wrong) {
        result_.where = large.where;
        result_.complaint = large.why;
        return false;
      }
      has_verdict |= large.verdict == LargeResult::Verdict::right;
      if (large.verdict == LargeResult::Verdict::none && !std::exchange(is_supported, true))
        note = "";
      if (note.empty()) note = fmt::format("not tried on {}: {}", large.where, large.why);
    }
    if (is_supported && !has_verdict) {
      result_.not_tried = note;
    } else if (!note.empty() && (is_supported || !has_verdict)) {
      result_.notes.push_back(note);  // of one type: the same was tried of another
    }
    return true;
  }

  /// Ends the program: a kernel of the CPU device cannot be asked to stop, it runs in our thread.
  [[noreturn]] void end_without_end(const std::string& text, const std::string& place) const {
    constexpr std::uint64_t kMillion = 1'000'000;
    const std::string why = fmt::format(
        "on {}: no end after {} million steps: is there a loop that never ends?{}\n", text,
        limits_.steps_for_one / kMillion,
        place.empty() ? "" : fmt::format("\n  it is at {}", place));
    end_progress();
    fmt::print("{}", limits_.failed(implementation_.slug, why));
    std::fflush(stdout);
    _exit(kLessonWrong);
  }

  /// On a GPU, a problem of more than 2^31 elements.
  void add_large(std::vector<Attempt>& attempts) {
    if (!limits_.beyond_32_bits || implementation_.memory == Memory::host || is_cpu_device()) {
      return;  // it would take minutes
    }
    constexpr int kRows = 4194305;
    const Operation& operation = *implementation_.operation;
    const int multiple = operation.hidden_multiple;
    WorkloadSpec spec = {.hidden = (513 + multiple - 1) / multiple * multiple};
    const int lines = lines_of_row(operation, sizes_of(operation, spec));
    spec.rows = (kRows + lines - 1) / lines;
    if (!implementation_.unsupported(problem_without_tensors(operation, spec)).empty()) return;
    std::size_t free = 0;
    std::size_t total = 0;
    cuda_check(cudaMemGetInfo(&free, &total), "asking for the free memory");
    const std::size_t needed = Workload::bytes(operation, spec);
    if (needed <= free / 10 * 9) {
      attempts.push_back({spec});
    } else {
      result_.notes.push_back(fmt::format(
          "not tried on {}: it needs {:.1f} GiB, and the GPU has {:.1f} GiB to spare",
          text_of(operation, {spec}), needed / 0x1p30, free / 10 * 9 / 0x1p30));
    }
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

std::string text_of_unsupported(const GauntletResult& verdict) {
  std::map<std::string, std::pair<int, std::string>> kinds;  // how many, and one of the reasons
  for (const auto& [reason, count] : verdict.reasons) {
    std::string kind = reason;
    std::erase_if(kind, [](unsigned char c) { return std::isdigit(c) != 0; });
    auto& [all, example] = kinds[kind];
    all += count;
    example = reason;
  }
  const auto most =
      std::ranges::max_element(kinds, {}, [](const auto& kind) { return kind.second.first; });
  if (most == kinds.end()) return "";
  const auto& [count, reason] = most->second;
  const std::string part =
      count == verdict.unsupported ? "" : fmt::format(", {} of them because", count);
  return fmt::format(
      "does not support {} other{}{}: {}", verdict.unsupported, verdict.unsupported == 1 ? "" : "s",
      part, reason);
}

std::string text_of_lines_never_run(bool every_function, int problems) {
  std::string text;
  for (const auto& [file, first, last] : lines_never_run(every_function)) {
    text += first == last ? fmt::format("{}:{} was", file, first)
                          : fmt::format("{}:{} to {} were", file, first, last);
    text += fmt::format(" never run by any of {} problems\n", problems);
  }
  return text;
}

GauntletResult run_gauntlet(const Implementation& implementation, const GauntletLimits& limits) {
  return Gauntlet(implementation, limits).run();
}

}  // namespace rmsnorm
