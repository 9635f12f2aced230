#include "common/programs/options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <string_view>

#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/terminal.hpp"
#include "common/contract/registry.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/programs/prediction.hpp"
#include "common/records/result.hpp"

namespace rmsnorm {
namespace {

constexpr const char* kAll = "all";
constexpr int kHelpColumn = 28;  // at which the options are explained
constexpr const char* kCannotCount =
    "only the CPU device counts what source lines do: ./rmsnorm lesson N --device cpu --trace";

std::string name_of(const Regime& regime) {
  return regime.name;
}
std::string name_of(const Types& types) {
  return to_string(types);
}
std::string name_of(const Implementation& implementation) {
  return fmt::format("{} {}", implementation.slug, implementation.operation->name);
}

template <class T>
std::string names_of(const std::vector<T>& items) {
  std::string names;
  for (const T& item : items) names += (names.empty() ? "" : ", ") + name_of(item);
  return names;
}

/// What the names stand for: what find(name) gives, each item once. If that is nothing, the name is
/// a mistake: `unknown` says so, with a {} for it.
template <class Find>
auto all_named(
    const char* option, const std::vector<std::string>& names, Find find,
    const std::string& unknown) {
  decltype(find(names[0])) chosen;
  for (const std::string& name : names) {
    const auto found = find(name);
    if (found.empty()) {
      throw CLI::ValidationError(option, fmt::format(fmt::runtime(unknown), name));
    }
    for (const auto& item : found) {
      const auto is_it = [&](const auto& other) { return name_of(other) == name_of(item); };
      if (std::ranges::none_of(chosen, is_it)) chosen.push_back(item);
    }
  }
  return chosen;
}

std::vector<Regime> all_regimes() {
  std::vector<Regime> all = regimes();
  all.insert(all.end(), sweeps().begin(), sweeps().end());
  return all;
}

std::string regime_names() {
  return names_of(all_regimes()) + ", " + kAll;
}

std::vector<Regime> regimes_named(const std::vector<std::string>& names) {
  const auto find = [](const std::string& name) {
    if (name == kAll) return regimes();
    std::vector<Regime> found = all_regimes();
    std::erase_if(found, [&](const Regime& regime) { return regime.name != name; });
    return found;
  };
  return all_named("--regime", names, find, "there is no regime '{}'; there are " + regime_names());
}

std::vector<Implementation> implementations_named(
    const std::vector<std::string>& names, const std::vector<Implementation>& among) {
  const auto find = [&](const std::string& name) { return find_implementations(among, name); };
  return all_named("--lesson", names, find, "there is no lesson '{}'; --list shows them");
}

std::vector<Types> types_with_names(const std::vector<std::string>& names) {
  const auto find = [](const std::string& name) {
    const std::optional<Types> types = types_named(name);
    return types ? std::vector{*types} : std::vector<Types>();
  };
  return all_named(
      "--dtype", names, find, "there are no tensors of '{}'; there are " + names_of(all_types()));
}

std::vector<Implementation> of_operation(
    const std::string& name, const std::vector<Implementation>& among) {
  std::vector<Implementation> chosen;
  std::vector<std::string> known;
  for (const Implementation& implementation : among) {
    const std::string operation = implementation.operation->name;
    if (operation == name) chosen.push_back(implementation);
    if (std::ranges::count(known, operation) == 0) known.push_back(operation);
  }
  if (!chosen.empty()) return chosen;
  throw CLI::ValidationError(
      "--operation",
      fmt::format("nothing here does '{}'; there are {}", name, fmt::join(known, ", ")));
}

/// All sizes beside rows and columns that operations have here, and what each may be at most: what
/// all that have it take.
std::map<std::string, int> sizes_of(const std::vector<Implementation>& implementations) {
  std::map<std::string, int> sizes;
  for (const Implementation& one : implementations) {
    for (const SizeSpec& size : one.operation->sizes) {
      const auto [known, is_new] = sizes.try_emplace(size.name, size.most);
      if (!is_new) known->second = std::min(known->second, size.most);
    }
  }
  return sizes;
}

/// "q_heads (1 to 1024), k_heads (1 to 1024)".
std::string text_of(const std::map<std::string, int>& sizes) {
  std::vector<std::string> texts;
  for (const auto& [name, most] : sizes) texts.push_back(fmt::format("{} (1 to {})", name, most));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Sizes from texts like "q_heads=8".
std::map<std::string, int> sizes_from(
    const std::vector<std::string>& texts, const std::map<std::string, int>& known) {
  std::map<std::string, int> sizes;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    int size = 0;
    const char* const end = text.data() + text.size();
    const bool is_number =
        equals != text.npos &&
        std::from_chars(text.data() + equals + 1, end, size) == std::from_chars_result{end, {}};
    const auto found = known.find(name);
    if (found == known.end() || !is_number || size < 1 || size > found->second) {
      throw CLI::ValidationError(
          "--size", fmt::format("'{}' is none of NAME=N with {}", text, text_of(known)));
    }
    sizes[name] = size;
  }
  return sizes;
}

/// A finite number in [lowest, highest]: CLI::Range lets NaN pass. `complaint` follows the text.
CLI::Validator finite_in(double lowest, double highest, const std::string& complaint) {
  const auto check = [=](const std::string& text) {
    double value = 0;
    const bool is_number = CLI::detail::lexical_cast(text, value);
    if (is_number && value >= lowest && value <= highest) return std::string();
    return fmt::format("'{}' is {}", text, complaint);
  };
  return CLI::Validator(check, "NUMBER");
}

bool are_one_lesson(const std::vector<Implementation>& all) {
  const auto lesson = [](const Implementation& one) {
    const std::string_view slug = one.slug;
    return slug.substr(0, slug.find('/'));
  };
  return std::ranges::all_of(
      all, [&](const Implementation& one) { return lesson(one) == lesson(all.front()); });
}

/// Narrows the options to what a prediction is about.
void choose_step(Options& options, const std::vector<Implementation>& among) {
  if (is_cpu_device() && options.recorded_file.empty()) {
    throw CLI::ValidationError(
        "--predict", "the CPU device has no times, so --recorded FILE must name some");
  }
  try {
    options.implementations = predecessor_and_lesson(among, options.implementations);
  } catch (const std::runtime_error& error) {
    throw CLI::ValidationError("--predict", error.what());
  }
  options.regimes = regimes_named({options.implementations.back().regime});
}

}  // namespace

std::vector<Types> types_for(
    const Options& options, const Implementation& implementation, const Regime& regime) {
  if (!options.types.empty()) return options.types;
  constexpr Types kFp32;
  constexpr Types kBf16 = {.dtype = Dtype::bf16, .weight = Dtype::bf16};
  constexpr Types kFp16 = {.dtype = Dtype::fp16, .weight = Dtype::fp16};
  const auto is_this = [&](const Regime& other) { return other.name == regime.name; };
  if (!implementation.is_typed) return {kFp32};
  if (regime.name == kUnalignedSweep) return {kBf16};
  if (std::ranges::none_of(regimes(), is_this)) return {kFp32};
  if (options.predicted) return {kBf16, kFp32};
  return {kFp32, kBf16, kFp16};
}

ParsedOptions parse_options(
    int argc, const char* const* argv, const std::vector<Implementation>& implementations) {
  ParsedOptions parsed;
  Options& options = parsed.options;

  constexpr double kMin = std::numeric_limits<double>::denorm_min();
  constexpr double kMax = std::numeric_limits<double>::max();
  constexpr int kMaxRows = std::numeric_limits<int>::max();
  constexpr int kMaxColumns = 1 << 30;
  std::vector<std::string> lesson_names;
  std::string operation;
  bool wants_variants = false;
  std::vector<std::string> names_of_regimes;
  std::vector<std::string> names_of_types;
  std::vector<std::string> sizes;
  std::optional<int> rows;
  std::optional<int> hidden;

  const std::string about =
      implementations.size() == 1
          ? fmt::format("{}: {}.", implementations[0].slug, implementations[0].idea)
          : std::string("The lessons of RMSNorm, step by step: verified, then timed.");
  CLI::App app(
      about +
      "\nExit codes: 0 all verified, 1 a lesson is wrong, 2 bad usage, 3 no usable device.");
  app.set_version_flag(
      "--version", is_cpu_device()
                       ? fmt::format("built from {} for the CPU device", build_commit())
                       : fmt::format("built from {} with CUDA {}", build_commit(), cuda_version()));
  app.get_formatter()->column_width(kHelpColumn);

  app.add_option("--lesson", lesson_names, "Only this lesson: a number or a slug; may be repeated")
      ->type_name("NAME");
  app.add_option("--operation", operation, "Only implementations of this operation")
      ->type_name("NAME");
  app.add_flag(
      "--variants", wants_variants, "The lessons' variants as well, where they are left out");
  auto* regime_option =
      app.add_option(
             "--regime", names_of_regimes,
             "One of " + regime_names() + " (= the first six, default); may be repeated")
          ->type_name("NAME");
  auto* dtype_option = app.add_option(
                              "--dtype", names_of_types,
                              "Type of the tensors: fp32, bf16 or fp16; behind it /fp32 or /none "
                              "if the weight is of "
                              "another or there is none, as in bf16/fp32; may be repeated")
                           ->type_name("NAME");
  auto* rows_option = app.add_option("--rows", rows, "Rows of a problem of your own (default 1024)")
                          ->check(CLI::Range(0, kMaxRows).description(""))
                          ->type_name("N")
                          ->excludes(regime_option);
  auto* hidden_option =
      app.add_option("--hidden", hidden, "Columns of a problem of your own (default 4096)")
          ->check(CLI::Range(1, kMaxColumns).description(""))
          ->type_name("N")
          ->excludes(regime_option);
  const std::map<std::string, int> all_sizes = sizes_of(implementations);
  if (!all_sizes.empty()) {
    app.add_option("--size", sizes, "Another size of the operation: " + text_of(all_sizes))
        ->type_name("NAME=N");
  }
  app.add_option("--eps", options.eps, "Added to the mean square (default 1e-5)")
      ->check(finite_in(0, 1e30, "not a number from 0 to 1e+30"));
  app.add_option("--seed", options.seed, "Seed of the random tensors (default 1)")
      ->type_name("N")
      ->check([](const std::string& text) {
        return text[0] == '-' ? fmt::format("'{}' is negative", text) : std::string();
      });
  app.add_option(
         "--min-time", options.min_seconds, "Seconds of timed work per result (default 0.1)")
      ->check(finite_in(1e-4, 60, "not a number from 0.0001 to 60"));
  auto* cold_flag = app.add_flag_callback(
      "--cold", [&] { options.only_cache = Cache::cold; },
      "Time with the tensors out of the L2 cache only");
  auto* warm_flag = app.add_flag_callback(
                           "--warm", [&] { options.only_cache = Cache::warm; },
                           "Time with the tensors left in the L2 cache only")
                        ->excludes(cold_flag);
  app.add_option("--csv", options.csv_file, "Write the results to this file")->type_name("FILE");
  auto* verify_flag = app.add_flag("--verify-only", options.verify_only, "Verify, do not time");
  auto* trace_flag = app.add_flag(
      "--trace", options.trace,
      "Print what each source line costs, in the lesson's own regime unless another problem is "
      "chosen (CPU device only)");
  auto* trace_option =
      app.add_option("--trace-csv", options.trace_file, "Write that to this file (CPU device only)")
          ->type_name("FILE");
  auto* predict_option =
      app.add_option(
             "--predict", options.predicted,
             "How many times as fast as its predecessor is the lesson, in its own regime? Grades "
             "your guess")
          ->type_name("FACTOR")
          ->check(finite_in(kMin, kMax, "no factor: 2 means twice as fast, 0.5 half as fast")
                      .description(""));
  for (CLI::Option* other :
       {regime_option, dtype_option, rows_option, hidden_option, cold_flag, warm_flag, verify_flag,
        trace_flag}) {
    predict_option->excludes(other);
  }
  app.add_option(
         "--recorded", options.recorded_file, "Results to grade it by where nothing can be timed")
      ->type_name("FILE")
      ->take_last();
  app.add_flag(
      "--summary", options.summary, "A line for each lesson; the CPU device leaves variants out");
  app.add_flag("--verbose", options.verbose, "Print each result as well, as soon as it is there");
  app.add_flag("--list", options.list, "List the lessons of this program and exit");
  app.add_flag("--l2", options.l2, "Print the size of the GPU's L2 cache in MiB and exit");

  try {
    app.parse(argc, argv);
    for (const CLI::Option* option : {trace_flag, trace_option}) {
      if (*option && !can_watch()) {
        throw CLI::ValidationError(option->get_name(), kCannotCount);
      }
    }
    const std::vector<Implementation> among =
        operation.empty() ? implementations : of_operation(operation, implementations);
    options.implementations =
        lesson_names.empty() ? among : implementations_named(lesson_names, among);
    const bool is_short = !wants_variants && !options.list && lesson_names.empty();
    const bool is_a_run = options.summary && is_cpu_device();
    if (is_short && (is_a_run || are_one_lesson(implementations))) {
      std::erase_if(
          options.implementations, [](const Implementation& one) { return is_variant(one.slug); });
    }
    if (rows || hidden) {
      options.regimes = {
          {kCustomRegime,
           {{rows.value_or(1024), hidden.value_or(4096)}},
           {Cache::cold, Cache::warm}}};
    } else {
      options.regimes = names_of_regimes.empty() ? regimes() : regimes_named(names_of_regimes);
    }
    options.types = types_with_names(names_of_types);
    options.sizes = sizes_from(sizes, all_sizes);
    options.trace_all = rows || hidden || !names_of_regimes.empty();
    if (options.predicted) choose_step(options, among);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", wrapped(app.help(), width_of(STDOUT_FILENO), kHelpColumn));
    parsed.exit_code = kAllVerified;
  } catch (const CLI::Success& success) {  // --version
    parsed.exit_code = app.exit(success);
  } catch (const CLI::Error& error) {
    fmt::print(stderr, "{} (--help lists the options)\n", error.what());
    parsed.exit_code = kBadUsage;
  }
  return parsed;
}

}  // namespace rmsnorm
