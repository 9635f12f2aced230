/// \file
/// What a run prints: the lines of results, the tables of a run, a lesson and a check, their width.

#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <regex>
#include <string>
#include <vector>

#include "common/base/terminal.hpp"
#include "common/contract/regime.hpp"
#include "common/programs/report.hpp"
#include "common/programs/table.hpp"
#include "tests/catch.hpp"
#include "tests/repository.hpp"

using namespace rmsnorm;
using tests::contains;

namespace {

template <class Change>
Result changed(Result result, Change change) {
  change(result);
  return result;
}

Result of_cpu_device(const std::string& implementation, const std::string& regime = "prefill") {
  return {
      .implementation = implementation,
      .regime = regime,
      .rows = 32,
      .hidden = 4096,
      .device = "CPU device"};
}

Result timed() {
  return {
      .implementation = "04_warp_reduce",
      .regime = "decode",
      .rows = 16,
      .hidden = 4096,
      .cache = Cache::warm,
      .median_us = 3.408,
      .spread_pct = 0.62,
      .samples = 50,
      .gbps = 153.7,
      .roof_gbps = 165.4,
      .device = "a GPU"};
}

/// A launch of a result, with sectors of 32 bytes as predicted, 1536 a row.
Watched launch_of(const Result& result) {
  Watched launch{
      .operation = result.operation,
      .implementation = result.implementation,
      .regime = result.regime,
      .rows = result.rows,
      .hidden = static_cast<int>(result.hidden),
      .types = *types_named(result.dtype),
      .predicted = {32768, 16384},
      .counts = {}};
  const auto add = [&](const char* kind, std::int64_t requests, std::int64_t sectors) {
    LineCount& line = launch.counts.lines.emplace_back();
    line.kind = kind;
    line.requests = requests * result.rows;
    line.sectors = sectors * result.rows;
  };
  add("global load", 256, 1024);
  add("global store", 128, 512);
  add("barrier", 2, 0);
  return launch;
}

/// What a result's line says, whatever the columns' widths.
std::string words_of(const Result& result, const std::string& remark = "") {
  return std::regex_replace(result_line(result, remark, false), std::regex(" +"), " ");
}

/// The words of each line of a text.
std::vector<std::string> words_in(const std::string& text) {
  std::vector<std::string> lines = tests::lines_in(text);
  for (std::string& line : lines) line = std::regex_replace(line, std::regex(" +"), " ");
  return lines;
}

}  // namespace

TEST_CASE("the line of a result has every column or says that it was not timed and why") {
  CHECK(
      words_of(timed()) ==
      "04_warp_reduce decode 16 x 4096 warm 3.41 us +- 0.6% 154 GB/s 93% PASS");
  const Result untimed = changed(timed(), [](Result& r) {
    r.cache.reset(), r.median_us.reset(), r.verdict = Verdict::unsupported;
  });
  CHECK(
      words_of(untimed, "it needs hidden % 4 == 0") ==
      "04_warp_reduce decode 16 x 4096 not timed UNSUPPORTED it needs hidden % 4 == 0");
  Result of_host = changed(of_cpu_device("01_a"), [](Result& r) {
    r.device = "cpu", r.max_error = 8.2e-6, r.error_bound = 2.0e-3;
  });
  CHECK(
      words_of(of_host, "on the CPU") ==
      "01_a prefill 32 x 4096 PASS error 8.2e-06, bound 2.0e-03 on the CPU");
  of_host.device = "CPU device";  // where nothing is ever timed
  CHECK(words_of(of_host) == "01_a prefill 32 x 4096 PASS");
  CHECK(tally({of_host, untimed, of_host}) == "3 results: 2 pass, 0 fail, 1 unsupported");
}

TEST_CASE("times have at most two digits behind the point and no exponent") {
  for (const auto& [us, text] : std::map<double, std::string>{
           {0.123456, "0.12"}, {45.678, "45.7"}, {2048.4, "2048"}, {123456.7, "123457"}}) {
    CHECK(microseconds(us) == text + " us");
  }
}

TEST_CASE("a disturbed result says so on its line and has a mark in the summary, and so do noisy") {
  Result result = changed(timed(), [](Result& r) { r.disturbed = Disturbance::power; });
  CHECK_THAT(words_of(result), contains("PASS at the power cap"));
  CHECK_THAT(run_table({timed()}, {}, false), !contains("*") && !contains("cap"));
  CHECK_THAT(
      run_table({result}, {}, false), contains(" 3.41 us*\n* the GPU was at the power cap\n"));
  result.regime = "prefill";
  const Result hot =
      changed(result, [](Result& r) { r.disturbed = Disturbance::heat, r.cache = Cache::cold; });
  CHECK_THAT(
      run_table({result, hot}, {}, false),
      contains(" 93%*") && contains("at the heat cap or at the power cap\n"));
  CHECK_THAT(words_of(changed(timed(), [](Result& r) { r.spread_pct = 5; })), !contains("noisy"));
  CHECK_THAT(
      words_of(changed(timed(), [](Result& r) { r.spread_pct = 5.1; })), contains("PASS noisy"));
}

