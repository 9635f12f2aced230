#include "common/programs/exercise.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <optional>

#include "common/base/exit_code.hpp"
#include "common/base/terminal.hpp"
#include "common/contract/registry.hpp"
#include "common/measure/gpu.hpp"
#include "common/programs/program.hpp"
#include "common/programs/report.hpp"
#include "common/programs/trace_report.hpp"
#include "common/records/row_cost.hpp"
#include "common/verify/attempts.hpp"
#include "common/verify/gauntlet.hpp"

namespace rmsnorm {
namespace {

/// Of the roof's bandwidth in per cent: what a project is to reach.
constexpr double kAsFastAsRoof = 95;

/// What one line contributes, or nothing if it has no part in the quantity.
std::optional<double> part_of(const LineCount& count, const Goal& goal, const Watched& launch) {
  const auto a_row = [&](std::int64_t all) { return ratio(all, launch.rows); };
  const auto part = [](bool is_there, double value) {
    return is_there ? std::optional(value) : std::nullopt;
  };
  const double row_bytes = static_cast<double>(bytes_of(launch.types.dtype)) * launch.hidden;
  const bool loads_x = count.kind == "global load" && count.what == "x";
  const double reads_of_x = a_row(count.sectors * kSectorBytes) / row_bytes;
  switch (goal.quantity) {
    case Quantity::barriers:
      return part(count.kind == "barrier", a_row(count.requests));
    case Quantity::overlaps:  // a launch's, not a line's: judge()
      return std::nullopt;
    case Quantity::triggers:
      return part(count.kind == "trigger", ratio(count.requests, launch.counts.blocks));
    case Quantity::late_weight:
      return part(count.what == "weight" && count.late > 0, a_row(count.late));
    case Quantity::requests:
      return part(is_global(count), a_row(count.requests));
    case Quantity::sectors:
      return part(is_global(count), a_row(count.sectors));
    case Quantity::wavefronts:
      return part(count.wavefronts > 0, a_row(count.wavefronts));
    case Quantity::bank_conflicts:
      return part(count.conflicts > 0, a_row(count.conflicts));
    case Quantity::reads_of_x:
      return part(loads_x, reads_of_x);
    case Quantity::unkept_x:
      return part(loads_x && count.policy != "evict_last", reads_of_x);
    case Quantity::most_sectors:
    case Quantity::fewest_sectors:
      return part(is_global(count), ratio(count.sectors, count.requests));
    case Quantity::lanes_a_request:
      return part(is_global(count), ratio(count.lanes, count.requests));
    case Quantity::peer_sectors:
      return part(count.kind.starts_with("peer"), a_row(count.sectors));
    case Quantity::signals:
      return part(count.kind == "signal", a_row(count.requests));
  }
  return std::nullopt;
}

/// Whether the quantity is that of the worst line, not the sum of all lines.
bool is_of_worst_line(Quantity quantity) {
  return quantity == Quantity::most_sectors || quantity == Quantity::fewest_sectors ||
         quantity == Quantity::lanes_a_request;
}

bool is_within(double counted, const Goal& goal) {
  constexpr double kRounding = 1e-9;
  return goal.bound == Goal::at_most ? counted <= goal.limit * (1 + kRounding)
                                     : counted >= goal.limit * (1 - kRounding);
}

// A function's static variable exists before the first registration, whatever the link order is.
std::optional<Exercise>& exercise_given() {
  static std::optional<Exercise> exercise;
  return exercise;
}

/// "04_warp_reduce       NOT YET  at most 2 barriers per row: 9 counted in 32 x 4096"
std::string line_of(std::string_view slug, std::string_view word, std::string_view what) {
  const bool is_bad = word == "WRONG" || word == "BUT NOT";
  const char* colour = is_bad ? "\x1b[31m" : word == "NOT YET" ? "\x1b[33m" : "\x1b[32m";
  const bool coloured = wants_colour(STDOUT_FILENO);
  return fmt::format(
      "{:20} {}{:8}{} {}", slug, coloured ? colour : "", word, coloured ? "\x1b[0m" : "", what);
}

void say(std::string_view slug, std::string_view word, std::string_view what) {
  fmt::print("{}\n", wrapped(line_of(slug, word, what), width_of(STDOUT_FILENO)));
}

/// Says how far the launch is from the goal. \param word if it is reached; "" to say nothing
bool reaches(const Goal& goal, const Watched& launch, const char* word, const char* if_not) {
  const Outcome outcome = judge(goal, launch);
  if (outcome.reached && word[0] == '\0') return true;
  const std::string counted = number(outcome.counted);
  const char* const verdict = outcome.reached ? word : if_not;
  const std::string count = fmt::format(
      "{} counted in {} x {}{}", counted, launch.rows, launch.hidden,
      with_dtype("", to_string(launch.types)));
  const std::string all = fmt::format("{}: {}", goal.text, count);
  const bool fits =
      columns_of(line_of(launch.implementation, verdict, all)) <= width_of(STDOUT_FILENO);
  say(launch.implementation, verdict, fits ? all : fmt::format("{}:\n  {}", goal.text, count));
  constexpr std::size_t kMax = 5;
  for (std::size_t i = 0; i < std::min(kMax, outcome.parts.size()); ++i) {
    const auto& [value, line] = outcome.parts[i];
    const std::string text = fmt::format(
        "  {}  {:10}  {:22}  {}", place_of(line, launch.implementation),
        is_of_worst_line(goal.quantity) ? number(value)
                                        : fmt::format("{} of {}", number(value), counted),
        line.what.empty() ? line.kind : fmt::format("{} of {}", line.kind, line.what),
        source_text(line));
    fmt::print("{}\n", cut(text, width_of(STDOUT_FILENO)));
  }
  if (outcome.parts.size() > kMax) fmt::print("  and {} more\n", outcome.parts.size() - kMax);
  return outcome.reached;
}

Shape shape_of(const Goal& goal, const Exercise& exercise) {
  return goal.shape.rows == 0 ? exercise.shape : goal.shape;
}

/// The problems that the goals are about, each once.
std::vector<Counted> counted_of(const Exercise& exercise) {
  std::vector<Counted> all = {{exercise.shape, exercise.types}};
  for (const auto* goals : {&exercise.goals, &exercise.within}) {
    for (const Goal& goal : *goals) {
      const Shape shape = shape_of(goal, exercise);
      const bool is_new = std::ranges::find(all, shape, &Counted::shape) == all.end();
      if (is_new) all.push_back({shape, exercise.types});
    }
  }
  return all;
}

/// \param launches  one for each shape that a goal is about
bool reaches_all(const Exercise& exercise, const std::vector<Watched>& launches) {
  const auto launch_of = [&](const Goal& goal) -> const Watched& {
    const Shape shape = shape_of(goal, exercise);
    return *std::ranges::find_if(launches, [&](const Watched& launch) {
      return launch.rows == shape.rows && launch.hidden == shape.hidden;
    });
  };
  bool all = true;
  for (const Goal& goal : exercise.goals) {
    all = reaches(goal, launch_of(goal), "GOAL", "NOT YET") && all;
  }
  for (const Goal& goal : exercise.within) {
    all = reaches(goal, launch_of(goal), "", "BUT NOT") && all;
  }
  if (!all) return false;
  // Nobody is to reach a goal by asking for more bytes.
  for (const Watched& launch : launches) {
    const std::string difference = difference_from_prediction(launch);
    if (difference.empty()) continue;
    say(launch.implementation, "BUT NOT",
        fmt::format(
            "the traffic that this file predicts: in {} x {}, {}", launch.rows, launch.hidden,
            difference));
    return false;
  }
  return true;
}

/// Runs a kernel on the problems that are counted; on all others, too, unless they are to be alone.
GauntletResult run(
    const Implementation& kernel, const std::vector<Counted>& counted, bool are_alone) {
  const auto failed = [](std::string_view slug, std::string_view why) {
    return line_of(slug, "WRONG", why);
  };
  if (!are_alone) return run_gauntlet(kernel, {.counted = counted, .failed = failed});
  GauntletResult all;
  for (const auto& [shape, types] : counted) {
    const Attempt attempt{{.rows = shape.rows, .hidden = shape.hidden, .types = types}};
    GauntletResult one =
        run_gauntlet(kernel, {.only = text_of(*kernel.operation, attempt), .failed = failed});
    if (!one.ok()) return one;
    all.right += one.right;
    std::move(one.launches.begin(), one.launches.end(), std::back_inserter(all.launches));
  }
  return all;
}

ExitCode check(const Implementation& kernel, const Exercise& exercise, bool goals_alone) {
  const std::vector<Counted> counted = counted_of(exercise);
  const GauntletResult verdict = run(kernel, counted, goals_alone);
  if (!verdict.ok()) {
    say(kernel.slug, "WRONG", text_of(verdict));
    return kLessonWrong;
  }
  say(kernel.slug, "RIGHT",
      fmt::format(
          "on {} problem{}{}", verdict.right, verdict.right == 1 ? "" : "s",
          can_watch() ? "; no mistakes seen" : ""));
  if (verdict.unsupported > 0) {
    fmt::print("{}\n", wrapped("  " + text_of_unsupported(verdict), width_of(STDOUT_FILENO)));
  }
  if (!can_watch()) return kAllVerified;
  if (verdict.launches.size() < counted.size()) {
    say(kernel.slug, "WRONG",
        "it does not support a problem that is counted: " + verdict.last_reason);
    return kLessonWrong;
  }
  return reaches_all(exercise, verdict.launches) ? kAllVerified : kGoalMissed;
}

/// Verifies and times a kernel, and says how its times compare with the roof's, if they are to.
int time_kernel(Implementation kernel, const Exercise& exercise, const char* program) {
  const std::string slug = kernel.slug;
  kernel.slug = "yours";
  std::vector<const char*> arguments = {program};
  const std::vector<const char*> own = {kernel.regime};
  for (const char* regime : exercise.regimes.empty() ? own : exercise.regimes) {
    arguments.insert(arguments.end(), {"--regime", regime});
  }
  std::vector<Result> results;
  const int exit_code =
      run_program(static_cast<int>(arguments.size()), arguments.data(), {kernel}, &results);
  if (exit_code != kAllVerified || exercise.regimes.empty()) return exit_code;
  bool all = true;
  for (const Result& result : results) {
    if (!percent_of_roof(result)) continue;  // the CPU device has no clock
    const bool reached = is_as_fast_as_roof(result);
    say(slug, reached ? "GOAL" : "NOT YET", share_text(result));
    all = all && reached;
  }
  return all ? kAllVerified : kGoalMissed;
}

}  // namespace

std::string place_of(const LineCount& line, std::string_view slug) {
  const bool is_own = line.file.find(slug) != std::string::npos;
  return is_own ? fmt::format("line {:>3}", line.line) : fmt::format("{}:{}", line.file, line.line);
}

Outcome judge(const Goal& goal, const Watched& launch) {
  std::vector<std::pair<double, LineCount>> parts;
  for (const LineCount& line : launch.counts.lines) {
    if (const auto value = part_of(line, goal, launch)) parts.emplace_back(*value, line);
  }
  // The worst first, or what adds most; where they are equal, in the order of the source.
  const bool smallest_first = is_of_worst_line(goal.quantity) && goal.bound == Goal::at_least;
  std::ranges::stable_sort(parts, [&](const auto& a, const auto& b) {
    return smallest_first ? a.first < b.first : a.first > b.first;
  });

  Outcome outcome;
  if (is_of_worst_line(goal.quantity)) {
    if (parts.empty()) return outcome;  // nothing was asked for: no goal about requests is reached
    outcome.counted = parts.front().first;
    std::erase_if(parts, [&](const auto& part) { return is_within(part.first, goal); });
  } else if (goal.quantity == Quantity::overlaps) {
    outcome.counted = ratio(launch.counts.overlapping_blocks, launch.counts.blocks);
  } else {
    for (const auto& [value, line] : parts) outcome.counted += value;
  }
  outcome.reached = is_within(outcome.counted, goal);
  if (!outcome.reached) outcome.parts = parts;
  return outcome;
}

bool is_as_fast_as_roof(const Result& result) {
  return percent_of_roof(result).value_or(0) >= kAsFastAsRoof;
}

std::string share_text(const Result& result) {
  return fmt::format(
      "at least {:.0f} % of the roof's bandwidth: {:.1f} % measured in {}", kAsFastAsRoof,
      percent_of_roof(result).value_or(0), result.regime);
}

ExerciseRegistration::ExerciseRegistration(const Exercise& exercise) {
  exercise_given() = exercise;
}

int run_exercise(int argc, const char* const* argv) {
  const std::optional<Exercise>& exercise = exercise_given();
  const std::string slug = exercise ? exercise->lesson : "";
  std::vector<Implementation> lessons = all_implementations();
  std::erase_if(lessons, [&](const Implementation& lesson) { return lesson.slug != slug; });
  if (lessons.size() != 1) {
    fmt::print(stderr, "the file has to register '{}', once\n", slug);
    return kBadUsage;
  }
  const std::string_view option = argc == 2 ? argv[1] : "";
  if (option == "--time") return time_kernel(lessons[0], *exercise, argv[0]);
  if (argc > 2 || !(option.empty() || option == "--goals")) {
    fmt::print(stderr, "usage: {} [--time | --goals]\n", argv[0]);
    return kBadUsage;
  }
  try {
    find_gpu();
    return check(lessons[0], *exercise, option == "--goals");
  } catch (const NoGpu& reason) {
    fmt::print(stderr, "{}\n", reason.what());
    return kNoDevice;
  } catch (const std::exception& error) {
    end_progress();
    say(slug, "WRONG", error.what());
    return kLessonWrong;
  }
}

}  // namespace rmsnorm
