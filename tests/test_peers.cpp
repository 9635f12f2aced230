/// \file
/// The tables and charts of what plots/peers.py measured: that they show it, all of it, once.

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/operations/backward.hpp"
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
    std::int64_t hidden, double share, const std::string& dtype = "bf16") {
  Result r;
  r.implementation = implementation;
  r.regime = regime;
  r.dtype = dtype;
  r.rows = rows;
  r.hidden = hidden;
  r.bytes = 4 * rows * hidden;
  r.verdict = share > 0 ? Verdict::pass : Verdict::fail;
  r.device = "a GPU";
  r.version = "version of " + implementation;
  if (share <= 0) return r;
  r.cache = Cache::cold;
  r.gbps = share * kCopy;
  r.copy_gbps = kCopy;
  r.median_us = static_cast<double>(r.bytes) / *r.gbps / 1e3;
  r.spread_pct = 0.5;
  return r;
}

/// Two implementations in every kind of case; the second fails where rows are odd.
std::vector<Result> results() {
  std::vector<Result> all;
  const auto add = [&](const std::string& regime, std::int64_t rows, std::int64_t hidden,
                       const std::string& dtype = "bf16") {
    all.push_back(result_of("zeta", regime, rows, hidden, 1.018, dtype));
    all.push_back(result_of("alpha", regime, rows, hidden, hidden % 2 == 0 ? 0.5 : 0, dtype));
  };
  add("forward", 32768, 4096);
  add("forward", 4194304, 128);
  add("forward", 32768, 769);
  add("forward", 262144, 4096, "fp32");
  add("decode", 8, 4096);
  add("forward_3d", 1297440, 128);
  add("residual_add", 4096, 8192);
  add("backward", 16384, 4096);
  return all;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

}  // namespace

TEST_CASE(
    "a table of bandwidth shows the shares of the copy in the file's order, the best in bold") {
  const std::string table = make_peers_table(results(), {"forward"});
  CHECK_THAT(table, contains("| rows × hidden, bf16 | copy, GB/s | zeta | alpha |"));
  CHECK_THAT(table, contains("| 32768 × 4096 | 4000 | **101.8** | 50.0 |"));
  CHECK_THAT(table, contains("| 32768 × 769 | 4000 | **101.8** | fail |"));
  CHECK_THAT(table, contains("| 262144 × 4096, fp32 |") && contains("Measured on a GPU"));
  CHECK_THAT(table, !contains(" 8 × 4096") && !contains("16384 × 4096"));
  CHECK_THAT(
      make_peers_table(results(), {"residual_add", "backward"}),
      contains("| residual add, 4096 × 8192 |") && contains("| backward, 16384 × 4096 |"));
}

TEST_CASE("a table of short launches shows their times and the copy's") {
  CHECK_THAT(
      make_peers_table(results(), {"decode"}),
      contains("| rows × hidden, bf16 | copy, µs | zeta | alpha |") &&
          contains("| 8 × 4096 | 0.03 | **0.03** | 0.07 |"));
}

TEST_CASE("the library's column stands beside the copy's") {
  std::vector<Result> some;
  for (const char* name : {"torch", "librmsnorm/two", "librmsnorm"})
    some.push_back(result_of(name, "forward", 8, 4096, 1));
  CHECK_THAT(
      make_peers_table(some, {"forward"}),
      contains("| copy, GB/s | librmsnorm | torch | librmsnorm two |"));
}

