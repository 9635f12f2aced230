/// \file
/// Predictions: what they are compared with, and how they are graded.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/files.hpp"
#include "common/contract/regime.hpp"
#include "common/contract/registry.hpp"
#include "common/programs/prediction.hpp"
#include "common/records/compared.hpp"
#include "common/records/csv.hpp"
#include "tests/catch.hpp"
#include "tests/operations.hpp"
#include "tests/repository.hpp"

using namespace rmsnorm;
using tests::contains;

namespace {

Implementation lesson_called(
    const char* slug, Memory memory = Memory::device, const char* regime = "decode",
    const Operation& operation = *tests::operations()[0]) {
  Implementation lesson{};
  lesson.slug = slug;
  lesson.regime = regime;
  lesson.memory = memory;
  lesson.operation = &operation;
  return lesson;
}

/// "before after", or the sentence that says why there is no such pair.
std::string pair_of(const std::vector<Implementation>& all, const std::string& chosen) {
  try {
    const std::vector<Implementation> pair =
        predecessor_and_lesson(all, find_implementations(all, chosen));
    REQUIRE(pair.size() == 2);
    return std::string(pair[0].slug) + " " + pair[1].slug;
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

Result timed(const std::string& slug, double us, double spread_pct, Cache cache = Cache::cold) {
  return {
      .implementation = slug,
      .regime = "decode",
      .rows = 16,
      .hidden = 4096,
      .cache = cache,
      .median_us = us,
      .spread_pct = spread_pct,
      .device = "Some GPU",
      .version = "abc",
      .date = "2026-01-02"};
}

/// The grade of a guess, where the times are 100 us / factor and 100 us.
std::string grade_of(double guess, double factor, double spread_pct = 0.1) {
  return grade(guess, timed("a", 100 * factor, spread_pct), timed("b", 100, spread_pct));
}

const Regime kDecode = {"decode", {{16, 4096}}, {Cache::cold, Cache::warm}};

std::vector<Result> four_results() {
  return {
      timed("03_a", 3.16, 0.12, Cache::cold), timed("04_b", 3.1, 0.12, Cache::cold),
      timed("03_a", 2.24, 0.6, Cache::warm), timed("04_b", 2.18, 0.04, Cache::warm)};
}

/// What is said about 04_b after 03_a by these results: the lines, or why there are none.
std::string graded(const std::vector<Result>& results) {
  try {
    return graded_prediction(1.3, "03_a", "04_b", kDecode, results, "recorded");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

/// Whether this is a lesson, neither a variant nor the library, about speed.
bool is_about_speed(const Implementation& implementation) {
  const std::string slug = implementation.slug;
  return implementation.memory == Memory::device && std::isdigit(slug[0]) != 0 && !is_variant(slug);
}

/// The page's text from the heading "Predict, then look" to the first table.
std::string question_of(const std::filesystem::path& page) {
  const std::string text = read_file(page);
  const std::size_t begin = std::min(text.find("\n## Predict, then look\n"), text.size());
  return text.substr(begin, text.find("<!-- results:begin", begin) - begin);
}

}  // namespace

TEST_CASE("the predecessor is the last lesson on the device and never a variant") {
  const std::vector<Implementation> all = {
      lesson_called("01_host", Memory::host, ""),
      lesson_called("02_first"),
      lesson_called("02_first/variant"),
      lesson_called("04_next"),
      lesson_called("04_next/variant"),
      lesson_called("05_host", Memory::host, ""),
      lesson_called("07_last")};
  CHECK(pair_of(all, "4") == "02_first 04_next");
  CHECK(pair_of(all, "7") == "04_next 07_last");
}

TEST_CASE("a lesson that says which lesson it starts from is compared with that one") {
  std::vector<Implementation> all = {
      lesson_called("02_first"), lesson_called("04_next"), lesson_called("07_last")};
  all.back().starts_from = "02_first";
  CHECK(pair_of(all, "7") == "02_first 07_last");
  CHECK(pair_of(all_implementations(), "12") == "10_half_precision 12_launch_overlap");
  CHECK(pair_of(all_implementations(), "16") == "10_half_precision 16_eight_bits");
}

TEST_CASE("a lesson follows the last one of the same operation or else its own first variant") {
  const auto other = [&](const char* slug) {
    return lesson_called(slug, Memory::device, "decode", *tests::operations()[1]);
  };
  const std::vector<Implementation> all = {lesson_called("04_norm"), other("05_other"),
                                           other("05_other/a"),      other("05_other/b"),
                                           lesson_called("06_norm"), other("07_next")};
  CHECK(pair_of(all, "5") == "05_other/a 05_other");
  CHECK(pair_of(all, "6") == "04_norm 06_norm");
  CHECK(pair_of(all, "7") == "05_other 07_next");
  CHECK(pair_of(all_implementations(), "2") == "02_naive/thread_per_row 02_naive");
}

TEST_CASE("what cannot be predicted is named in a sentence") {
  const std::vector<Implementation> all = {
      lesson_called("01_host", Memory::host, "decode"),
      lesson_called("02_slow", Memory::device, ""), lesson_called("03_alone"),
      lesson_called("03_alone/variant")};
  CHECK_THAT(pair_of(all, "1"), contains("01_host is about no speed"));
  CHECK_THAT(pair_of(all, "2"), contains("02_slow is about no speed"));
  CHECK_THAT(pair_of(all, "03_alone/variant"), contains("a variant has no predecessor"));
  CHECK_THROWS_WITH(predecessor_and_lesson(all, all), contains("one lesson at a time"));
  // Alone, the third lesson cannot tell whether another one was before it.
  CHECK_THAT(pair_of({all[2], all[3]}, "3"), contains("does not hold what came before 03_alone"));
}

TEST_CASE("a guess is graded by the gain, the factor and the spreads") {
  // Guesses and what they are of.
  using Guesses = std::vector<std::pair<double, double>>;
  const auto check = [](const char* grade, const Guesses& guesses, double spread_pct = 0.1) {
    for (const auto& [guess, factor] : guesses) {
      CAPTURE(guess, factor, spread_pct);
      CHECK(grade_of(guess, factor, spread_pct) == grade);
    }
  };
  // Right within a tenth of the gain, or a hundredth of the factor; close within three of them.
  check("that is it", {{2, 2}, {1.91, 2}, {2.1, 2}, {1.03, 1.02}});
  check("close", {{2.11, 2}, {1.89, 2}, {2.3, 2}, {1.7, 2}, {1.05, 1.02}});
  // Beyond: four times the gain is not close, though the factors differ by little.
  check(
      "slower than you thought",
      {{2.31, 2}, {1.06, 1.02}, {1.2, 1.05}, {2.6, 2}, {1.3, 1.03}, {0.97, 0.907}, {0.9, 0.5}});
  check("faster than you thought", {{1.69, 2}, {1.4, 2}, {1, 2}, {0.2, 0.5}});
  check("it went the other way", {{1.2, 0.5}, {0.5, 1.2}, {1.06, 0.98}});  // however near
  // A guess within the spreads of a noisy measurement is right ...
  check("that is it", {{2.3, 2}}, 10);
  check("close", {{2.3, 2}}, 1);
  // ... and a difference within them is no change.
  const char* const none = "nothing measurable changed: the difference lies within the spreads";
  check(none, {{1.2, 1.01}, {1.2, 0.99}}, 0.6);
  check(none, {{0.5, 1}}, 0);
  check("that is it: nothing measurable changed", {{1.03, 1.01}}, 0.6);
  check("slower than you thought", {{1.2, 1.01}}, 0.4);
}

TEST_CASE("a graded prediction says whose it is and has a line a cache state and a pointer") {
  const std::vector<std::string> lines = tests::lines_in(graded(four_results()));
  REQUIRE(lines.size() == 4);
  CHECK(
      lines[0] ==
      "04_b after 03_a in decode, 16 x 4096, recorded: Some GPU, commit abc, 2026-01-02");
  CHECK(
      lines[1] ==
      "decode, cold   you said 1.3 x, measured 1.02 x: 3.16 us -> 3.10 us, spreads 0.1 % and "
      "0.1 %   slower than you thought");
  CHECK(
      lines[2] ==
      "decode, warm   you said 1.3 x, measured 1.03 x: 2.24 us -> 2.18 us, spreads 0.6 % and "
      "0.04 %   slower than you thought");
  CHECK(lines[3] == "The reason is discussed in lessons/04_b/README.md, \"Predict, then look\".");
}

TEST_CASE("a graded prediction says where the GPU was at a cap") {
  std::vector<Result> results = four_results();
  results[1].disturbed = Disturbance::heat;
  const std::vector<std::string> lines = tests::lines_in(graded(results));
  CHECK_THAT(lines.at(1), contains(" and 0.1 %, at the heat cap   slower"));
  CHECK_THAT(lines.at(2), !contains("cap"));
}

TEST_CASE("factors have three digits and all of their whole part") {
  const auto measured = [](double before, double after) {
    std::vector<Result> results = four_results();
    results[0].median_us = before;
    results[1].median_us = after;
    const std::string line = tests::lines_in(graded(results)).at(1);
    const std::size_t begin = line.find("measured ") + 9;
    return line.substr(begin, line.find(" x:") - begin);
  };
  CHECK(measured(98.64, 100) == "0.986");
  CHECK(measured(100, 100) == "1.00");
  CHECK(measured(1091, 100) == "10.9");
  CHECK(measured(123456, 1) == "123456");
}

TEST_CASE("results that cannot be graded are named in a sentence") {
  const char* const kOtherRun = "03_a and 04_b in decode were not measured in the same run";
  const std::vector<std::pair<void (*)(std::vector<Result>&), const char*>> cases = {
      {[](auto& r) { r.clear(); }, "there is no result of 04_b in decode, cold"},
      {[](auto& r) { r.pop_back(); }, "there is no result of 04_b in decode, warm"},
      {[](auto& r) { r[0].implementation = "02_z"; }, "there is no result of 03_a in decode, cold"},
      {[](auto& r) { r[2].verdict = Verdict::unsupported; },
       "03_a in decode, warm cannot be graded: its verdict is 'unsupported'"},
      {[](auto& r) { r[1].verdict = Verdict::fail; },
       "04_b in decode, cold cannot be graded: its verdict is 'fail'"},
      {[](auto& r) { r[1].median_us.reset(); }, "04_b in decode, cold was not timed"},
      {[](auto& r) { r[1].median_us = 0; }, "04_b in decode, cold was not timed"},
      {[](auto& r) { r[0].version = "def"; }, kOtherRun},
      {[](auto& r) { r[3].device = "Another GPU"; }, kOtherRun},
      {[](auto& r) { r[2].rows = 8; }, kOtherRun}};
  for (const auto& [change, sentence] : cases) {
    std::vector<Result> results = four_results();
    change(results);
    CHECK(graded(results) == sentence);
  }
}

TEST_CASE("another operation may be of another run and says so") {
  std::vector<Result> results = four_results();
  for (Result& result : results) {
    if (result.implementation != "03_a") continue;
    result.operation = "another";
    result.version = "def";
  }
  CHECK_THAT(graded(results), contains("; 03_a: commit def, "));
}

TEST_CASE("every page about speed asks for a prediction that the recorded results can grade") {
  const std::vector<Result> recorded = read_csv(tests::top() / "plots/data/nvidia-h200.csv");
  for (const Implementation& lesson : all_implementations()) {
    if (!is_about_speed(lesson)) continue;
    const std::string slug = lesson.slug;
    CAPTURE(slug);
    const std::string question = question_of(tests::top() / "lessons" / slug / "README.md");
    const std::string number = std::to_string(std::stoi(slug.substr(0, 2)));
    CHECK_THAT(question, contains("`./rmsnorm lesson " + number + " --predict "));
    CHECK_THAT(question, contains(lesson.regime));

    const auto pair = predecessor_and_lesson(all_implementations(), {lesson});
    const auto is_of_lesson = [&](const Result& result) { return result.implementation == slug; };
    if (std::none_of(recorded.begin(), recorded.end(), is_of_lesson)) continue;  // not yet
    const auto regime = std::find_if(regimes().begin(), regimes().end(), [&](const Regime& r) {
      return r.name == lesson.regime;
    });
    REQUIRE(regime != regimes().end());
    const std::string text =
        graded_prediction(2, pair[0].slug, slug, *regime, recorded, "recorded");
    CHECK(tests::lines_in(text).size() == 2 + regime->caches.size());
  }
}

TEST_CASE("what a page lets expect at its top is a gain, but in three lessons, and no factor") {
  const std::vector<Result> recorded = read_csv(tests::top() / "plots/data/nvidia-h200.csv");
  for (const Implementation& lesson : all_implementations()) {
    if (!is_about_speed(lesson)) continue;
    CAPTURE(lesson.slug);
    const std::string page = read_file(tests::top() / "lessons" / lesson.slug / "README.md");
    const std::size_t begin = page.find("**Expect** ");
    REQUIRE(begin < page.find("## The question"));
    const std::string line = page.substr(begin, page.find("\n\n", begin) - begin);
    CHECK_FALSE(
        std::regex_search(line, std::regex("[0-9] ?%|[0-9]/[0-9]|times|twice|tenth|half as")));

    const std::string slug = lesson.slug;
    const auto pair = predecessor_and_lesson(
        all_implementations(), find_implementations(all_implementations(), slug));
    for (const Regime& regime : regimes()) {
      if (std::string_view(regime.name) != lesson.regime) continue;
      for (const Cache cache : regime.caches) {
        const Compared found = compared(recorded, pair[0].slug, slug, regime.name, cache);
        const double factor = *found.before->median_us / *found.lesson->median_us;
        const bool is_none = slug == "05_cub_warp_reduce" || slug == "11_unaligned_rows" ||
                             slug == "15_clusters";  // in bf16; it is about longer rows
        CHECK(is_none == (factor < 1.005));
      }
    }
  }
}

TEST_CASE(
    "a prediction is about bf16 where a lesson was measured in it and the one before knows it") {
  std::vector<Result> results = four_results();
  for (const Cache cache : {Cache::cold, Cache::warm}) {
    for (const char* const dtype : {"bf16", "fp16"}) {
      results.push_back(timed("04_b", dtype == std::string("bf16") ? 2 : 1, 0.1, cache));
      results.back().dtype = dtype;
    }
  }
  CHECK_THAT(
      graded(results), contains("04_b bf16 after 03_a in decode") &&
                           contains("measured 1.58 x: 3.16 us -> 2.00 us") &&
                           contains("measured 1.12 x: 2.24 us -> 2.00 us"));
  // The lesson before says that it does not support bf16.
  results.push_back(timed("03_a", 1, 0.1, Cache::cold));
  results.back().dtype = "bf16";
  results.back().verdict = Verdict::unsupported;
  results.back().median_us.reset();
  CHECK(graded(results) == graded(four_results()));
}
