/// \file
/// The chart of what the CPU device counted: that its numbers are those of the trace.

#include <string>
#include <utility>
#include <vector>

#include "common/records/trace_csv.hpp"
#include "plots/charts.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using namespace rmsnorm::plots;
using tests::contains;
using tests::TemporaryFolder;

namespace {

constexpr std::int64_t kRows = 8;

using Points = std::vector<std::pair<double, double>>;

/// Some count of an implementation in prefill, at a line of its own.
TraceRow row_of(const std::string& implementation, const std::string& kind, int line) {
  TraceRow row;
  row.operation = "norm";
  row.implementation = implementation;
  row.regime = "prefill";
  row.dtype = "fp32";
  row.rows = kRows;
  row.hidden = 4096;
  row.blocks = kRows;
  row.count.file = "rms_norm.cu";
  row.count.line = line;
  row.count.kind = kind;
  return row;
}

/// An implementation's counts: two unequal lines of each kind, whose sums a row are as given.
/// Global memory gets a request for every four sectors.
std::vector<TraceRow> launch(
    const std::string& implementation, std::int64_t sectors, std::int64_t wavefronts,
    std::int64_t barriers_of_all_blocks) {
  std::vector<TraceRow> rows;
  int line = 0;
  const auto add = [&](const std::string& kind, std::int64_t requests) -> LineCount& {
    LineCount& count = rows.emplace_back(row_of(implementation, kind, ++line)).count;
    count.requests = requests;
    return count;
  };
  add("global load", kRows * sectors / 4 - 1).sectors = kRows * sectors - 3;
  add("global store", 1).sectors = 3;
  // Requests to shared memory and of shuffles are not in the chart.
  add("shared store", 1000).wavefronts = kRows * wavefronts - 5;
  add("shared load", 1000).wavefronts = 5;
  add("barrier", barriers_of_all_blocks - 1);
  add("barrier", 1);
  add("shuffle", 1000).lanes = 32000;
  return rows;
}

std::vector<TraceRow> trace_of_three() {
  std::vector<TraceRow> trace;
  for (const auto& rows :
       {launch("07_multi_row", 1152, 16, 2), launch("02_naive", 2048, 38, 9 * kRows),
        launch("02_naive/variant", 12416, 77, 4 * kRows),
        launch("03_shared_memory", 1536, 294, 9 * kRows)}) {
    trace.insert(trace.end(), rows.begin(), rows.end());
  }
  return trace;
}

/// Adds an implementation's counts in another regime.
void add(
    std::vector<TraceRow>& trace, const std::string& implementation, const std::string& regime) {
  for (TraceRow row : launch(implementation, 1, 1, kRows)) {
    row.regime = regime;
    trace.push_back(row);
  }
}

Points points_of(const Chart& chart, const std::string& name) {
  for (const Series& series : chart.data) {
    if (series.name == name) return series.points;
  }
  return {};
}

}  // namespace

TEST_CASE(
    "a trace is loaded without other operations and types, and has to have counts of its own") {
  const TemporaryFolder folder;
  std::vector<TraceRow> trace = trace_of_three();
  trace.push_back(trace.front());
  trace.back().operation = "sum";
  trace.push_back(trace.front());
  trace.back().dtype = "bf16";
  trace.back().rows = 2 * kRows;
  write_trace(folder / "trace.csv", trace);
  CHECK(load_trace(folder / "trace.csv", "norm").size() == trace_of_three().size());
  CHECK_THROWS_WITH(
      load_trace(folder / "trace.csv", "other"), contains("trace.csv: no counts of other"));
}

TEST_CASE("a regime is drawn if two lessons were counted in it") {
  std::vector<TraceRow> trace = trace_of_three();
  add(trace, "02_naive", "heads");
  add(trace, "02_naive/variant", "heads");  // a variant is not a second lesson
  add(trace, "02_naive", "sweep_rows");
  add(trace, "03_shared_memory", "sweep_rows");
  add(trace, "02_naive", "decode");
  add(trace, "03_shared_memory", "decode");
  add(trace, "02_naive", "wide");
  add(trace, "03_shared_memory", "wide");
  CHECK(row_costs(trace, "heads").at(0).cost.wavefronts == 1);  // those of prefill are not added
  // In decode and wide a row costs the same: they share a chart.
  CHECK(counted_regimes(trace) == std::vector<Regimes>{{"prefill"}, {"decode", "wide"}});
}

