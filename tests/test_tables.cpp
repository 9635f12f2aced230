/// \file
/// The check that the pages' tables are those of the recorded results: that it can fail.

#include <filesystem>
#include <string>

#include "common/base/files.hpp"
#include "common/records/csv.hpp"
#include "plots/arithmetic.hpp"
#include "plots/machine.hpp"
#include "plots/mutation.hpp"
#include "plots/ranks.hpp"
#include "plots/select.hpp"
#include "plots/tables.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/memories.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using namespace rmsnorm::plots;
using tests::contains;
using tests::Finished;

namespace {

/// 25 million elements, loaded and stored in 100 us, at half of the copy's speed.
Result timed(const char* implementation, const char* regime) {
  Result result;
  result.implementation = implementation;
  result.regime = regime;
  result.rows = 1000;
  result.hidden = 25000;
  result.cache = Cache::cold;
  result.median_us = 100;
  result.bytes = 200'000'000;
  result.gbps = 2000;
  result.roof_gbps = 4000;
  result.device = "NVIDIA H200";
  return result;
}

/// A repository with one page and one results file.
class Pages {
 public:
  Pages() {
    write_block("ladder rms_norm");
    record(2000);
  }

  void record(double gbps) const {
    Result result = timed("02_naive", "prefill");
    result.gbps = gbps;
    write_csv(folder_ / "results.csv", {result});
  }

  /// \param name  of the file: "nvidia-h9-peers"
  void record(const std::string& name, const char* implementation, double gbps) const {
    Result result = timed(implementation, "forward");
    result.gbps = gbps;
    write_csv(folder_ / (name + ".csv"), {result});
  }

  Finished update(const std::string& option = "") const {
    std::vector<std::string> command = {
        RMSNORM_UPDATE_TABLES,
        "--csv",
        (folder_ / "results.csv").string(),
        "--data",
        (folder_ / "").string(),
        "--root",
        (folder_ / "").string()};
    if (!option.empty()) command.push_back(option);
    return tests::run_without_gpu(command);
  }

  void add_lesson(const std::string& slug) const {
    std::filesystem::create_directories(folder_ / "lessons" / slug);
  }

  std::string text() const { return read_file(folder_ / "README.md"); }
  void write(const std::string& text) const { write_file(folder_ / "README.md", text); }
  void write_block(const std::string& words) const {
    write("<!-- results:begin " + words + " -->\n<!-- results:end -->\n");
  }

 private:
  tests::TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("what was disturbed has a mark in a table of times, which is explained below it") {
  std::vector<Result> results = {timed("07_norm", "prefill"), timed("08_norm", "prefill")};
  const std::vector<std::string> lesson = {"lesson", "07_norm", "08_norm"};
  CHECK_THAT(make_table(results, lesson), !contains("†"));
  results[1].disturbed = Disturbance::power;
  CHECK_THAT(
      make_table(results, lesson),
      contains("| 100 µs, 50 % | 100 µs, 50 % † |\n\n†: the GPU was at the power cap.\n\nMeas"));
  CHECK_THAT(make_table(results, {"ladder", "rms_norm"}), contains("/08_norm/) | 50 % † |"));
}

TEST_CASE("a table shows every spread where that is asked for, and another operation beside it") {
  std::vector<Result> results = {timed("07_norm", "prefill"), timed("08_sum", "prefill")};
  for (Result& r : results) r.spread_pct = 0.5;
  CHECK_THAT(make_table(results, {"lesson", "07_norm"}), contains("| 100 µs, 50 % |"));
  CHECK_THAT(
      make_table(results, {"lesson", "spread", "prefill", "07_norm"}),
      contains("| 100 µs ± 0.5 %, 50 % |"));
  results[1].operation = "sum";
  results[1].bytes *= 2;
  CHECK_THAT(
      make_table(results, {"lesson", "07_norm", "08_sum:sum"}),
      contains("| copy | `07_norm` | `08_sum` |") &&
          contains("| prefill, cold | 50.0 µs, 4000 GB/s | 100 µs, 50 % | 100 µs, 50 % |"));
}

TEST_CASE("a table that lacks a word or a result says so") {
  Result sum = timed("08_sum", "prefill");
  sum.operation = "sum";
  const std::vector<Result> results = {timed("07_norm", "prefill"), sum};
  for (const auto& [words, sentence] :
       std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"lesson", "07_norm", "08_sum"}, "there is no result of '08_sum' outside the sweeps"},
           {{"lesson", "fp16", "07_norm"}, "there is no result of '07_norm' outside the sweeps"},
           {{"lesson", "bf16", "heads", "07_norm"}, "there is no result of 'heads'"},
           {{"long", "07_norm"}, "there is no result of '07_norm' of long rows"},
           {{"ladder"}, "'ladder' needs an operation, and no more"},
           {{"best"}, "'best' needs an operation, and no more"}}) {
    CHECK_THROWS_WITH(make_table(results, words), contains(sentence));
  }
  CHECK(make_table(results, {"unaligned", "07_norm"}) == "Not recorded yet.\n");
}

