/// \file
/// The check that the pages' tables are those of the recorded results: that it can fail.

#include <algorithm>
#include <filesystem>
#include <string>

#include "common/base/files.hpp"
#include "common/records/csv.hpp"
#include "plots/machine.hpp"
#include "plots/mutation.hpp"
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
  result.copy_gbps = 4000;
  result.device = "NVIDIA H200";
  return result;
}

/// A repository with one page and one results file.
class Pages {
 public:
  Pages() {
    write_file(
        folder_ / "README.md",
        "Text.\n\n<!-- results:begin ladder rms_norm -->\n<!-- results:end -->\n");
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

 private:
  tests::TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("the copy in a table moves as many bytes as the lesson") {
  Result result = timed("14_backward", "backward");
  result.bytes = 300'000'000;  // three tensors
  result.gbps = 3000;
  CHECK_THAT(
      make_table({result}, {"lesson", "14_backward"}),
      contains("| backward, cold | 75.0 µs, 4000 GB/s | 100 µs, 75 % |"));
}

TEST_CASE("the copy in a table is the lesson's, not that of the library's run") {
  const Result lesson = timed("07_norm", "prefill");
  Result library = timed("librmsnorm", "prefill");
  library.copy_gbps = 2500;
  CHECK_THAT(
      make_table({lesson, library}, {"lesson", "07_norm", "librmsnorm"}),
      contains("| prefill, cold | 50.0 µs, 4000 GB/s | 100 µs, 50 % | 100 µs, 80 % |"));
  CHECK_THAT(
      make_table({library}, {"lesson", "librmsnorm"}),
      contains("| prefill, cold | 80.0 µs, 2500 GB/s | 100 µs, 80 % |"));
}

TEST_CASE("what was disturbed has a mark in a table of times, which is explained below it") {
  std::vector<Result> results = {timed("07_norm", "prefill"), timed("08_norm", "prefill")};
  const std::vector<std::string> lesson = {"lesson", "07_norm", "08_norm"};
  const std::vector<std::string> ladder = {"ladder", "rms_norm"};
  for (const auto& words : {lesson, ladder}) CHECK_THAT(make_table(results, words), !contains("†"));
  results[1].disturbed = Disturbance::power;
  CHECK_THAT(
      make_table(results, lesson),
      contains("| 100 µs, 50 % | 100 µs, 50 % † |\n\n†: the GPU was at the power cap.\n\nMeas"));
  CHECK_THAT(
      make_table(results, ladder),
      contains("/08_norm/) | 50 % † |") && contains("\n\n†: the GPU was at the power cap.\n\n"));
  for (Result& r : results) r.regime = "sweep_hidden";
  CHECK_THAT(make_table(results, {"long", "07_norm", "08_norm"}), contains("50 % † |\n\n†: the"));
  CHECK_THAT(make_table(results, {"errors", "07_norm", "08_norm"}), !contains("†"));
}

TEST_CASE("a table is of one operation and the ladder has no variants") {
  const Result norm = timed("07_norm", "prefill");
  const Result variant = timed("07_norm/variant", "prefill");
  Result sum = timed("08_sum", "prefill");
  sum.operation = "sum";
  sum.bytes = 400'000'000;
  sum.gbps = 4000;
  Result ours = timed("ours", "prefill");
  Result our_sum = sum;
  our_sum.implementation = "ours";
  our_sum.gbps.reset();
  our_sum.median_us.reset();
  our_sum.verdict = Verdict::unsupported;
  const std::vector<Result> results = {norm, variant, ours, sum, our_sum};
  CHECK_THAT(
      make_table(results, {"lesson", "07_norm", "ours"}),
      contains("| prefill, cold | 50.0 µs, 4000 GB/s | 100 µs, 50 % | 100 µs, 50 % |"));
  CHECK_THAT(
      make_table(results, {"lesson", "08_sum", "ours"}),
      contains("| prefill, cold | 100 µs, 4000 GB/s | 100 µs, 100 % | unsupported |"));
  CHECK_THROWS_WITH(
      make_table(results, {"lesson", "07_norm", "08_sum"}), contains("no result of '08_sum'"));
  Result of_other = sum;
  of_other.implementation = "07_norm/of_sum";
  CHECK_THAT(
      make_table({norm, of_other}, {"lesson", "07_norm", "07_norm/of_sum"}),
      contains("| 100 µs, 50 % | 100 µs, 100 % |"));
  CHECK_THAT(
      make_table(results, {"ladder", "rms_norm"}), contains("/07_norm/) | 50 % |") &&
                                                       contains("| `ours` | 50 % |") &&
                                                       !contains("variant") && !contains("08_sum"));
  CHECK_THAT(
      make_table(results, {"ladder", "sum"}), contains("/08_sum/) | 100 % |") &&
                                                  contains("| `ours` | unsupported |") &&
                                                  !contains("07_norm"));
  CHECK_THROWS_WITH(make_table(results, {"ladder"}), contains("needs an operation"));
}

TEST_CASE("a table of unaligned rows has a row for each length of the sweep") {
  std::vector<Result> results = {timed("10_a", "prefill")};
  const std::vector<std::string> words = {"unaligned", "10_a", "11_b"};
  CHECK(make_table(results, words) == "Not recorded yet.\n");
  for (const char* name : {"10_a", "11_b"}) {
    for (const int hidden : {768, 769}) {
      Result result = timed(name, "sweep_unaligned");
      result.dtype = "bf16";
      result.hidden = hidden;
      if (std::string(name) == "10_a" && hidden == 769) {
        result.median_us.reset();
        result.verdict = Verdict::unsupported;
      }
      results.push_back(result);
    }
  }
  const std::string table = make_table(results, words);
  CHECK_THAT(table, contains("| rows × hidden, bf16 | copy | `10_a` | `11_b` |"));
  CHECK_THAT(table, contains("| 1000 × 768 | 50.0 µs, 4000 GB/s | 100 µs, 50 % | 100 µs, 50 % |"));
  CHECK_THAT(table, contains("| 1000 × 769 | 50.0 µs, 4000 GB/s | unsupported | 100 µs, 50 % |"));
}

TEST_CASE("a table of long rows leaves out the others") {
  std::vector<Result> results;
  for (const int hidden : {8192, 16384, 65536}) {
    results.push_back(timed("10_a", "sweep_hidden"));
    results.back().hidden = hidden;
  }
  const std::string table = make_table(results, {"long", "10_a"});
  CHECK_THAT(
      table,
      contains("| rows × hidden, fp32 | copy | `10_a` |") &&
          contains("| 1000 × 16384 | 50.0 µs, 4000 GB/s | 100 µs, 50 % |\n| 1000 × 65536 |") &&
          !contains("8192"));
  CHECK_THROWS_WITH(make_table(results, {"long", "11_b"}), contains("no result of '11_b' of long"));
}

TEST_CASE("the table of the best names the first lesson that is as fast as the fastest") {
  const auto in = [](const char* implementation, const char* regime, int hidden, double us) {
    Result result = timed(implementation, regime);
    result.hidden = hidden;
    result.median_us = us;
    return result;
  };
  std::vector<Result> results = {
      in("02_naive", "prefill", 4096, 100.9),    in("03_a", "prefill", 4096, 100),
      in("03_a/variant", "prefill", 4096, 50),   in("librmsnorm", "prefill", 4096, 90),
      in("02_naive", "sweep_hidden", 64, 102),   in("03_a", "sweep_hidden", 64, 100),
      in("librmsnorm", "sweep_hidden", 64, 110), in("02_naive", "sweep_hidden", 128, 102),
      in("03_a", "sweep_hidden", 128, 100),      in("librmsnorm", "sweep_hidden", 128, 110),
      in("02_naive", "decode", 4096, 100)};
  const std::string table = make_table(results, {"best", "rms_norm"});
  CHECK_THAT(table, contains("| 1000 × 4096, fp32 | cold | `02_naive` | 101 µs, 50 % | 90.0 µs"));
  CHECK_THAT(table, contains("| 1000 × 64, fp32 | cold | `03_a` | 100 µs, 50 % | 110 µs"));
  CHECK_THAT(table, !contains("× 128"));                     // as the line above
  CHECK(std::count(table.begin(), table.end(), '\n') == 6);  // decode has no library beside it
  CHECK_THROWS_WITH(make_table(results, {"best"}), "'best' needs an operation, and no more");
}

TEST_CASE("a table of errors has a row for each length and a dash where nothing was measured") {
  Result short_rows = timed("10_a", "sweep_hidden");
  short_rows.max_error = 2e-7;
  short_rows.error_bound = 9e-7;
  Result long_rows = short_rows;
  long_rows.hidden = 65536;
  long_rows.implementation = "11_b";
  long_rows.max_error.reset();
  long_rows.error_bound.reset();
  long_rows.verdict = Verdict::unsupported;
  const auto table = make_table({long_rows, short_rows}, {"errors", "10_a", "11_b"});
  CHECK_THAT(table, contains("| hidden | `10_a` | bound | `11_b` | bound |"));
  CHECK_THAT(table, contains("| 25000 | 2.0e-07 | 9.0e-07 | - | - |\n| 65536 | - | - | unsupp"));
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
  const auto made_by = [&](const std::string& words) {
    pages.write("<!-- results:begin " + words + " -->\n<!-- results:end -->\n");
    CHECK(pages.update().exit_code == 0);
    return pages.text();
  };
  CHECK_THAT(made_by("peers forward"), contains("**37.5**"));  // % of the copy
  CHECK_THAT(made_by("peers nvidia-h9 forward"), contains("**62.5**"));
  CHECK_THAT(made_by("lesson 02_naive"), contains("| 100 µs, 50 % |"));
  CHECK_THAT(made_by("lesson nvidia-h9 02_naive"), contains("| 100 µs, 75 % |"));
  const auto complaint_about = [&](const std::string& words) {
    pages.write("<!-- results:begin " + words + " -->\n<!-- results:end -->\n");
    const Finished finished = pages.update();
    CHECK(finished.exit_code != 0);
    return finished.err;
  };
  CHECK_THAT(complaint_about("peers nvidia-h8 forward"), contains("nvidia-h8-peers.csv"));
  CHECK_THAT(complaint_about("lesson nvidia-h8 02_naive"), contains("nvidia-h8.csv"));
  CHECK_THAT(
      complaint_about("limits nvidia-h9 law"), contains("'limits' is of the GPU of --csv alone"));
}

TEST_CASE("a table leaves out a lesson that is newer than the results and says so") {
  const Pages pages;
  pages.add_lesson("02_naive");
  pages.add_lesson("08_new");
  const std::string end = " -->\n<!-- results:end -->\n";
  pages.write("<!-- results:begin lesson 02_naive 08_new 08_new/variant" + end);
  CHECK(pages.update().exit_code == 0);
  CHECK_THAT(pages.text(), contains("| regime | copy | `02_naive` |\n"));
  CHECK_THAT(pages.text(), contains("\nNot recorded yet: `08_new`, `08_new/variant`.\n"));
  CHECK(pages.update("--check").exit_code == 0);

  pages.write("<!-- results:begin profile prefill 08_new" + end);
  CHECK(pages.update().exit_code == 0);
  CHECK_THAT(pages.text(), contains(" -->\n\nNot recorded yet: `08_new`.\n") && !contains("|"));

  // A variant that a recorded lesson does not have, a lesson that is not there and a kind of table
  // that is not known are mistakes, and the page and the line are named.
  pages.write("<!-- results:begin lesson 02_naive 02_naive/variant" + end);
  CHECK_THAT(pages.update().err, contains("there is no result of '02_naive/variant'"));
  pages.write("<!-- results:begin lesson 02_naive 09_new" + end);
  CHECK_THAT(pages.update().err, contains("there is no result of '09_new'"));
  pages.write("<!-- results:begin nonsense" + end);
  CHECK(pages.update("--check").exit_code == 1);
  CHECK_THAT(pages.update("--check").err, contains("README.md:1:"));
}

TEST_CASE("a lesson's table has a row for each type that was measured") {
  Result result = timed("10_a", "decode");
  std::vector<Result> results = {timed("09_b", "decode"), result};
  const auto table = [&] { return make_table(results, {"lesson", "09_b", "10_a"}); };
  CHECK_THAT(table(), contains("| decode, cold | ") && !contains("fp32"));
  result.dtype = "bf16/none";
  result.median_us = 40;
  results.push_back(result);
  CHECK_THAT(
      table(), contains("| decode, cold, fp32 | 50.0 µs, 4000 GB/s | 100 µs, 50 % | 100 µs"));
  CHECK_THAT(
      table(), contains("| decode, cold, bf16/none | 50.0 µs, 4000 GB/s | - | 40.0 µs, 50 %"));
  const auto of_type = [&](const char* dtype) {
    return make_table(results, {"lesson", dtype, "10_a"});
  };
  CHECK_THAT(of_type("bf16/none"), contains("| 40.0 µs, 50 % |") && !contains("fp32"));
  CHECK_THAT(of_type("fp32"), contains("| decode, cold | ") && !contains("bf16"));
  CHECK_THROWS_WITH(of_type("fp16"), contains("no result of '10_a'"));
  CHECK(of_fp32(results).size() == 2);
}

TEST_CASE("a lesson's table can be of some types and regimes alone") {
  std::vector<Result> results;
  for (const char* regime : {"prefill", "batch", "decode"}) {
    for (const char* dtype : {"fp32", "bf16", "fp16"}) {
      results.push_back(timed("10_a", regime));
      results.back().dtype = dtype;
    }
  }
  const std::string table =
      make_table(results, {"lesson", "bf16", "fp32", "decode", "batch", "10_a"});
  for (const char* row : {"batch, cold, fp32", "batch, cold, bf16", "decode, cold, bf16"})
    CHECK_THAT(table, contains(std::string("| ") + row + " |"));
  CHECK_THAT(table, !contains("prefill") && !contains("fp16"));
  CHECK_THROWS_WITH(
      make_table(results, {"lesson", "bf16", "heads", "10_a"}), contains("no result of 'heads'"));
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
  CHECK_THAT(
      make_mutants_table(counts, {"operators"}),
      contains("| index | 7 | 9 | 8 | 0 | 1 | 1 | 50 % |"));
  CHECK_THROWS_WITH(
      make_mutants_table({{"02_naive", "index", "lost", 1}}, {"lessons"}), contains("'lost'"));
  CHECK_THROWS_WITH(make_mutants_table(counts, {}), contains("operators"));
}

TEST_CASE("the tables of a GPU's memories say what was measured and what follows from it") {
  const auto rows = tests::memories();
  CHECK_THAT(
      make_machine_table(rows, {"latency"}),
      contains("| shared memory, without conflicts | - | 20 | 10.0 |\n") &&
          contains("| L1 | 1 KiB to 8 KiB | 40 | 20.0 |\n| L2 | 32 KiB to 256 KiB | 200 | 100 |\n"
                   "| DRAM | 1 MiB to 8 MiB | 600 | 300 |\n\nMeasured on NVIDIA H200"));
  CHECK_THAT(
      make_machine_table(rows, {"banks"}),
      contains("| 1 | 1 | 20.0 | - |\n| 8 | 8 | 34.0 | 2.00 |\n| 32 | 32 | 82.0 | 2.00 |\n"));
  // 32768 bytes at 39 a nanosecond; 16384 bytes at 250.
  CHECK_THAT(
      make_machine_table(rows, {"bandwidth"}),
      contains("| DRAM | 5280 GB/s | 40.0 bytes/ns | 12 KiB | 32 KiB | 840 ns | 300 ns |") &&
          contains("| L2 | 33792 GB/s | 256.0 bytes/ns | 25 KiB | 16 KiB | 66 ns | 100 ns |"));
  CHECK(make_machine_table({}, {"banks"}) == "Not recorded yet.\n");
  CHECK_THROWS_WITH(make_machine_table(rows, {}), contains("'machine' needs 'latency', 'banks'"));

  auto other = rows;
  for (auto& row : other) row.device = "another GPU";
  CHECK_THROWS_WITH(
      make_machine_table(other, {"bandwidth"}), contains("how many SMs a 'another GPU' has"));
  const auto without_l2 = only(
      rows, [](const MachineRow& row) { return row.set_bytes != 65536 && row.memory != "l2"; });
  CHECK_THROWS_WITH(make_machine_table(without_l2, {"latency"}), contains("has 2 levels"));
  CHECK_THROWS_WITH(reach_of(without_l2, "l2"), contains("no bandwidth of 'l2'"));
}