TEST_CASE("a table has no column that is empty and its names stand over what they name") {
  Table table(2);
  table.add_names({"kernel, per row", "", "time", "barriers"});
  table.add({"a", "PASS", "", "12"});
  table.add_heading("others");
  table.add({"bc", "FAIL", "", ""});
  CHECK(
      table.text() ==
      "kernel, per row  barriers\n"
      "a          PASS        12\n"
      "others\n"
      "  bc       FAIL\n");
}

TEST_CASE("a lesson's table has a line for each regime with its verdict and costs") {
  const Result prefill = of_cpu_device("04_warp_reduce");
  const Result decode = of_cpu_device("04_warp_reduce", "decode");
  const Result wrong = changed(
      of_cpu_device("04_warp_reduce", "wide"), [](Result& r) { r.verdict = Verdict::fail; });
  const std::string text = result_table(
      {prefill, decode, wrong}, {launch_of(prefill), launch_of(decode), launch_of(wrong)}, false);
  const std::vector<std::string> lines = words_in(text);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "04_warp_reduce, per row sectors requests wavefronts barriers shuffles");
  CHECK(lines[1] == "prefill 32 x 4096 PASS 1536 \u2713 384 0 2 0");
  CHECK(lines[2] == "decode 32 x 4096 PASS 1536 \u2713 384 0 2 0");
  CHECK(lines[3] == "wide 32 x 4096 FAIL");  // what it costs to be wrong is of no interest
  for (const char* none : {"time", "GB/s", "of roof", "error"}) CHECK_THAT(text, !contains(none));
}

TEST_CASE("the prediction is printed only where the count differs from it") {
  const Result result = of_cpu_device("04_warp_reduce");
  Watched launch = launch_of(result);
  CHECK_THAT(cost_table({launch}), contains("1536 \u2713") && !contains("predicted"));
  launch.predicted.read = 16384;
  CHECK_THAT(cost_table({launch}), contains("1536 (1024 predicted)") && !contains("\u2713"));
  launch.hidden = 1001;  // whose rows fill no whole sectors: nothing is predicted
  CHECK_THAT(cost_table({launch}), !contains("predicted") && !contains("\u2713"));
}

TEST_CASE("kernels of one regime stand under its heading and no two lines have the same name") {
  std::vector<Result> results;
  for (const char* regime : {"prefill", "decode"}) {
    for (const char* slug : {"06_float4", "06_float4/512"}) {
      results.push_back(of_cpu_device(slug, regime));
    }
  }
  const std::vector<std::string> lines = words_in(result_table(results, {}, false));
  CHECK(
      std::vector<std::string>(lines.begin() + 1, lines.end()) ==
      std::vector<std::string>{
          "prefill, 32 x 4096", " 06_float4 PASS", " 06_float4/512 PASS", "decode, 32 x 4096",
          " 06_float4 PASS", " 06_float4/512 PASS"});
}

TEST_CASE("a run's table has a line for each lesson under its operation") {
  const Result naive = of_cpu_device("02_naive");
  const Result in_wide = of_cpu_device("02_naive", "wide");
  const Result library = of_cpu_device("librmsnorm");
  const Result variant = of_cpu_device("02_naive/variant");
  const Result wrong_variant =
      changed(of_cpu_device("03_b/variant"), [](Result& r) { r.verdict = Verdict::fail; });
  const Result add =
      changed(of_cpu_device("13_residual_add"), [](Result& r) { r.operation = "residual_add"; });
  const Result of_no_lesson =
      changed(of_cpu_device("librmsnorm"), [](Result& r) { r.operation = "rms_norm_e5m2_row"; });
  const Result unsupported = changed(
      of_cpu_device("02_naive", "heads"), [](Result& r) { r.verdict = Verdict::unsupported; });
  const std::vector<std::string> lines = words_in(run_table(
      {naive, variant, library, wrong_variant, in_wide, add, of_no_lesson, unsupported},
      {launch_of(naive), launch_of(in_wide)}, false));
  CHECK(
      lines == std::vector<std::string>{
                   "per row, 32 x 4096 sectors requests wavefronts barriers shuffles", "rms_norm",
                   " 02_naive PASS 1536 \u2713 384 0 2 0", " librmsnorm PASS", " 03_b/variant FAIL",
                   "residual_add", " 13_residual_add PASS"});
  const Result wrong = changed(in_wide, [](Result& r) { r.verdict = Verdict::fail; });
  CHECK_THAT(run_table({naive, wrong}, {}, false), contains("FAIL") && !contains("PASS"));
  CHECK(run_table({}, {}, false) == "");
}

