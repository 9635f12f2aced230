#include "common/programs/check.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <set>
#include <string>
#include <utility>

#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/contract/registry.hpp"
#include "common/measure/gpu.hpp"
#include "common/programs/report.hpp"
#include "common/programs/trace_report.hpp"

namespace rmsnorm {
namespace {

/// The problems whose traffic is compared with the prediction.
std::vector<Counted> counted_for(const Implementation& implementation) {
  std::vector<Counted> counted;
  for (const Shape shape : {Shape{64, 4096}, Shape{256, 128}, Shape{32, 20000}}) {
    counted.push_back({shape});
    if (!implementation.is_typed) continue;
    for (const char* const name : {"bf16", "fp16/fp32", "bf16/none"}) {
      counted.push_back({shape, *types_named(name)});
    }
  }
  return counted;
}

/// A kernel that is right wherever it has run.
struct Right {
  std::string slug;
  std::string text;  ///< how right it is
  int problems;      ///< on how many
};

/// Checks one implementation. Says how it went if it is not right; else that comes to `right`.
ExitCode check(
    const Implementation& implementation, GauntletLimits limits, std::vector<Right>& right) {
  limits.counted = counted_for(implementation);
  const GauntletResult verdict = run_gauntlet(implementation, limits);
  const auto fail = [&](const std::string& sentence) {
    fmt::print("{}\n", failed_line(implementation.slug, sentence));
    return kLessonWrong;
  };
  if (const std::size_t at = verdict.last_reason.find(kNeedsGpu);
      verdict.right == 0 && at != std::string::npos) {
    fmt::print("{}\n", skipped_line(implementation.slug, "it" + verdict.last_reason.substr(at)));
    return kNoDevice;
  }
  const auto again = [](const std::string& problem) {
    return problem.empty() ? "" : fmt::format("\n  this problem alone: --only '{}'", problem);
  };
  if (!verdict.ok()) return fail(text_of(verdict) + again(verdict.where));
  for (const Watched& launch : verdict.launches) {
    const std::string difference = difference_from_prediction(launch);
    if (difference.empty()) continue;
    const std::string problem = text_of(
        *implementation.operation,
        {{.rows = static_cast<int>(launch.rows), .hidden = launch.hidden, .types = launch.types}});
    return fail(
        fmt::format("on {}:\n  {}{}\n{}", problem, difference, again(problem), line_table(launch)));
  }
  std::string text = fmt::format(
      "right on {} problem{}{}{}\n", verdict.right, verdict.right == 1 ? "" : "s",
      verdict.drawn == 0 ? ""
                         : fmt::format(", {} of all drawn by seed {}", verdict.drawn, limits.seed),
      can_watch() ? "; no mistakes seen; traffic as predicted" : "");
  if (verdict.unsupported > 0) {
    text += fmt::format(
        "  does not support {} (the last: {})\n", verdict.unsupported, verdict.last_reason);
  }
  for (const std::string& note : verdict.notes) text += fmt::format("  {}\n", note);
  for (const Watched& launch : verdict.launches) text += cost_table({launch});
  right.push_back({implementation.slug, text, verdict.right});
  return kAllVerified;
}

/// Says which kernels are right; or that none is checked, where a line of the code has not run.
ExitCode say(const std::vector<Right>& right, bool has_to_run, bool every_function) {
  int problems = 0;
  for (const Right& kernel : right) problems += kernel.problems;
  const std::string never_run = has_to_run ? text_of_lines_never_run(every_function, problems) : "";
  for (const Right& kernel : right) {
    if (never_run.empty()) {
      fmt::print("{:27} PASS  {}", kernel.slug, kernel.text);
    } else {
      fmt::print("{:27} NOT CHECKED  {}  else {}", kernel.slug, never_run, kernel.text);
    }
  }
  return never_run.empty() ? kAllVerified : kNotChecked;
}

/// What is wrong with the registrations themselves, in one sentence; or "".
std::string complaint_about_registrations(const std::vector<Implementation>& implementations) {
  std::set<std::pair<std::string, const Operation*>> known;
  for (const Implementation& one : implementations) {
    const std::string slug = one.slug;
    const char* const lacking = slug.empty()     ? "slug"
                                : !one.launch    ? "launch"
                                : !one.traffic   ? "traffic"
                                : !one.sum_depth ? "sum_depth"
                                                 : nullptr;
    if (lacking != nullptr) {
      return fmt::format(
          "{} registration lacks its .{}", slug.empty() ? "a" : slug + "'s", lacking);
    }
    if (!known.emplace(slug, one.operation).second) {
      return fmt::format("two registrations have the .slug \"{}\": give each its own", slug);
    }
  }
  return "";
}

}  // namespace

int check_implementations(
    const std::vector<Implementation>& implementations, GauntletLimits limits) {
  if (implementations.empty()) {
    fmt::print(stderr, "the file registers no kernel: it needs a rmsnorm::Registration\n");
    return kBadUsage;
  }
  if (const std::string text = complaint_about_registrations(implementations); !text.empty()) {
    fmt::print(stderr, "{}\n", text);
    return kBadUsage;
  }
  try {
    const Gpu gpu = find_gpu();
    fmt::print(stderr, "checking on {}\n", is_cpu_device() ? "the CPU device" : gpu.name);
    limits.every_function = implementations.size() == all_implementations().size();
    ExitCode worst = kAllVerified;
    std::vector<Right> right;
    for (const Implementation& implementation : implementations) {
      const ExitCode found = check(implementation, limits, right);
      if (worst != kLessonWrong && found != kAllVerified) worst = found;
    }
    const bool has_to_run = worst == kAllVerified && limits.only.empty();
    const ExitCode found = say(right, has_to_run, limits.every_function);
    return worst == kAllVerified ? found : worst;
  } catch (const NoGpu& reason) {
    fmt::print(stderr, "{}\n", reason.what());
    return kNoDevice;
  } catch (const std::exception& error) {
    fmt::print("\nFAIL  {}\n", error.what());
    return kLessonWrong;
  }
}

}  // namespace rmsnorm
