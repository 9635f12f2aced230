/// \file
/// Draws every chart that a results file, what was counted and read of its kernels, a trace file,
/// the results of peers.py, and a GPU's measured memories have data for.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "plots/charts.hpp"
#include "plots/machine.hpp"
#include "plots/tool.hpp"

namespace {

using namespace rmsnorm::plots;

/// The operation that all charts are of but those of a lesson about another.
constexpr const char* kMain = "rms_norm";

struct Options {
  std::filesystem::path csv_file;
  std::filesystem::path trace_file;
  std::filesystem::path peers_file;
  std::filesystem::path profile_file;
  std::filesystem::path loads_file;
  std::filesystem::path machine_file;
  std::filesystem::path folder;
  std::optional<double> l2_mib;
};

/// Draws those charts of a file that it has data for.
void save(
    const std::vector<std::pair<std::string, std::optional<Chart>>>& charts, const Options& options,
    const std::filesystem::path& file) {
  int drawn = 0;
  for (const auto& [name, chart] : charts) {
    if (!chart) {
      fmt::print("{} left out: {} has no results for it\n", name, file.string());
      continue;
    }
    render(*chart, options.folder / name);
    fmt::print("{}\n", name);
    ++drawn;
  }
  if (drawn == 0)
    throw std::runtime_error(fmt::format("{}: nothing that a chart could show", file.string()));
}

void draw_results(const Options& options) {
  const auto results = load_results(options.csv_file);
  const auto with_variants = of_operation(of_fp32(results), kMain);
  const auto norms = without_variants(with_variants);
  std::vector<std::pair<std::string, std::optional<Chart>>> charts;
  for (const Condition& condition : timed_conditions(norms))
    charts.emplace_back(progression_name(norms, condition), progression_chart(norms, condition));
  for (const Rung& rung : kRungs) {
    if (auto chart = lesson_chart(results, rung))
      charts.emplace_back(fmt::format("lesson_{}", rung.lesson), std::move(chart));
  }
  for (const Sweep& sweep : kSweeps) {
    const auto& shown = sweep.has_others ? norms : with_variants;
    charts.emplace_back(sweep.name, sweep_chart(shown, sweep, options.l2_mib));
  }
  charts.emplace_back("error", error_chart(norms, kOverHidden));
  save(charts, options, options.csv_file);
}

void draw_limits(const Options& options) {
  const auto results = of_operation(load_results(options.csv_file), kMain);
  const auto profiles = of_operation(read_profiles(options.profile_file), kMain);
  const auto loads = read_loads(options.loads_file);
  const auto limits = limits_of(results, profiles, loads);
  save(
      {{"bytes_in_flight", bytes_in_flight_chart(limits)}, {"roofline", roofline_chart(limits)}},
      options, options.loads_file);
}

void draw_trace(const Options& options) {
  const auto trace = load_trace(options.trace_file, kMain);
  std::vector<std::pair<std::string, std::optional<Chart>>> charts;
  for (const Regimes& same : counted_regimes(trace))
    charts.emplace_back("counts_" + same.front(), counts_chart(trace, same));
  save(charts, options, options.trace_file);
}

void draw_peers(const Options& options) {
  const auto results = load_results(options.peers_file);
  save(
      {{"peers_forward", peers_forward_chart(results)},
       {"peers_decode", peers_decode_chart(results)},
       {"peers_other", peers_other_chart(results)}},
      options, options.peers_file);
}

void draw_machine(const Options& options) {
  const auto rows = read_machine(options.machine_file);
  save(
      {{"machine_latency", latency_chart(rows)}, {"machine_in_flight", in_flight_chart(rows)}},
      options, options.machine_file);
}

/// Says what is wrong with a number that has to be above 0; CLI::PositiveNumber lets NaN pass.
std::string positive(const std::string& text) {
  double number = 0;
  if (CLI::detail::lexical_cast(text, number) && number > 0) return "";
  return fmt::format("'{}' is not a number above 0", text);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Draws the charts of the files that it is given, each as NAME.svg and NAME-dark.svg.");
  const auto file = [&](const char* name, std::filesystem::path& path, const char* what) {
    return app.add_option(name, path, what)->type_name("FILE");
  };
  CLI::Option* csv = file("--csv", options.csv_file, "The results file");
  CLI::Option* trace = file("--trace", options.trace_file, "The CPU device's counts");
  CLI::Option* peers = file("--peers", options.peers_file, "The results of peers.py");
  CLI::Option* machine = file("--machine", options.machine_file, "What ./rmsnorm machine measured");
  CLI::Option* profile = file("--profile", options.profile_file, "The profiler's counts");
  CLI::Option* loads = file("--loads", options.loads_file, "What loads_in_flight.py read");
  profile->needs(csv);
  loads->needs(csv, profile);
  app.add_option("--out", options.folder, "The folder for the charts")
      ->required()
      ->type_name("DIR");
  app.add_option("--l2-mib", options.l2_mib, "Size of the L2 cache, to be marked in sweep_rows")
      ->check(positive)
      ->needs(csv)
      ->type_name("N");
  return run_tool(app, argc, argv, [&] {
    if (csv->empty() && trace->empty() && peers->empty() && machine->empty())
      throw CLI::RequiredError("--csv, --trace, --peers or --machine");
    if (!csv->empty()) draw_results(options);
    if (!loads->empty()) draw_limits(options);
    if (!trace->empty()) draw_trace(options);
    if (!peers->empty()) draw_peers(options);
    if (!machine->empty()) draw_machine(options);
    return kDone;
  });
}
