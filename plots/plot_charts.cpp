/// \file
/// Draws every chart that a results file has data for.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "plots/progression.hpp"
#include "plots/select.hpp"
#include "plots/sweep.hpp"
#include "plots/tool.hpp"

namespace {

using namespace rmsnorm::plots;

struct Options {
  std::filesystem::path csv_file;
  std::filesystem::path folder;
  std::optional<double> l2_mib;
};

void draw_all(const Options& options) {
  const auto results = load_results(options.csv_file);
  int drawn = 0;
  const auto save = [&](const Chart& chart, const std::string& name) {
    render(chart, options.folder / name);
    fmt::print("{}\n", name);
    ++drawn;
  };
  const auto save_if_any = [&](const std::optional<Chart>& chart, const std::string& name) {
    if (chart) return save(*chart, name);
    fmt::print("{} left out: {} has no results for it\n", name, options.csv_file.string());
  };
  for (const Condition& condition : timed_conditions(results)) {
    save(progression_chart(results, condition), progression_name(results, condition));
  }
  save_if_any(sweep_chart(results, sweep_over_rows(), options.l2_mib), "sweep_rows");
  save_if_any(sweep_chart(results, sweep_over_hidden(), options.l2_mib), "sweep_hidden");
  save_if_any(error_chart(results, sweep_over_hidden()), "error");
  if (drawn == 0) {
    throw std::runtime_error(
        fmt::format("{}: no results that a chart could show", options.csv_file.string()));
  }
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
      "Draws the charts of a results file, each as NAME.svg, NAME.png and their -dark twins.");
  app.add_option("--csv", options.csv_file, "The results file")->required()->type_name("FILE");
  app.add_option("--out", options.folder, "The folder for the charts")
      ->required()
      ->type_name("DIR");
  app.add_option("--l2-mib", options.l2_mib, "Size of the L2 cache, to be marked in sweep_rows")
      ->check(positive)
      ->type_name("N");
  return run_tool(app, argc, argv, [&] {
    draw_all(options);
    return kDone;
  });
}
