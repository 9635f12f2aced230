/// \file
/// The check that the pages' tables are those of the recorded results: that it can fail.

#include <filesystem>
#include <string>

#include "common/base/files.hpp"
#include "common/records/csv.hpp"
#include "plots/select.hpp"
#include "plots/tables.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/temporary_folder.hpp"

using rmsnorm::read_file;
using rmsnorm::write_file;
using tests::contains;
using tests::Finished;

namespace {

/// A repository with one page and one results file.
class Pages {
 public:
  Pages() {
    write_file(
        folder_ / "README.md", "Text.\n\n<!-- results:begin ladder -->\n<!-- results:end -->\n");
    record(2100);
  }

  void record(double median_us) const {
    rmsnorm::Result result;
    result.lesson = "02_naive";
    result.regime = "prefill";
    result.rows = 262144;
    result.hidden = 4096;
    result.cache = "cold";
    result.median_us = median_us;
    result.spread_pct = 0.5;
    result.samples = 50;
    result.gbps = 8589.934592e3 / median_us;
    result.copy_gbps = 4210;
    result.peak_gbps = 4814;
    result.max_error = 2e-7;
    result.error_bound = 9e-7;
    result.verdict = "pass";
    result.device = "NVIDIA H200";
    rmsnorm::write_csv(folder_ / "results.csv", {result});
  }

  Finished update(const std::string& option = "") const {
    std::vector<std::string> command = {
        RMSNORM_UPDATE_TABLES, "--csv", (folder_ / "results.csv").string(), "--root",
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

/// 25 million elements, loaded and stored in 100 us, at half of the copy's speed.
rmsnorm::Result timed(const char* lesson, const char* regime) {
  rmsnorm::Result result;
  result.lesson = lesson;
  result.regime = regime;
  result.rows = 1000;
  result.hidden = 25000;
  result.cache = "cold";
  result.median_us = 100;
  result.gbps = 2000;
  result.copy_gbps = 4000;
  result.verdict = "pass";
  result.device = "NVIDIA H200";
  return result;
}

}  // namespace

TEST_CASE("the copy in a table moves as many bytes as the lesson") {
  rmsnorm::Result result = timed("14_backward", "backward");
  result.gbps = 3000;  // of three tensors
  CHECK_THAT(
      rmsnorm::plots::make_table({result}, {"lesson", "14_backward"}),
      contains("| backward, cold | 75.0 µs, 4000 GB/s | 100 µs, 75 % |"));
}

TEST_CASE("what moves more than the copy has no share of it and no place in the ladder") {
  const rmsnorm::Result norm = timed("07_norm", "prefill");
  const rmsnorm::Result foil = timed("07_norm/foil", "prefill");
  rmsnorm::Result sum = timed("08_sum", "prefill");
  sum.gbps = 4000;  // of twice as many elements
  rmsnorm::Result refused = sum;
  refused.regime = "wide";
  refused.median_us.reset();
  refused.gbps.reset();
  refused.verdict = "refused";
  const std::vector<rmsnorm::Result> results = {norm, foil, sum, refused};
  using rmsnorm::plots::make_table;
  CHECK_THAT(
      make_table(results, {"lesson", "07_norm", "08_sum"}),
      contains("| prefill, cold | 50.0 µs, 4000 GB/s | 100 µs, 50 % | 100 µs, 4000 GB/s |"));
  CHECK_THAT(
      make_table(results, {"ladder"}),
      contains("/07_norm/) | 50 % |") && !contains("foil") && !contains("08_sum"));
  CHECK(rmsnorm::plots::comparable(results).size() == 1);
}

TEST_CASE("tables that are out of date are noticed and then made anew") {
  const Pages pages;
  const std::string before = pages.text();
  const Finished stale = pages.update("--check");
  CHECK(stale.exit_code == 1);
  CHECK_THAT(stale.err, contains("README.md"));
  CHECK(pages.text() == before);  // a check writes nothing

  CHECK(pages.update().exit_code == 0);
  CHECK_THAT(pages.text(), contains("02_naive") && contains("NVIDIA H200"));
  CHECK(pages.update("--check").exit_code == 0);

  pages.record(3000);
  CHECK(pages.update("--check").exit_code == 1);
}

TEST_CASE("a number that was changed by hand is noticed") {
  const Pages pages;
  pages.update();
  std::string text = pages.text();
  const std::size_t digit = text.find_first_of("123456789", text.find("| 02") + 4);
  REQUIRE(digit != std::string::npos);
  text[digit] = text[digit] == '1' ? '2' : '1';
  pages.write(text);
  CHECK(pages.update("--check").exit_code == 1);
}

TEST_CASE("a table leaves out a lesson that is newer than the results and says so") {
  const Pages pages;
  pages.add_lesson("02_naive");
  pages.add_lesson("08_new");
  const std::string end = " -->\n<!-- results:end -->\n";
  pages.write("<!-- results:begin lesson 02_naive 08_new 08_new/foil" + end);
  CHECK(pages.update().exit_code == 0);
  CHECK_THAT(pages.text(), contains("| regime | copy | `02_naive` |\n"));
  CHECK_THAT(pages.text(), contains("\nNot recorded yet: `08_new`, `08_new/foil`.\n"));
  CHECK(pages.update("--check").exit_code == 0);

  pages.write("<!-- results:begin profile prefill 08_new" + end);
  CHECK(pages.update().exit_code == 0);
  CHECK_THAT(pages.text(), contains(" -->\n\nNot recorded yet: `08_new`.\n") && !contains("|"));

  // A foil that a recorded lesson does not have, and a lesson that is not there, are mistakes.
  pages.write("<!-- results:begin lesson 02_naive 02_naive/foil" + end);
  CHECK_THAT(pages.update().err, contains("there is no result of '02_naive/foil'"));
  pages.write("<!-- results:begin lesson 02_naive 09_new" + end);
  CHECK_THAT(pages.update().err, contains("there is no result of '09_new'"));
}

TEST_CASE("a page with a marker that asks for nothing known is an error that names it") {
  const Pages pages;
  pages.write("<!-- results:begin nonsense -->\n<!-- results:end -->\n");
  const Finished finished = pages.update("--check");
  CHECK(finished.exit_code == 1);
  CHECK_THAT(finished.err, contains("README.md:1:"));
}

TEST_CASE("a lesson's table has a row for each type that was measured") {
  rmsnorm::Result result = timed("10_a", "decode");
  result.rows = 16;
  result.hidden = 4096;
  result.median_us = 2;
  result.gbps = 50;
  result.copy_gbps = 100;
  rmsnorm::Result before = result;
  before.lesson = "09_b";
  std::vector<rmsnorm::Result> results = {before, result};
  const auto table = [&] {
    return rmsnorm::plots::make_table(results, {"lesson", "09_b", "10_a"});
  };
  CHECK_THAT(table(), contains("| decode, cold | ") && !contains("fp32"));
  result.dtype = "bf16/none";
  result.median_us = 1;
  results.push_back(result);
  CHECK_THAT(table(), contains("| decode, cold, fp32 | 5.24 µs, 100 GB/s | 2.00 µs, 50 % | 2.00"));
  CHECK_THAT(
      table(), contains("| decode, cold, bf16/none | 2.62 µs, 100 GB/s | - | 1.00 µs, 50 %"));
  CHECK(rmsnorm::plots::of_fp32(results).size() == 2);
}
