#include "common/exercise.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>

#include "common/cuda_check.hpp"
#include "common/gauntlet.hpp"
#include "common/gpu.hpp"
#include "common/options.hpp"
#include "common/program.hpp"
#include "common/registry.hpp"
#include "common/report.hpp"
#include "common/row_cost.hpp"
#include "common/verifier.hpp"
#include "common/workload.hpp"

namespace rmsnorm {
namespace {

// A function's static variable exists before the first registration, whatever the link order is.
std::optional<Exercise>& registered() {
  static std::optional<Exercise> exercise;
  return exercise;
}

bool is_global(const LineCount& count) {
  return count.kind.starts_with("global");
}

double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(std::max<std::int64_t>(1, b));
}

/// Whether the quantity is that of the worst line, not the sum of all lines.
bool is_of_worst_line(Quantity quantity) {
  return quantity == Quantity::most_sectors || quantity == Quantity::fewest_sectors ||
         quantity == Quantity::lanes_a_request;
}

/// What one line contributes, or nothing if it has no part in the quantity.
std::optional<double> part_of(const LineCount& count, const Goal& goal, const Watched& launch) {
  const auto a_row = [&](std::int64_t all) { return ratio(all, launch.rows); };
  switch (goal.quantity) {
    case Quantity::barriers:
      if (count.kind == "barrier") return a_row(count.requests);
      break;
    case Quantity::wavefronts:
      if (count.wavefronts > 0) return a_row(count.wavefronts);
      break;
    case Quantity::bank_conflicts:
      if (count.conflicts > 0) return a_row(count.conflicts);
      break;
    case Quantity::reads_of_x:
      if (count.kind == "global load" && count.what == "x") {
        return a_row(count.sectors * kSectorBytes) / (sizeof(float) * launch.hidden);
      }
      break;
    case Quantity::most_sectors:
    case Quantity::fewest_sectors:
      if (is_global(count)) return ratio(count.sectors, count.requests);
      break;
    case Quantity::lanes_a_request:
      if (is_global(count)) return ratio(count.lanes, count.requests);
      break;
  }
  return std::nullopt;
}

bool is_within(double counted, const Goal& goal) {
  constexpr double kRounding = 1e-9;
  return goal.bound == Goal::at_most ? counted <= goal.limit * (1 + kRounding)
                                     : counted >= goal.limit * (1 - kRounding);
}

std::string number(double value) {
  const std::string text = fmt::format("{:.2f}", value);
  return text.ends_with(".00") ? text.substr(0, text.size() - 3) : text;
}

/// The check of one kernel.
class Check {
 public:
  Check(const Lesson& lesson, const Exercise& exercise) : lesson_(lesson), exercise_(exercise) {}

  int run() const {
    const Verdict verdict = run_gauntlet(lesson_);
    if (!verdict.ok()) return wrong(verdict);
    say("RIGHT", fmt::format("on {} problems{}", verdict.right, seen()));
    if (!can_observe()) return kAllVerified;

    const Workload workload({.rows = exercise_.shape.rows, .hidden = exercise_.shape.hidden});
    const Watched launch{
        .lesson = lesson_.slug,
        .regime = "",
        .rows = exercise_.shape.rows,
        .hidden = exercise_.shape.hidden,
        .observation = verify(lesson_, workload, nullptr, Watch::yes).observation};
    bool all_reached = true;
    for (const Goal& goal : exercise_.goals) all_reached = reaches(goal, launch) && all_reached;
    for (const Goal& goal : exercise_.keeps) all_reached = keeps(goal, launch) && all_reached;
    return all_reached ? kAllVerified : kGoalMissed;
  }

 private:
  int wrong(const Verdict& verdict) const {
    if (verdict.where.empty()) {
      say("WRONG", verdict.complaint);
      return kLessonWrong;
    }
    say("WRONG", fmt::format("on {}:", verdict.where));
    if (verdict.hazards.empty()) fmt::print("  {}\n", verdict.complaint);
    for (const std::string& hazard : verdict.hazards) fmt::print("  {}\n", hazard);
    if (!verdict.advice.empty()) fmt::print("  {}\n", verdict.advice);
    return kLessonWrong;
  }

  bool reaches(const Goal& goal, const Watched& launch) const {
    const Outcome outcome = judge(goal, launch);
    say_counted(outcome.reached ? "GOAL" : "NOT YET", goal, outcome, launch);
    return outcome.reached;
  }