TEST_CASE("implementations of PyTorch's compiler have short headings") {
  std::vector<Result> some;
  for (const char* name : {"torch", "torch.compile", "torch.compile/max", "torchless"})
    some.push_back(result_of(name, "forward", 8, 4096, 1));
  CHECK_THAT(
      make_peers_table(some, {"forward"}),
      contains("| torch | compile | compile max | torchless |"));
  CHECK_THAT(make_peers_table(some, {"versions"}), contains("| `torch.compile/max` |"));
}

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
  CHECK_THAT(make_peers_table(some, {"residual_add"}), !contains("†"));
  CHECK_THAT(peers_other_chart(some)->subtitle, !contains("†"));
  for (Result& r : some)
    if (r.regime == "residual_add") r.disturbed = Disturbance::heat;
  CHECK_THAT(
      make_peers_table(some, {"residual_add"}),
      contains("| **101.8** † | 50.0 † |\n\n†: the GPU was at the heat cap.\n\nMeasured on"));
  CHECK_THAT(make_peers_table(some, {"backward"}), !contains("†"));
  const Chart chart = peers_other_chart(some).value();
  CHECK_THAT(chart.subtitle, contains("cold L2; †: the GPU was at the heat cap"));
  CHECK(count(chart.commands(kLight), "'{4096 × 8192 †}'") == 1);
  CHECK(count(chart.commands(kLight), "†") == 1);
}

TEST_CASE("the table of versions names every implementation once") {
  const std::string table = make_peers_table(results(), {"versions"});
  CHECK(count(table, "| `zeta` | `version of zeta` |") == 1);
  CHECK(count(table, "| `alpha` | `version of alpha` |") == 1);
}

TEST_CASE("a table of what was not measured is an error that names it") {
  CHECK_THROWS_WITH(make_peers_table(results(), {"sideways"}), contains("'sideways'"));
  CHECK_THROWS_WITH(make_peers_table(results(), {"forward", "up"}), contains("'up'"));
  CHECK_THROWS_WITH(make_peers_table(results(), {}), contains("regimes"));
  CHECK_THROWS_WITH(
      make_peers_table(results(), {"forward", "decode"}), contains("either times or shares"));
}

TEST_CASE("the lines of the forward chart are the powers of two of bf16 in order") {
  const Chart chart = peers_forward_chart(results()).value();
  using Points = std::vector<std::pair<double, double>>;
  REQUIRE(chart.data.size() == 3);  // two implementations in grey, then the copy
  const auto shares = [&](std::size_t line) {
    Points rounded = chart.data[line].points;
    for (auto& [hidden, share] : rounded) share = std::round(share);
    return rounded;
  };
  CHECK(shares(0) == Points{{128, 102}, {4096, 102}});
  CHECK(shares(1) == Points{{128, 50}, {4096, 50}});
  CHECK(shares(2) == Points{{128, 100}, {4096, 100}});
  CHECK_THAT(
      chart.commands(kLight), contains("zeta") && contains("alpha") && contains("measured copy"));
}

TEST_CASE("the title of the forward chart compares the library with the best of the others") {
  std::vector<Result> all = results();
  all.push_back(result_of("librmsnorm", "forward", 32768, 4096, 1.5 * 1.018));
  all.push_back(result_of("librmsnorm", "forward", 4194304, 128, 0.9));
  CHECK(
      peers_forward_chart(all)->title ==
      "librmsnorm is the fastest in 1 of 2 cases, up to 1.50 times as fast as the best other");
  CHECK(peers_forward_chart(results())->title == "librmsnorm is the fastest in 0 of 2 cases");
}

TEST_CASE("the grey lines of a chart have their names below its title if there are many") {
  std::vector<Result> all;
  for (const char* name : {"torch", "liger", "flashinfer", "cudnn", "alpha", "torch.compile/max"})
    all.push_back(result_of(name, "forward", 32768, 4096, 1));
  const Chart chart = peers_forward_chart(all).value();
  CHECK_THAT(
      chart.subtitle, contains("; grey: liger, flashinfer, cudnn, alpha, torch.compile/max"));
  CHECK_THAT(chart.commands(kLight), !contains("cudnn"));
}