TEST_CASE("on a GPU a run's table has the share of the roof and in decode the time") {
  const Result prefill = changed(timed(), [](Result& r) {
    r.regime = "prefill", r.cache = Cache::cold, r.gbps = 4000, r.roof_gbps = 4210;
  });
  const Result bf16 = changed(timed(), [](Result& r) { r.dtype = "bf16", r.median_us = 2; });
  const Result fp16 = changed(timed(), [](Result& r) { r.dtype = "fp16", r.median_us = 7; });
  const Result sweep = changed(timed(), [](Result& r) { r.regime = "sweep_rows"; });
  const Result unsupported = changed(
      timed(), [](Result& r) { r.implementation = "06_float4", r.verdict = Verdict::unsupported; });
  const std::string text = run_table({prefill, timed(), bf16, unsupported, sweep}, {}, false);
  CHECK(
      words_in(text) == std::vector<std::string>{
                            "% of roof; decode: time prefill decode", " cold warm", "rms_norm",
                            " 04_warp_reduce PASS 95% 3.41 us", " 04_warp_reduce bf16 PASS 2.00 us",
                            " 06_float4 UNSUPPORTED -"});
  CHECK_THAT(run_table({timed(), fp16}, {}, false), !contains("7.00 us"));
}

TEST_CASE(
    "on a GPU a lesson's table has times, bandwidth and the share of the roof, and no counts") {
  CHECK(
      words_in(result_table({timed()}, {}, false)) ==
      std::vector<std::string>{
          "04_warp_reduce time spread GB/s of roof",
          "decode 16 x 4096 warm PASS 3.41 us 0.6% 154 93%"});
}

TEST_CASE("the table of a lesson fits 80 columns and that of a run 100, with all regimes") {
  std::vector<Result> results;
  for (const Regime& regime : regimes()) {
    for (const Cache cache : regime.caches) {
      results.push_back(changed(timed(), [&](Result& r) {
        r.implementation = "11_unaligned_rows";
        r.dtype = "bf16";
        r.regime = regime.name;
        r.rows = 1048576;
        r.median_us = 2048;
        r.cache = cache;
      }));
    }
  }
  for (const std::string& line : tests::lines_in(result_table(results, {}, false))) {
    CHECK(tests::columns(line) <= 80);
  }
  for (const std::string& line : tests::lines_in(run_table(results, {}, false))) {
    CHECK(tests::columns(line) <= 100);
  }
}

TEST_CASE("a verdict has a colour of its own if that was asked for, and stays in its column") {
  Result result = of_cpu_device("04_warp_reduce");
  for (const auto& [verdict, word] :
       {std::pair(Verdict::pass, "\033[32mPASS\033[0m"),
        {Verdict::fail, "\033[31mFAIL\033[0m"},
        {Verdict::unsupported, "\033[33mUNSUPPORTED\033[0m"}}) {
    result.verdict = verdict;
    CHECK_THAT(result_line(result, "", true), contains(word));
    const std::string plain = result_table({result}, {launch_of(result)}, false);
    const std::string coloured = result_table({result}, {launch_of(result)}, true);
    CHECK_THAT(coloured, contains(word));
    CHECK(std::regex_replace(coloured, std::regex("\033\\[[0-9]+m"), "") == plain);
  }
}

TEST_CASE("text is broken at spaces and goes on below, no wider than the terminal") {
  CHECK(wrapped("one two three", 7) == "one two\n  three");
  CHECK(wrapped("  one two three", 9) == "  one two\n  three");
  CHECK(wrapped("fits\nas it is\n", 9) == "fits\nas it is\n");
  CHECK(wrapped("a longer_than_that word", 8) == "a\n  longer_than_that\n  word");
  CHECK(wrapped("\u00b5\u00b5 \u00b5\u00b5", 5) == "\u00b5\u00b5 \u00b5\u00b5");
  CHECK(cut("one two", 7) == "one two");
  CHECK(cut("one two three", 7) == "one ...");
  const int file = open("/dev/null", O_WRONLY);
  CHECK(width_of(file) == 100);  // it is no terminal
  close(file);
}
