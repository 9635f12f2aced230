/// \file
/// The lines that a run prints: every column, in its place.

#include <fcntl.h>
#include <unistd.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/terminal.hpp"
#include "common/contract/regime.hpp"
#include "common/contract/registry.hpp"
#include "common/programs/report.hpp"
#include "tests/catch.hpp"
#include "tests/repository.hpp"

using namespace rmsnorm;
using tests::contains;

namespace {

Result untimed() {
  Result result;
  result.implementation = "06_float4";
  result.regime = "custom";
  result.rows = 3;
  result.hidden = 5;
  result.verdict = Verdict::unsupported;
  return result;
}

Result timed() {
  Result result;
  result.implementation = "04_warp_reduce";
  result.regime = "decode";
  result.rows = 16;
  result.hidden = 4096;
  result.cache = Cache::warm;
  result.median_us = 3.408;
  result.spread_pct = 0.62;
  result.samples = 50;
  result.gbps = 153.7;
  result.copy_gbps = 165.4;
  result.verdict = Verdict::pass;
  return result;
}

/// The line's words: what it says, whatever the columns' widths.
std::string words_of(const std::string& line) {
  std::string words;
  for (const char c : line) {
    if (c != ' ' || (!words.empty() && words.back() != ' ')) words += c;
  }
  return words;
}

}  // namespace

TEST_CASE("the line of a result has every column") {
  CHECK(
      words_of(result_line(timed(), "", false)) ==
      "04_warp_reduce decode 16 x 4096 warm 3.41 us +- 0.6% 154 GB/s 93% of copy PASS");
}

TEST_CASE("the line of a result that was not timed says so and gives the reason") {
  CHECK(
      words_of(result_line(untimed(), "06_float4 needs hidden % 4 == 0", false)) ==
      "06_float4 custom 3 x 5 not timed UNSUPPORTED 06_float4 needs hidden % 4 == 0");
}

TEST_CASE("times have at most four digits and no exponent") {
  const auto time_in_line = [](double us) {
    Result result = timed();
    result.median_us = us;
    const std::string line = words_of(result_line(result, "", false));
    const std::size_t begin = line.find("warm ") + 5;
    return line.substr(begin, line.find(" us") - begin);
  };
  CHECK(time_in_line(0.123456) == "0.12");
  CHECK(time_in_line(9.876) == "9.88");
  CHECK(time_in_line(45.678) == "45.7");
  CHECK(time_in_line(2048.4) == "2048");
  CHECK(time_in_line(123456.7) == "123457");
}

TEST_CASE("the verdict stands in the same column on every line") {
  const std::size_t column = result_line(timed(), "", false).find("PASS");
  REQUIRE(column != std::string::npos);

  Result result = timed();
  result.regime = "sweep_hidden";
  result.rows = 1048576;
  result.hidden = 65536;
  result.median_us = 123456;
  result.spread_pct = 12.3;
  result.gbps = 4321;
  result.copy_gbps = 4000;
  CHECK(result_line(result, "", false).find("PASS") == column);
  CHECK(result_line(untimed(), "", false).find("UNSUPPORTED") == column);
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

TEST_CASE("a lesson that cannot run gets one line with the reason") {
  const std::string line = skipped_line("04_warp_reduce", "there is no GPU");
  CHECK(words_of(line) == "04_warp_reduce cannot run: there is no GPU");
  CHECK(line.find('\n') == std::string::npos);
}

TEST_CASE("the list of lessons has a line for each with slug and title and idea") {
  const std::vector<Implementation> lessons = all_implementations();
  const std::string list = implementation_list(lessons);
  CHECK(std::count(list.begin(), list.end(), '\n') == static_cast<long>(lessons.size()));
  for (const Implementation& lesson : lessons) {
    CHECK_THAT(list, contains(lesson.slug));
    CHECK_THAT(list, contains(lesson.title));
    CHECK_THAT(list, contains(std::string(lesson.idea) + "\n"));
  }
}

TEST_CASE("titles and ideas stand in the same columns on every line of the list") {
  std::set<std::pair<std::size_t, std::size_t>> columns;
  for (const Implementation& lesson : all_implementations()) {
    CAPTURE(lesson.slug);
    const std::string line = implementation_list({lesson});
    const std::size_t slug_size = std::string(lesson.slug).size();
    const std::size_t title = line.find(lesson.title, slug_size);
    CHECK(title > slug_size);  // and there is a space between
    columns.emplace(title, line.rfind(lesson.idea));
  }
  CHECK(columns.size() == 1);
}

TEST_CASE("the summary has a line a kernel and type and a column a regime and state of the cache") {
  Result prefill = timed();
  prefill.regime = "prefill";
  prefill.rows = 262144;
  prefill.cache = Cache::cold;
  prefill.median_us = 2048;
  prefill.gbps = 4000;
  prefill.copy_gbps = 4210;
  Result decode = timed();
  Result bf16 = decode;
  bf16.dtype = "bf16";
  bf16.median_us = 2;
  Result unsupported = decode;
  unsupported.implementation = "06_float4";
  unsupported.verdict = Verdict::unsupported;
  unsupported.median_us.reset();
  Result wrong = unsupported;
  wrong.implementation = "librmsnorm";
  wrong.operation = "backward";
  wrong.verdict = Verdict::fail;
  Result sweep = decode;
  sweep.regime = "sweep_rows";
  Result fp16 = decode;
  fp16.dtype = "fp16";
  const std::string text =
      summary({prefill, decode, bf16, unsupported, wrong, sweep, fp16, untimed()});
  const std::vector<std::string> lines = tests::lines_in(text);
  REQUIRE(lines.size() == 6);
  CHECK(words_of(lines[0]) == "% of copy; decode: time prefill decode");
  CHECK(words_of(lines[1]) == "cold warm");
  CHECK(words_of(lines[2]) == "04_warp_reduce 95% 3.41 us");
  CHECK(words_of(lines[3]) == "04_warp_reduce bf16 2.00 us");
  CHECK(words_of(lines[4]) == "06_float4 -");
  CHECK(words_of(lines[5]) == "librmsnorm backward FAIL");
  for (const std::string& line : lines) {
    CHECK(line.size() == lines[0].size());
    CHECK(line.size() <= 100);
  }
}

TEST_CASE("there is no summary of what was not timed") {
  CHECK(summary({}) == "");
  CHECK(summary({untimed()}) == "");
}

TEST_CASE("the summary of all regimes is 100 columns wide at most") {
  std::vector<Result> results;
  for (const Regime& regime : regimes()) {
    for (const Cache cache : regime.caches) {
      results.push_back(timed());
      results.back().regime = regime.name;
      results.back().cache = cache;
    }
  }
  for (const std::string& line : tests::lines_in(summary(results))) CHECK(line.size() <= 100);
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
