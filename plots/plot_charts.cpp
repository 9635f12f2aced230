/// \file
/// Draws every chart that what was recorded on a GPU, or counted by the CPU device, has data for.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "plots/charts.hpp"
#include "plots/machine.hpp"
#include "plots/ranks.hpp"
#include "plots/tool.hpp"

namespace {

using namespace rmsnorm::plots;
namespace fs = std::filesystem;

/// The operation that all charts are of but those of a lesson about another.
constexpr const char* kMain = "rms_norm";

using Charts = std::vector<std::pair<std::string, std::optional<Chart>>>;

/// Draws those charts of a file that it has data for, in a folder.
void save(const Charts& charts, const fs::path& folder, const fs::path& file) {
  int drawn = 0;
  for (const auto& [name, chart] : charts) {
    if (!chart) {
      fmt::print("{} left out: {} has no results for it\n", name, file.string());
      continue;
    }
    render(*chart, folder / name);
    fmt::print("{}\n", name);
    ++drawn;
  }
  if (drawn == 0)
    throw std::runtime_error(fmt::format("{}: nothing that a chart could show", file.string()));
}

Charts charts_of_results(
    const std::vector<rmsnorm::Result>& results, std::optional<double> l2_mib) {
  const auto with_variants = of_operation(of_fp32(results), kMain);
  const auto norms = without_variants(with_variants);
  Charts charts;
  for (const Condition& condition : timed_conditions(norms))
    charts.emplace_back(progression_name(norms, condition), progression_chart(norms, condition));
  for (const Rung& rung : kRungs) {
    if (auto chart = lesson_chart(results, rung))
      charts.emplace_back(fmt::format("lesson_{}", rung.lesson), std::move(chart));
  }
  for (const Sweep& sweep : kSweeps) {
    const auto& shown = sweep.has_others ? norms : with_variants;
    charts.emplace_back(sweep.name, sweep_chart(shown, sweep, l2_mib));
  }
  charts.emplace_back("error", error_chart(norms, kOverHidden));
  return charts;
}

/// The size of the L2 in MiB, which the program of a lesson says with --l2.
std::optional<double> read_l2_mib(const fs::path& file) {
  double mib = 0;
  return std::ifstream(file) >> mib ? std::optional(mib) : std::nullopt;
}

void draw_recorded(const fs::path& csv, const fs::path& folder) {
  const auto beside = [stem = fs::path(csv).replace_extension().string()](const char* ending) {
    return fs::path(stem + ending);
  };
  const auto results = load_results(csv);
  save(charts_of_results(results, read_l2_mib(beside(".l2-mib"))), folder, csv);
  if (const auto file = beside("-loads.csv"); fs::exists(file)) {
    const auto norms = of_operation(results, kMain);  // limits points to them
    const auto profiles = of_operation(read_profiles(beside("-profile.csv")), kMain);
    const auto loads = read_loads(file);
    const auto limits = limits_of(norms, profiles, loads);
    save(
        {{"bytes_in_flight", bytes_in_flight_chart(limits)}, {"roofline", roofline_chart(limits)}},
        folder, file);
  }
  if (const auto file = beside("-peers.csv"); fs::exists(file)) {
    const auto peers = load_results(file);
    save(
        {{"peers_forward", peers_forward_chart(peers)},
         {"peers_decode", peers_decode_chart(peers)},
         {"peers_other", peers_other_chart(peers)}},
        folder, file);
  }
  if (const auto file = beside("-ranks.csv"); fs::exists(file))
    save({{"ranks", ranks_chart(read_ranks(file))}}, folder, file);
  if (const auto file = beside("-machine.csv"); fs::exists(file)) {
    const auto rows = read_machine(file);
    save(
        {{"machine_latency", latency_chart(rows)}, {"machine_in_flight", in_flight_chart(rows)}},
        folder, file);
  }
}

}  // namespace

int main(int argc, char** argv) {
  fs::path csv, trace, folder, card;
  CLI::App app("Draws charts, each as NAME.svg and NAME-dark.svg.");
  app.add_option("--csv", csv, "The results, GPU.csv; beside it lies what else was recorded")
      ->type_name("FILE");
  app.add_option("--trace", trace, "The CPU device's counts")->type_name("FILE");
  app.add_option("--out", folder, "The folder for the charts")->required()->type_name("DIR");
  app.add_option("--card", card, "Also the ladder of the trace, as a link to the site shows it")
      ->type_name("PNG");
  return run_tool(app, argc, argv, [&] {
    if (csv.empty() && trace.empty()) throw CLI::RequiredError("--csv or --trace");
    if (!csv.empty()) draw_recorded(csv, folder);
    if (trace.empty()) return kDone;
    const auto counts = rmsnorm::read_trace(trace);
    save({{"ladder", ladder_chart(counts)}}, folder, trace);
    if (!card.empty())
      render_card(ladder_chart(counts, true).value(), {"RMSNorm,", "Step by Step"}, card);
    return kDone;
  });
}