  bool keeps(const Goal& goal, const Watched& launch) const {
    const Outcome outcome = judge(goal, launch);
    if (!outcome.reached) say_counted("LOST", goal, outcome, launch);
    return outcome.reached;
  }

  void say_counted(
      const char* word, const Goal& goal, const Outcome& outcome, const Watched& launch) const {
    const std::string counted = number(outcome.counted);
    say(word,
        fmt::format("{}: {} counted in {} x {}", goal.text, counted, launch.rows, launch.hidden));
    constexpr std::size_t kMost = 5;
    for (std::size_t i = 0; i < std::min(kMost, outcome.parts.size()); ++i) {
      const auto& [value, line] = outcome.parts[i];
      fmt::print(
          "  line {:>3}  {:9}  {:22}  {}\n", line.line,
          is_of_worst_line(goal.quantity) ? number(value)
                                          : fmt::format("{} of {}", number(value), counted),
          line.what.empty() ? line.kind : fmt::format("{} of {}", line.kind, line.what),
          source_text(line));
    }
    if (outcome.parts.size() > kMost) {
      fmt::print("  and {} more\n", outcome.parts.size() - kMost);
    }
  }

  static std::string seen() { return can_observe() ? "; no mistakes seen" : ""; }

  void say(const char* word, const std::string& what) const {
    end_progress();
    const std::string_view verdict = word;
    const bool is_bad = verdict == "WRONG" || verdict == "LOST";
    const char* colour = is_bad ? "\x1b[31m" : verdict == "NOT YET" ? "\x1b[33m" : "\x1b[32m";
    const bool coloured = wants_colour(STDOUT_FILENO);
    fmt::print(
        "{:20} {}{:8}{} {}\n", lesson_.slug, coloured ? colour : "", word,
        coloured ? "\x1b[0m" : "", what);
  }

  const Lesson& lesson_;
  const Exercise& exercise_;
};

}  // namespace

ExerciseRegistration::ExerciseRegistration(const Exercise& exercise) {
  registered() = exercise;
}

Outcome judge(const Goal& goal, const Watched& launch) {
  std::vector<std::pair<double, LineCount>> parts;
  for (const LineCount& line : launch.observation.lines) {
    if (const auto value = part_of(line, goal, launch)) parts.emplace_back(*value, line);
  }
  // The worst first; where they are equal, in the order of the source.
  std::stable_sort(parts.begin(), parts.end(), [&](const auto& a, const auto& b) {
    return goal.bound == Goal::at_most ? a.first > b.first : a.first < b.first;
  });

  Outcome outcome;
  if (is_of_worst_line(goal.quantity)) {
    if (parts.empty()) return outcome;  // nothing was asked for: no goal about requests is reached
    outcome.counted = parts.front().first;
    std::erase_if(parts, [&](const auto& part) { return is_within(part.first, goal); });
  } else {
    for (const auto& [value, line] : parts) outcome.counted += value;
  }
  outcome.reached = is_within(outcome.counted, goal);
  if (!outcome.reached) outcome.parts = parts;
  return outcome;
}

int run_exercise(int argc, const char* const* argv) {
  const std::optional<Exercise>& exercise = registered();
  const std::string slug = exercise ? exercise->lesson : "";
  std::vector<Lesson> lessons = all_lessons();
  std::erase_if(lessons, [&](const Lesson& lesson) { return lesson.slug != slug; });
  if (lessons.size() != 1) {
    fmt::print(stderr, "the file has to register the lesson '{}', once\n", slug);
    return kBadUsage;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--time") {
    lessons[0].slug = "yours";
    const char* const arguments[] = {argv[0], "--regime", lessons[0].regime};
    return run_program(3, arguments, lessons);
  }
  if (argc != 1) {
    fmt::print(stderr, "usage: {} [--time]\n", argv[0]);
    return kBadUsage;
  }
  try {
    find_gpu();
    return Check(lessons[0], *exercise).run();
  } catch (const NoGpu& reason) {
    fmt::print(stderr, "{}\n", reason.what());
    return kNoDevice;
  } catch (const std::exception& error) {
    end_progress();
    fmt::print("{:20} WRONG    {}\n", exercise->lesson, error.what());
    return kLessonWrong;
  }
}

}  // namespace rmsnorm
