#include "common/programs/check.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/files.hpp"
#include "common/base/terminal.hpp"
#include "common/contract/registry.hpp"
#include "common/measure/gpu.hpp"
#include "common/programs/program.hpp"
#include "common/programs/report.hpp"
#include "common/programs/table.hpp"
#include "common/programs/trace_report.hpp"

namespace rmsnorm {
namespace {

/// The problems whose traffic is compared with the prediction.
std::vector<Counted> counted_for(const Implementation& implementation) {
  std::vector<Counted> counted;
  for (const Shape shape : {Shape{64, 4096}, Shape{256, 128}, Shape{8, 20000}}) {
    counted.push_back({shape});
    if (!implementation.is_typed) continue;
    for (const char* const name : {"bf16", "fp16/fp32", "bf16/none"}) {
      counted.push_back({shape, *types_named(name)});
    }
  }
  return counted;
}

/// The text in lines as wide as the terminal. What is to be typed again stays in one.
std::string in_columns(const std::string& text) {
  std::string all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_typed = line.find("--only '") != line.npos;
    all += (is_typed ? line : wrapped(line, width_of(STDOUT_FILENO))) + "\n";
  }
  return all;
}

/// A kernel that is right wherever it has run.
struct Right {
  std::string slug;
  std::string text;       ///< how right it is
  int problems;           ///< on how many
  std::string not_tried;  ///< what could not be tried; "" if nothing
};

/// Checks one implementation. Says how it went if it is not right; else that comes to `right`.
ExitCode check(
    const Implementation& implementation, GauntletLimits limits, std::vector<Right>& right) {
  limits.counted = counted_for(implementation);
  const GauntletResult verdict = run_gauntlet(implementation, limits);
  const auto fail = [&](const std::string& sentence) {
    fmt::print("{}", in_columns(failed_line(implementation.slug, sentence)));
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
    return fail(fmt::format(
        "on {}:\n  {}{}\n{}", problem, difference, again(problem),
        line_table(launch, width_of(STDOUT_FILENO))));
  }
  std::string text = fmt::format(
      "on {} problem{}{}\n", verdict.right, verdict.right == 1 ? "" : "s",
      verdict.drawn == 0
          ? ""
          : fmt::format(", {} of them random (seed {})", verdict.drawn, limits.seed));
  if (can_watch()) text += "  no mistakes seen; traffic as predicted\n";
  if (verdict.unsupported > 0) text += "  " + text_of_unsupported(verdict) + "\n";
  for (const std::string& note : verdict.notes) text += fmt::format("  {}\n", note);
  text += cost_table(verdict.launches);
  right.push_back({implementation.slug, text, verdict.right, verdict.not_tried});
  return kAllVerified;
}

/// Says which kernels are right; or not checked, where something could not be tried, and none,
/// where a line of the code has not run.
ExitCode say(const std::vector<Right>& right, bool has_to_run, bool every_function) {
  int problems = 0;
  for (const Right& kernel : right) problems += kernel.problems;
  const std::string never_run = has_to_run ? text_of_lines_never_run(every_function, problems) : "";
  ExitCode worst = kAllVerified;
  for (const Right& kernel : right) {
    const std::string why = never_run + (kernel.not_tried.empty() ? "" : kernel.not_tried + "\n");
    const std::string verdict = why.empty() ? "PASS  " : "NOT CHECKED  " + why + "  else right ";
    if (!why.empty()) worst = kNotChecked;
    fmt::print("{}", in_columns(fmt::format("{:27} {}{}", kernel.slug, verdict, kernel.text)));
  }
  return worst;
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

/// Notes the registers of kernels that ptxas names in a text, two lines for each.
void note_registers(const std::string& text) {
  std::istringstream lines(text);
  std::string kernel;
  for (std::string line; std::getline(lines, line);) {
    const auto behind = [&](std::string_view begin) {
      const std::size_t at = line.find(begin);
      return at == line.npos ? "" : line.substr(at + begin.size());
    };
    if (const std::string name = behind("Compiling entry function '"); !name.empty()) {
      kernel = name.substr(0, name.find('\''));
    }
    if (const std::string used = behind("Used "); !used.empty()) {
      set_registers(kernel, std::atoi(used.c_str()));
    }
  }
}

}  // namespace

void name_after_file(std::vector<Implementation>& implementations, const std::string& file) {
  static std::deque<std::string> names;  // which stay where they are
  const auto lesson_of = [](const Implementation& one) {
    const std::string slug = one.slug;
    return slug.substr(0, slug.find('/'));
  };
  std::set<std::string> lessons;
  for (const Implementation& one : implementations) {
    const std::string lesson = lesson_of(one);
    const std::filesystem::path folder = std::filesystem::path(RMSNORM_SOURCE_DIR) / "lessons";
    if (!lesson.empty() && std::filesystem::exists(folder / lesson)) lessons.insert(lesson);
  }
  if (lessons.size() != 1) return;
  for (Implementation& one : implementations) {
    const std::string lesson = lesson_of(one);
    if (!lessons.contains(lesson)) continue;
    one.slug = names.emplace_back(file + (one.slug + lesson.size())).c_str();
  }
}

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
    if (!is_cpu_device()) fmt::print(stderr, "checking on {}\n", gpu.name);
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

int run_check(int argc, const char* const* argv, std::vector<Implementation> implementations) {
  GauntletLimits limits;
  std::string operation;
  std::string name;
  std::string registers;
  bool small = false;
  bool timed = false;
  CLI::App app("Checks the kernels of a file on many problems.");
  app.add_option("--operation", operation, "Only kernels of this operation")->type_name("NAME");
  app.add_option("--only", limits.only, "The one problem that check calls so")->type_name("TEXT");
  app.add_option("--seed", limits.seed, "Other random problems")->type_name("N");
  app.add_option("--name", name, "Kernels of a lesson are called after this file")
      ->type_name("FILE");
  app.add_option(
         "--registers", registers,
         "What ptxas says of the kernels: no launch may need more registers than there are")
      ->type_name("FILE");
  app.add_flag(
      "--small", small,
      "Problems stay below 2^31 elements: for tools under which a kernel is very slow");
  app.add_flag("--time", timed, "Verify and time the kernels in their regimes, and nothing else");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return kAllVerified;
  } catch (const CLI::Error& error) {
    fmt::print(stderr, "{} (--help lists the options)\n", error.what());
    return kBadUsage;
  }
  if (!operation.empty()) {
    std::erase_if(implementations, [&](const Implementation& implementation) {
      return implementation.operation->name != operation;
    });
    if (implementations.empty()) {
      fmt::print(stderr, "the file registers no kernel that does '{}'\n", operation);
      return kBadUsage;
    }
  }
  if (timed) {
    const char* const every_kernel[] = {argv[0], "--variants"};
    return run_program(2, every_kernel, implementations);
  }
  if (!registers.empty()) note_registers(read_file(registers));
  if (!name.empty()) name_after_file(implementations, name);
  limits.beyond_32_bits = !small;
  return check_implementations(implementations, limits);
}

}  // namespace rmsnorm