/// The sums over all source lines divided by the rows, without variants, in the order of the slugs.
TEST_CASE("the chart plots every lesson's costs and what the lesson before needed more") {
  const Chart chart = counts_chart(trace_of_three(), {"prefill"});
  CHECK(points_of(chart, "sectors") == Points{{0, 2048}, {1, 1536}, {2, 1152}});
  CHECK(points_of(chart, "sectors_before") == Points{{1, 2048}, {2, 1536}});
  CHECK(points_of(chart, "requests") == Points{{0, 512}, {1, 384}, {2, 288}});
  CHECK(points_of(chart, "requests_before") == Points{{1, 512}, {2, 384}});
  CHECK(points_of(chart, "wavefronts") == Points{{0, 38}, {1, 294}, {2, 16}});
  CHECK(points_of(chart, "wavefronts_before") == Points{{2, 294}});
  CHECK(points_of(chart, "barriers") == Points{{0, 9}, {1, 9}, {2, 0.25}});
  CHECK(points_of(chart, "barriers_before") == Points{{2, 9}});
  for (const Series& series : chart.data) CHECK_FALSE(series.points.empty());
}

TEST_CASE("the chart prints every number and says what it shows") {
  const Chart chart = counts_chart(trace_of_three(), {"prefill", "decode"});
  const std::string commands = chart.commands(kLight);
  for (const std::string text :
       {"2048", "1536", "1152", "512", "384", "288", "38", "294", "16", "9", "0.25"}) {
    CAPTURE(text);
    CHECK_THAT(commands, contains("'{" + text + "}'") || contains("'{/:Bold " + text + "}'"));
  }
  CHECK_THAT(chart.subtitle, contains("prefill and decode, 4096 columns"));
  CHECK(
      chart.title ==
      "From 02_naive to 07_multi_row, a row costs 2048 → 1152 sectors, 512 → 288 requests, 38 → 16 "
      "wavefronts, 9 → 0.25 barriers");
  for (const char* series : {"$sectors ", "$requests ", "$wavefronts ", "$barriers "})
    CHECK_THAT(commands, contains(series));
  CHECK_THAT(commands, !contains("variant"));
}

TEST_CASE("what two lessons need alike is no saving however it is rounded") {
  constexpr std::int64_t kSixths[] = {2, 4, 1, 5};  // 2/6 + 4/6 > 1/6 + 5/6, as doubles
  std::vector<TraceRow> trace;
  for (const std::int64_t wavefronts : kSixths) {
    const std::string name = trace.size() < 2 ? "02_a" : "03_b";
    TraceRow& row =
        trace.emplace_back(row_of(name, "shared load", 1 + static_cast<int>(trace.size())));
    row.rows = 6;
    row.count.wavefronts = wavefronts;
  }
  const Chart chart = counts_chart(trace, {"prefill"});
  CHECK(points_of(chart, "wavefronts").at(0).second > points_of(chart, "wavefronts").at(1).second);
  CHECK(points_of(chart, "wavefronts_before").empty());
}

TEST_CASE("a quantity that no lesson has is drawn as zeros") {
  std::vector<TraceRow> trace = {
      row_of("02_a", "global load", 1), row_of("03_b", "global load", 1)};
  for (TraceRow& row : trace) row.count.sectors = kRows;
  const Chart chart = counts_chart(trace, {"prefill"});
  CHECK(points_of(chart, "barriers") == Points{{0, 0}, {1, 0}});
  const std::string commands = chart.commands(kLight);
  CHECK_THAT(commands, contains("'{0}'") && !contains("nan") && !contains("inf"));
}