TEST_CASE("what cannot be shown as one result is reported") {
  const tests::TemporaryFolder folder;
  const auto complaint = [&](const std::vector<Result>& results) -> std::string {
    write_csv(folder / "r.csv", results);
    try {
      load_results(folder / "r.csv");
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "(none)";
  };
  Result result = timed("10_a", "prefill");
  Result other = result;
  other.operation = "sum";
  CHECK(complaint({result, other}) == "(none)");
  CHECK_THAT(complaint({}), contains("r.csv: no results"));
  CHECK_THAT(complaint({result, result}), contains("two results of 10_a in prefill, 1000 x 25000"));
  result.cache.reset();
  CHECK(complaint({result, result}) == "(none)");
  result.rows = 0;
  CHECK_THAT(complaint({result}), contains("a result of 10_a has 0 rows"));
}

TEST_CASE("tables that are out of date or changed by hand are noticed and then made anew") {
  const Pages pages;
  const std::string before = pages.text();
  const Finished stale = pages.update("--check");
  CHECK(stale.exit_code == 1);
  CHECK_THAT(stale.err, contains("README.md"));
  CHECK(pages.text() == before);  // a check writes nothing

  CHECK(pages.update().exit_code == 0);
  const std::string made = pages.text();
  CHECK_THAT(made, contains("02_naive/) | 50 % |") && contains("NVIDIA H200"));
  CHECK(pages.update("--check").exit_code == 0);
  pages.write(std::string(made).replace(made.find("50 %"), 2, "60"));
  CHECK(pages.update("--check").exit_code == 1);
  pages.write(made);
  pages.record(3000);
  CHECK(pages.update("--check").exit_code == 1);
}

TEST_CASE("a table is of the GPU that its block names or says what is missing") {
  const Pages pages;
  pages.record("results-peers", "torch", 1500);
  pages.record("nvidia-h9-peers", "torch", 2500);
  pages.record("nvidia-h9", "02_naive", 3000);
  for (const auto& [words, shown] : std::vector<std::pair<std::string, std::string>>{
           {"peers forward", "**37.5**"},  // % of the copy
           {"peers nvidia-h9 forward", "**62.5**"},
           {"lesson 02_naive", "| 100 µs, 50 % |"},
           {"lesson nvidia-h9 02_naive", "| 100 µs, 75 % |"}}) {
    pages.write_block(words);
    CHECK(pages.update().exit_code == 0);
    CHECK_THAT(pages.text(), contains(shown));
  }
  for (const auto& [words, missing] : std::vector<std::pair<std::string, std::string>>{
           {"peers nvidia-h8 forward", "nvidia-h8-peers.csv"},
           {"lesson nvidia-h8 02_naive", "nvidia-h8.csv"},
           {"limits nvidia-h9 law", "'limits' is of the GPU of --csv alone"},
           {"nonsense", "README.md:1:"}}) {
    pages.write_block(words);
    const Finished finished = pages.update();
    CHECK(finished.exit_code != 0);
    CHECK_THAT(finished.err, contains(missing));
  }
}

TEST_CASE("a table leaves out a lesson that is newer than the results and says so") {
  const Pages pages;
  pages.add_lesson("02_naive");
  pages.add_lesson("08_new");
  pages.write_block("lesson 02_naive 08_new 08_new/variant");
  CHECK(pages.update().exit_code == 0);
  CHECK_THAT(pages.text(), contains("| regime | copy | `02_naive` |\n"));
  CHECK_THAT(pages.text(), contains("\nNot recorded yet: `08_new`, `08_new/variant`.\n"));

  pages.write_block("profile prefill 08_new");
  CHECK(pages.update().exit_code == 0);
  CHECK_THAT(pages.text(), contains(" -->\n\nNot recorded yet: `08_new`.\n") && !contains("|"));

  // A variant that a recorded lesson does not have and a lesson that is not there are mistakes.
  for (const std::string missing : {"02_naive/variant", "09_new"}) {
    pages.write_block("lesson 02_naive " + missing);
    CHECK_THAT(pages.update().err, contains("there is no result of '" + missing + "'"));
  }
}

TEST_CASE("a mutation score leaves out what nobody can tell from the lesson") {
  const std::vector<MutantCount> counts = {
      {"02_naive", "constant", "rejected", 2}, {"02_naive", "index", "no end", 1},
      {"02_naive", "index", "not found", 1},   {"02_naive", "index", "same code", 9},
      {"03_more", "index", "equivalent", 8},   {"03_more", "index", "not compiled", 7}};
  CHECK_THAT(
      make_mutants_table(counts, {"lessons"}),
      contains("| `02_naive` | 0 | 9 | 0 | 2 | 1 | 1 | 75 % |") &&
          contains("| `03_more` | 7 | 0 | 8 | 0 | 0 | 0 | - |") &&
          contains("| all | 7 | 9 | 8 | 2 | 1 | 1 | 75 % |"));
  CHECK_THROWS_WITH(
      make_mutants_table({{"02_naive", "index", "lost", 1}}, {"lessons"}), contains("'lost'"));
  CHECK_THROWS_WITH(make_mutants_table(counts, {}), contains("operators"));
}

TEST_CASE("the page says which functions give a GPU's bits, and how far others are from them") {
  const auto of = [](const char* name, int different, int nans, int kinds, int steps) {
    return ComparedFunction{name, 10000, different, nans, kinds, steps, 0.25, "0", "a GPU", "abc"};
  };
  CHECK(make_arithmetic_table({}) == "Not recorded yet.\n");
  CHECK_THAT(
      make_arithmetic_table(
          {of("f_rn", 0, 0, 0, 0), of("f_rz", 0, 0, 0, 0), of("g", 0, 0, 0, 0), of("h", 9, 9, 0, 0),
           of("i", 9, 2, 0, 3), of("j", 9, 2, 1, 0), of("k", 9, 2, 0, 1001)}),
      contains("Compared with a GPU, 10000 values each, commit `abc`.") &&
          contains("The same bits: 3 of 7 functions</summary>\n\n`f_rn/rz`, `g`.\n\n</details>") &&
          contains("bits of a NaN: `h`.") && contains("| `i` | 7 | 3 steps |") &&
          contains("| `j` | 7 | the sign of 0; 1 of one are NaN |") &&
          contains("| `k` | 7 | 2.5e-01 in all |"));
}

TEST_CASE("the tables of a GPU's memories say what they lack") {
  const auto rows = tests::memories();
  CHECK(make_machine_table({}, {"banks"}) == "Not recorded yet.\n");
  CHECK_THROWS_WITH(make_machine_table(rows, {}), contains("'machine' needs 'latency', 'banks'"));
  CHECK_THAT(make_machine_table(rows, {"instructions"}), contains("| `ex2` | 2.00 | 16.0 |"));

  auto other = rows;
  for (auto& row : other) row.device = "another GPU";
  CHECK_THROWS_WITH(
      make_machine_table(other, {"bandwidth"}), contains("how many SMs a 'another GPU' has"));
  const auto without_l2 = only(
      rows, [](const MachineRow& row) { return row.set_bytes != 65536 && row.memory != "l2"; });
  CHECK_THROWS_WITH(make_machine_table(without_l2, {"latency"}), contains("has 2 levels"));
  CHECK_THROWS_WITH(reach_of(without_l2, "l2"), contains("no bandwidth of 'l2'"));
}

TEST_CASE("a table of sums over ranks has the times of those that were timed, and says where") {
  const auto sum = [](const char* name, int rows, std::optional<double> us) {
    RankSum one;
    one.implementation = name, one.ranks = one.gpus = 2, one.dtype = "bf16", one.rows = rows;
    one.hidden = 4096, one.median_us = us, one.spread_pct = 3, one.verdict = "pass";
    one.device = "A GPU", one.driver = "1", one.cuda = "13.0", one.version = "abc";
    one.date = "2026-11-29";
    return one;
  };
  const std::vector<RankSum> sums = {
      sum("librmsnorm", 16, 8.25), sum("all_reduce", 16, 123.4), sum("librmsnorm", 4, 7.5),
      sum("torch", 4, {})};
  CHECK(
      make_ranks_table(sums, {"4096"}) ==
      "| rows × 4096, bf16, 2 ranks | `librmsnorm` | `all_reduce` |\n|---|---:|---:|\n"
      "| 4 | 7.5 µs ± 3 % | - |\n| 16 | 8.2 µs ± 3 % | 123 µs ± 3 % |\n\n"
      "Measured on 2 × A GPU, driver 1, CUDA 13.0, commit `abc`, 2026-11-29.\n");
  CHECK_THROWS_WITH(make_ranks_table(sums, {"8192"}), contains("no sum of rows of 8192"));
  CHECK_THROWS_WITH(make_ranks_table(sums, {}), contains("needs a number"));
  std::vector<RankSum> other = sums;
  other[0].ranks = 4;
  CHECK_THROWS_WITH(make_ranks_table(other, {"4096"}), contains("of several runs"));
}
