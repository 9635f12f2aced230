/// \file
/// Draws every chart that a results file, what was counted and read of its kernels, a trace file,
/// the results of peers.py, and a GPU's measured memories have data for.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <utility>

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

void save(const Chart& chart, const Options& options, const std::string& name) {
  render(chart, options.folder / name);
  fmt::print("{}\n", name);
}

void draw_results(const Options& options) {
  const auto results = load_results(options.csv_file);
  int drawn = 0;
  const auto save_if_any = [&](const std::optional<Chart>& chart, const std::string& name) {
    if (chart) {
      save(*chart, options, name);
      ++drawn;
    } else {
      fmt::print("{} left out: {} has no results for it\n", name, options.csv_file.string());
    }
  };
  const auto with_variants = of_operation(of_fp32(results), kMain);
  const auto norms = without_variants(with_variants);
  for (const Condition& condition : timed_conditions(norms))
    save_if_any(progression_chart(norms, condition), progression_name(norms, condition));
  for (const Rung& rung : kRungs) {
    const auto chart = lesson_chart(results, rung);
    if (chart) save_if_any(chart, fmt::format("lesson_{}", rung.lesson));
  }
  for (const Sweep& sweep : kSweeps) {
    const auto& shown = sweep.has_others ? norms : with_variants;
    save_if_any(sweep_chart(shown, sweep, options.l2_mib), sweep.name);
  }
  save_if_any(error_chart(norms, kOverHidden), "error");
  if (drawn == 0) {
    throw std::runtime_error(
        fmt::format("{}: no results that a chart could show", options.csv_file.string()));
  }
}

void draw_limits(const Options& options) {
  const auto results = of_operation(load_results(options.csv_file), kMain);
  const auto profiles = of_operation(read_profiles(options.profile_file), kMain);
  const auto loads = read_loads(options.loads_file);
  const auto limits = limits_of(results, profiles, loads);
  const auto bytes_in_flight = bytes_in_flight_chart(limits);
  const auto roofline = roofline_chart(limits);
  if (!bytes_in_flight || !roofline) {
    throw std::runtime_error(fmt::format(
        "{}: no loads of a kernel that was timed and counted", options.loads_file.string()));
  }
  save(*bytes_in_flight, options, "bytes_in_flight");
  save(*roofline, options, "roofline");
}

void draw_trace(const Options& options) {
  const auto trace = load_trace(options.trace_file, kMain);
  const auto regimes = counted_regimes(trace);
  for (const Regimes& same : regimes)
    save(counts_chart(trace, same), options, "counts_" + same.front());
  if (regimes.empty()) {
    throw std::runtime_error(
        fmt::format("{}: no regime has counts of two lessons", options.trace_file.string()));
  }
}

void draw_peers(const Options& options) {
  const auto results = load_results(options.peers_file);
  const std::pair<const char*, std::optional<Chart>> charts[] = {
      {"peers_forward", peers_forward_chart(results)},
      {"peers_decode", peers_decode_chart(results)},
      {"peers_other", peers_other_chart(results)}};
  for (const auto& [name, chart] : charts) {
    if (!chart) {
      throw std::runtime_error(
          fmt::format("{}: no results for {}", options.peers_file.string(), name));
    }
    save(*chart, options, name);
  }
}

void draw_machine(const Options& options) {
  const auto rows = read_machine(options.machine_file);
  save(latency_chart(rows), options, "machine_latency");
  save(in_flight_chart(rows), options, "machine_in_flight");
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
  CLI::Option* csv =
      app.add_option("--csv", options.csv_file, "The results file")->type_name("FILE");
  CLI::Option* trace =
      app.add_option("--trace", options.trace_file, "The CPU device's counts")->type_name("FILE");
  CLI::Option* peers =
      app.add_option("--peers", options.peers_file, "The results of peers.py")->type_name("FILE");
  CLI::Option* machine =
      app.add_option("--machine", options.machine_file, "What ./rmsnorm machine measured")
          ->type_name("FILE");
  CLI::Option* profile = app.add_option("--profile", options.profile_file, "The profiler's counts")
                             ->needs(csv)
                             ->type_name("FILE");
  CLI::Option* loads = app.add_option("--loads", options.loads_file, "What loads_in_flight.py read")
                           ->needs(csv, profile)
                           ->type_name("FILE");
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
