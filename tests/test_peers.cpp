/// \file
/// The tables and charts of what plots/peers.py measured, as far as the recorded results do not
/// show it: what was noisy, disturbed, or is missing.

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/operations/backward.hpp"
#include "common/operations/gated_norm.hpp"
#include "common/operations/residual_add.hpp"
#include "common/operations/rms_norm.hpp"
#include "common/operations/rms_norm_fp8.hpp"
#include "common/records/csv.hpp"
#include "plots/charts.hpp"
#include "plots/peers.hpp"
#include "tests/catch.hpp"
#include "tests/repository.hpp"

using namespace rmsnorm;
using namespace rmsnorm::plots;
using tests::contains;

namespace {

constexpr double kCopy = 4000;  // GB/s

/// An implementation's result, `share` times as fast as the copy; 0 = it failed.
Result result_of(
    const std::string& implementation, const std::string& regime, std::int64_t rows,
    std::int64_t hidden, double share) {
  Result r;
  r.implementation = implementation;
  r.regime = regime;
  r.dtype = "bf16";
  r.rows = rows;
  r.hidden = hidden;
  r.bytes = 4 * rows * hidden;
  r.verdict = share > 0 ? Verdict::pass : Verdict::fail;
  r.device = "a GPU";
  r.version = "version of " + implementation;
  if (share <= 0) return r;
  r.cache = Cache::cold;
  r.gbps = share * kCopy;
  r.roof_gbps = kCopy;
  r.median_us = static_cast<double>(r.bytes) / *r.gbps / 1e3;
  r.spread_pct = 0.5;
  return r;
}

/// Two implementations in some cases.
std::vector<Result> results() {
  std::vector<Result> all;
  for (const auto& [regime, rows, hidden] :
       {std::tuple("forward", 32768, 4096), std::tuple("decode", 8, 4096),
        std::tuple("residual_add", 4096, 8192), std::tuple("backward", 16384, 4096)}) {
    all.push_back(result_of("zeta", regime, rows, hidden, 1.018));
    all.push_back(result_of("alpha", regime, rows, hidden, 0.5));
  }
  return all;
}

}  // namespace

TEST_CASE("a time that is noisy says so and an implementation that was not there has a dash") {
  std::vector<Result> some = {
      result_of("zeta", "backward", 16384, 4096, 1), result_of("zeta", "backward", 8192, 4096, 1),
      result_of("alpha", "backward", 8192, 4096, 0.5)};
  some.front().spread_pct = 12;
  const std::string table = make_peers_table(some, {"backward"});
  CHECK_THAT(table, contains("16384 × 4096 | 4000 | **100.0** ± 12 % | - |"));
  CHECK_THAT(table, contains("8192 × 4096 | 4000 | **100.0** | 50.0 |"));
}

TEST_CASE("a case that was disturbed has marks in its table and its chart, which explain them") {
  std::vector<Result> some = results();
  for (Result& r : some)
    if (r.regime == "residual_add") r.disturbed = Disturbance::heat;
  CHECK_THAT(
      make_peers_table(some, {"residual_add"}),
      contains("| **101.8** † | 50.0 † |\n\n†: the GPU was at the heat cap.\n\nMeasured on"));
  CHECK_THAT(make_peers_table(some, {"backward"}), !contains("†"));
  const Chart chart = peers_other_chart(some).value();
  CHECK_THAT(chart.subtitle, contains("cold L2; †: the GPU was at the heat cap"));
  CHECK_THAT(chart.commands(kLight), contains("'{4096 × 8192 †}'"));
}

TEST_CASE("a table of what was not measured is an error that names it") {
  CHECK_THROWS_WITH(make_peers_table(results(), {"sideways"}), contains("'sideways'"));
  CHECK_THROWS_WITH(make_peers_table(results(), {"forward", "up"}), contains("'up'"));
  CHECK_THROWS_WITH(make_peers_table(results(), {}), contains("regimes"));
  CHECK_THROWS_WITH(
      make_peers_table(results(), {"forward", "decode"}), contains("either times or shares"));
}

TEST_CASE(
    "where librmsnorm stands is counted, who is faster is named, and shares differ if times do") {
  const std::vector<Result> some = {
      result_of("librmsnorm", "backward", 8192, 4096, 0.5),
      result_of("zeta", "backward", 8192, 4096, 0.503),
      result_of("librmsnorm", "backward", 16384, 4096, 1),
      result_of("zeta", "backward", 16384, 4096, 0.5)};
  CHECK_THAT(
      make_peers_table(some, {"standings"}),
      contains("- 16 and 32 bits, many rows: librmsnorm is first in 1 of 2 cases; `zeta` is "
               "faster by 0.6 % in backward, 8192 × 4096.\n"));
  const std::string chart = peers_other_chart(some)->commands(kLight);
  CHECK_THAT(chart, contains("{50.0}") && contains("zeta 50.3") && contains("{100}"));
}

TEST_CASE("the bytes of a peer's result are those that our description of the operation has") {
  std::map<std::string, const Operation*> operations;
  for (const Operation* const operation :
       {&operation_of<RmsNorm>(), &operation_of<ResidualAdd>(), &operation_of<Backward>(),
        &operation_of<RmsNormE4m3>(), &operation_of<RmsNormE4m3Row>(),
        &operation_of<RmsNormE4m3Group>(), &operation_of<ResidualAddE4m3>(),
        &operation_of<ResidualAddE4m3Group>(), &operation_of<RmsNormMxfp8>(),
        &operation_of<GatedNorm>()}) {
    operations[operation->name] = operation;
  }
  for (const char* const gpu : {"nvidia-h200", "nvidia-h100"}) {
    const auto file = tests::top() / "plots/data" / (std::string(gpu) + "-peers.csv");
    for (const Result& result : load_results(file)) {
      CAPTURE(gpu, result.operation, result.regime, result.rows, result.hidden);
      if (result.operation == "gated_norm_backward") {  // which only the library has
        CHECK(result.bytes == 5 * result.rows * result.hidden * 2);
        continue;
      }
      if (result.operation == "qk_norm_rotation") {  // without a cache, and rows are heads
        CHECK(result.bytes == 2 * result.rows * result.hidden * 2);
        continue;
      }
      const Operation& operation = *operations.at(result.operation);
      const Sizes sizes = {static_cast<int>(result.rows), static_cast<int>(result.hidden)};
      const Types types = *types_named(result.dtype);
      std::int64_t bytes = bytes_to_move(operation, sizes, types);
      for (const TensorSpec& tensor : operation.tensors) {  // the scales count, too
        const bool is_scale = tensor.name == std::string("scale") && is_written(tensor);
        const int of_scale = tensor.elements == Elements::e8m0 ? 1 : 4;
        if (is_scale) bytes += static_cast<std::int64_t>(of_scale * size_of(tensor, sizes));
      }
      CHECK(result.bytes == bytes);
    }
  }
}