TEST_CASE("dots show every other case, the best in colour, and the copy's mark across all") {
  const Chart decode = peers_decode_chart(results()).value();
  REQUIRE(decode.data.size() == 3);  // the others, the best of them, ours
  CHECK(decode.data[0].points.size() == 2);
  CHECK(decode.data[1].points.size() == 1);
  CHECK(decode.data[2].points.empty());  // nobody is called librmsnorm here
  CHECK_THAT(decode.commands(kLight), contains("8 × 4096") && contains("'{zeta 0.03}'"));

  const Chart other = peers_other_chart(results()).value();
  CHECK(other.data[0].points.size() == 5 + 4);  // without the one that failed
  CHECK(other.data[1].points.size() == 5);
  const std::string commands = other.commands(kLight);
  for (const char* operation : {"forward, fp32", "forward 3d", "residual add", "backward"})
    CHECK_THAT(commands, contains(operation));
  CHECK(count(commands, "'{zeta 102}'") == 5);  // 101.8 % of the copy
  CHECK(count(commands, "'{measured copy}'") == 1);
  CHECK_THAT(commands, !contains("nan"));
}

TEST_CASE("the title of a chart of dots counts the cases in which the library is the fastest") {
  std::vector<Result> all = results();
  all.push_back(result_of("librmsnorm", "decode", 8, 4096, 2));
  all.push_back(result_of("librmsnorm", "backward", 16384, 4096, 1));
  CHECK(peers_decode_chart(all)->title == "librmsnorm is the fastest in 1 of 1 cases");
  CHECK(peers_other_chart(all)->title == "librmsnorm is the fastest in 0 of 5 cases");
}

TEST_CASE("what has 8 bits is in tables, by time where rows are few, and in no chart") {
  std::vector<Result> all = results();
  all.push_back(result_of("librmsnorm", "rms_norm_e4m3_row", 32768, 4096, 1));
  all.push_back(result_of("librmsnorm", "decode_rms_norm_e4m3_row", 1, 4096, 0.5));
  CHECK_THAT(
      make_peers_table(all, {"decode_rms_norm_e4m3_row"}), contains("| copy, µs | librmsnorm |"));
  CHECK_THAT(
      make_peers_table(all, {"rms_norm_e4m3_row"}),
      contains("| 32768 × 4096 | 4000 | **100.0** |"));
  CHECK(peers_decode_chart(all)->data[0].points.size() == 2);
  CHECK(peers_other_chart(all)->data[0].points.size() == 5 + 4);
}

TEST_CASE("a chart for which nothing was timed is left out") {
  const std::vector<Result> failed = {result_of("zeta", "forward", 32768, 4096, 0)};
  CHECK_FALSE(peers_forward_chart(failed));
  CHECK_FALSE(peers_decode_chart(failed));
  CHECK_FALSE(peers_other_chart(failed));
}

TEST_CASE("the bytes of a peer's result are those that our description of the operation has") {
  std::map<std::string, const Operation*> operations;
  for (const Operation* const operation :
       {&operation_of<RmsNorm>(), &operation_of<ResidualAdd>(), &operation_of<Backward>(),
        &operation_of<RmsNormE4m3>(), &operation_of<RmsNormE4m3Row>(),
        &operation_of<RmsNormE4m3Group>(), &operation_of<ResidualAddE4m3>(),
        &operation_of<ResidualAddE4m3Group>()}) {
    operations[operation->name] = operation;
  }
  for (const char* const gpu : {"nvidia-h200", "nvidia-h100"}) {
    const auto file = tests::top() / "plots/data" / (std::string(gpu) + "-peers.csv");
    for (const Result& result : load_results(file)) {
      CAPTURE(gpu, result.operation, result.regime, result.rows, result.hidden);
      const Operation& operation = *operations.at(result.operation);
      const Sizes sizes = {static_cast<int>(result.rows), static_cast<int>(result.hidden)};
      const Types types = *types_named(result.dtype);
      std::int64_t bytes = bytes_to_move(operation, sizes, types);
      for (const TensorSpec& tensor : operation.tensors) {  // the scales count, too
        const bool is_scale = tensor.name == std::string("scale") && is_written(tensor);
        if (is_scale) bytes += static_cast<std::int64_t>(4 * size_of(tensor, sizes));
      }
      CHECK(result.bytes == bytes);
    }
  }
}
