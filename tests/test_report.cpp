/// \file
/// The lines that a run prints: every column, in its place.

#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/terminal.hpp"
#include "common/contract/registry.hpp"
#include "common/programs/report.hpp"
#include "common/programs/table.hpp"
#include "tests/catch.hpp"
#include "tests/repository.hpp"

using namespace rmsnorm;
using tests::contains;

namespace {

Result untimed() {
  return {
      .implementation = "06_float4",
      .regime = "custom",
      .rows = 3,
      .hidden = 5,
      .verdict = Verdict::unsupported};
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
      .roof_gbps = 165.4};
}

/// The line's words: what it says, whatever the columns' widths.
std::string words_of(const std::string& line) {
  return std::regex_replace(line, std::regex(" +"), " ");
}

}  // namespace

TEST_CASE("the line of a result has every column or says that it was not timed and why") {
  CHECK(
      words_of(result_line(timed(), "", false)) ==
      "04_warp_reduce decode 16 x 4096 warm 3.41 us +- 0.6% 154 GB/s 93% PASS");
  CHECK(
      words_of(result_line(untimed(), "06_float4 needs hidden % 4 == 0", false)) ==
      "06_float4 custom 3 x 5 not timed UNSUPPORTED 06_float4 needs hidden % 4 == 0");
  Result of_host = untimed();
  of_host.device = "cpu";
  of_host.max_error = 8.2e-6;
  of_host.error_bound = 2.0e-3;
  of_host.verdict = Verdict::pass;
  CHECK(
      words_of(result_line(of_host, "on the CPU", false)) ==
      "06_float4 custom 3 x 5 PASS error 8.2e-06, bound 2.0e-03 on the CPU");
  of_host.device = "CPU device";  // where nothing is ever timed
  CHECK(words_of(result_line(of_host, "", false)) == "06_float4 custom 3 x 5 PASS");
  CHECK(
      words_of(skipped_line("04_warp_reduce", "there is no GPU")) ==
      "04_warp_reduce cannot run: there is no GPU");
}

TEST_CASE("times have at most two digits behind the point and no exponent") {
  for (const auto& [us, text] : std::map<double, std::string>{
           {0.123456, "0.12"},
           {9.876, "9.88"},
           {45.678, "45.7"},
           {2048.4, "2048"},
           {123456.7, "123457"}}) {
    CHECK(microseconds(us) == text + " us");
  }
}

TEST_CASE("on every line of a GPU the verdict stands in the same column, before the 100th") {
  const std::size_t column = result_line(timed(), "", false).find("PASS");
  REQUIRE(column != std::string::npos);

  Result result = timed();
  result.regime = "sweep_hidden";
  result.rows = 1048576;
  result.hidden = 65536;
  result.median_us = 123456;
  result.spread_pct = 12.3;
  result.gbps = 4321;
  result.roof_gbps = 4000;
  CHECK(result_line(result, "", false).find("PASS") == column);
  CHECK(result_line(untimed(), "", false).find("UNSUPPORTED") == column);
  CHECK(result_line(result, "", false).size() <= 100 + std::string("  noisy").size());
  for (const Implementation& lesson : all_implementations()) {
    CAPTURE(lesson.slug);
    result.implementation = lesson.slug;
    CHECK(result_line(result, "", false).find("PASS") == column);
  }
}

TEST_CASE("a verdict has a colour of its own if that was asked for") {
  Result result = timed();
  for (const auto& [verdict, word] :
       {std::pair(Verdict::pass, "\033[32mPASS\033[0m"),
        {Verdict::fail, "\033[31mFAIL\033[0m"},
        {Verdict::unsupported, "\033[33mUNSUPPORTED\033[0m"}}) {
    result.verdict = verdict;
    CHECK(result_line(result, "remark", false).find('\033') == std::string::npos);
    CHECK_THAT(result_line(result, "remark", true), contains(word));
  }
}

TEST_CASE("a result with a spread above 5 per cent is called noisy") {
  Result result = timed();
  result.spread_pct = 5.0;
  CHECK(result_line(result, "", false).find("noisy") == std::string::npos);
  result.spread_pct = 5.1;
  CHECK_THAT(result_line(result, "", false), contains("PASS  noisy"));
}

TEST_CASE("a disturbed result says so on its line and has a mark in the summary") {
  Result result = timed();
  result.disturbed = Disturbance::power;
  CHECK_THAT(result_line(result, "", false), contains("PASS  at the power cap"));
  CHECK_THAT(run_table({timed()}, {}, false), !contains("*") && !contains("cap"));
  CHECK_THAT(
      run_table({result}, {}, false), contains(" 3.41 us*\n* the GPU was at the power cap\n"));
  result.regime = "prefill";
  Result hot = result;
  hot.disturbed = Disturbance::heat;
  hot.cache = Cache::cold;
  CHECK_THAT(
      run_table({result, hot}, {}, false),
      contains(" 93%*") && contains("at the heat cap or at the power cap\n"));
}

TEST_CASE("the list has a line for each lesson with slug, title and idea in the same columns") {
  std::set<std::pair<std::size_t, std::size_t>> columns;
  for (const Implementation& lesson : all_implementations()) {
    CAPTURE(lesson.slug);
    const std::string line = implementation_list({lesson});
    CHECK(line.starts_with(lesson.slug + std::string(" ")));
    CHECK(line.ends_with(lesson.idea + std::string("\n")));
    columns.emplace(
        line.find(lesson.title, std::string(lesson.slug).size()), line.rfind(lesson.idea));
  }
  CHECK(columns.size() == 1);
  const std::string list = implementation_list(all_implementations());
  CHECK(tests::lines_in(list).size() == all_implementations().size());
}

TEST_CASE("the tally counts each verdict") {
  Result failed = timed();
  failed.verdict = Verdict::fail;
  CHECK(tally({timed(), failed, untimed(), timed()}) == "4 results: 2 pass, 1 fail, 1 unsupported");
}

TEST_CASE("a file is no terminal and gets no colour") {
  const int file = open("/dev/null", O_WRONLY);
  CHECK_FALSE(wants_colour(file));
  close(file);
}
