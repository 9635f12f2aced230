/// \file
/// The charts of the lessons' results: who is in colour, what the title says, and that everybody
/// can tell the colours apart.

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.hpp"
#include "common/contract/registry.hpp"
#include "common/programs/prediction.hpp"
#include "plots/charts.hpp"
#include "plots/layout.hpp"
#include "tests/catch.hpp"
#include "tests/memories.hpp"
#include "tests/repository.hpp"

using namespace rmsnorm;
using namespace rmsnorm::plots;
using tests::contains;

namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

constexpr Matrix kNoDeficiency = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
// Complete protanopia and deuteranopia, of linear RGB: Machado, Oliveira and Fernandes (2009).
constexpr Matrix kProtanopia = {
    {{0.152286, 1.052583, -0.204868},
     {0.114503, 0.786281, 0.099216},
     {-0.003882, -0.048116, 1.051998}}};
constexpr Matrix kDeuteranopia = {
    {{0.367322, 0.860646, -0.227968},
     {0.280085, 0.672501, 0.047413},
     {-0.011820, 0.042940, 0.968881}}};
constexpr Matrix kXyzOfRgb = {
    {{0.4124, 0.3576, 0.1805}, {0.2126, 0.7152, 0.0722}, {0.0193, 0.1192, 0.9505}}};

Vector times(const Matrix& m, const Vector& v) {
  Vector product{};
  for (std::size_t i = 0; i < 3; ++i) product[i] = m[i][0] * v[0] + m[i][1] * v[1] + m[i][2] * v[2];
  return product;
}

Vector linear_rgb(const std::string& colour) {
  Vector rgb{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double c = std::stoi(colour.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    rgb[i] = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  }
  return rgb;
}

double contrast(const std::string& a, const std::string& b) {
  const double light = times(kXyzOfRgb, linear_rgb(a))[1] + 0.05;
  const double other = times(kXyzOfRgb, linear_rgb(b))[1] + 0.05;
  return std::max(light, other) / std::min(light, other);
}

/// CIE 1976 L*a*b* of linear RGB, white D65.
Vector lab(Vector rgb) {
  for (double& c : rgb) c = std::clamp(c, 0.0, 1.0);
  const Vector white = times(kXyzOfRgb, {1, 1, 1});
  Vector f = times(kXyzOfRgb, rgb);
  for (std::size_t i = 0; i < 3; ++i) {
    f[i] /= white[i];
    f[i] = f[i] > 216.0 / 24389 ? std::cbrt(f[i]) : (24389.0 / 27 * f[i] + 16) / 116;
  }
  return {116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])};
}

double delta_e(const std::string& a, const std::string& b, const Matrix& eye) {
  const Vector one = lab(times(eye, linear_rgb(a)));
  const Vector other = lab(times(eye, linear_rgb(b)));
  return std::hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
}

Result result_of(
    const std::string& implementation, double us, const std::string& regime = "heads") {
  Result r;
  r.implementation = implementation;
  r.regime = regime;
  r.rows = 1000;
  r.hidden = 128;
  r.bytes = 8 * r.rows * r.hidden;
  r.cache = Cache::cold;
  r.median_us = us;
  r.gbps = static_cast<double>(r.bytes) / us / 1e3;
  r.copy_gbps = static_cast<double>(r.bytes) / 10 / 1e3;  // it takes 10 us
  r.device = "a GPU";
  return r;
}

Chart chart_of(const std::vector<Result>& results) {
  return progression_chart(results, condition_of(results.front()));
}

/// Where the bars of a kind end.
std::vector<double> lengths(const Chart& chart, std::size_t kind) {
  std::vector<double> found;
  for (const auto& [row, value] : chart.data.at(kind).points) found.push_back(std::round(value));
  return found;
}

using Lengths = std::vector<double>;

}  // namespace

TEST_CASE("who sees no red or no green can tell every colour of a chart from every other") {
  for (const Theme* theme : {&kLight, &kDark}) {
    std::vector<std::string> colours = {
        theme->background, theme->text, theme->muted, theme->family};
    colours.insert(colours.end(), theme->accents.begin(), theme->accents.end());
    for (const Matrix* eye : {&kNoDeficiency, &kProtanopia, &kDeuteranopia}) {
      for (std::size_t i = 0; i < colours.size(); ++i) {
        for (std::size_t k = 0; k < i; ++k) {
          INFO(colours[i] << " and " << colours[k]);
          CHECK(delta_e(colours[i], colours[k], *eye) > 10);
        }
      }
    }
    for (const std::string& text :
         {theme->text, theme->muted, theme->accents[0], theme->accents[1], theme->accents[2]}) {
      INFO(text);
      CHECK(contrast(text, theme->background) >= 4.5);
    }
    CHECK(contrast(theme->family, theme->background) >= 3);
  }
}

TEST_CASE("a chart's title is the largest step of the ladder, and its two bars are in colour") {
  const Chart chart = chart_of(
      {result_of("02_naive", 56), result_of("06_float4", 50), result_of("07_multi_row", 10),
       result_of("librmsnorm", 1)});
  CHECK(chart.title == "07_multi_row is 5.00 times as fast as 06_float4 in heads");
  CHECK(lengths(chart, 0) == Lengths{18, 1000});  // grey
  CHECK(lengths(chart, 1).empty());
  CHECK(lengths(chart, 2) == Lengths{20});
  CHECK(lengths(chart, 3) == Lengths{100});
}

TEST_CASE("a lesson that starts from an earlier one is compared with that") {
  CHECK(
      chart_of({result_of("10_half_precision", 12), result_of("11_unaligned_rows", 30),
                result_of("12_launch_overlap", 10)})
          .title == "12_launch_overlap is 1.20 times as fast as 10_half_precision in heads");
}

TEST_CASE("where rows are few, the axis is time") {
  const Chart chart =
      chart_of({result_of("02_naive", 20, "decode"), result_of("03_shared_memory", 16, "decode")});
  CHECK(lengths(chart, 2) == Lengths{20});
  CHECK(lengths(chart, 3) == Lengths{16});
  CHECK_THAT(chart.commands(kLight), contains("'{µs}'") && contains("measured copy, 10.0"));
}

TEST_CASE("the copy's label says which rows were compared with another copy") {
  std::vector<Result> results = {
      result_of("02_naive", 20), result_of("03_shared_memory", 16), result_of("librmsnorm", 15)};
  results[1].copy_gbps = 1.001 * *results[0].copy_gbps;  // the same run
  results[2].copy_gbps = 2 * *results[0].copy_gbps;
  CHECK_THAT(
      chart_of(results).commands(kLight),
      contains("'{measured copy, 102 GB/s; librmsnorm: 205 GB/s}'"));
}

TEST_CASE("what was disturbed has a mark beside its bar or over its point, which is explained") {
  std::vector<Result> results = {result_of("02_naive", 20), result_of("03_shared_memory", 16)};
  CHECK_THAT(chart_of(results).subtitle + chart_of(results).commands(kLight), !contains("†"));
  results[1].disturbed = Disturbance::power;
  const Chart bars = chart_of(results);
  CHECK_THAT(bars.subtitle, contains("; †: the GPU was at the power cap"));
  CHECK_THAT(
      bars.commands(kLight), contains("'{50 %  20.0 µs}'") && contains("'{62 %  16.0 µs †}'"));

  for (Result& r : results) r.regime = kRowsSweep;
  const Chart lines = sweep_chart(results, kOverRows, {}).value();
  CHECK_THAT(lines.subtitle, contains("; †: the GPU was at the power cap"));
  CHECK_THAT(lines.commands(kLight), contains("'{†}'"));
  results[1].disturbed.reset();
  CHECK_THAT(sweep_chart(results, kOverRows, {})->commands(kLight), !contains("†"));
}

TEST_CASE("a lesson's chart shows its variants, and no other lesson's") {
  const std::vector<Result> results = {
      result_of("06_float4", 40), result_of("06_float4/512", 45), result_of("07_multi_row", 80),
      result_of("07_multi_row/one", 15)};
  const Chart chart = lesson_chart(results, {"07_multi_row", "06_float4", "heads"}).value();
  CHECK(chart.title == "07_multi_row takes 2.00 times as long as 06_float4 in heads");
  CHECK(lengths(chart, 0).empty());
  CHECK(lengths(chart, 1) == Lengths{67});  // the variant
  CHECK_THAT(chart.commands(kLight), !contains("float4/512"));
  CHECK_FALSE(lesson_chart(results, {"08_registers", "07_multi_row", "heads"}));
}

TEST_CASE("a lesson about a type has a bar for it") {
  std::vector<Result> results = {
      result_of("09_a", 20), result_of("10_b", 20), result_of("10_b", 10)};
  results[2].dtype = "bf16";
  results[2].bytes /= 2;
  const Chart chart = lesson_chart(results, {"10_b", "09_a", "heads"}).value();
  CHECK(chart.title == "10_b with bf16 is 2.00 times as fast as 09_a in heads");
  CHECK(lengths(chart, 3) == Lengths{10});
  CHECK_THAT(
      chart.commands(kLight), contains("'{10\\_b, bf16}'") &&
                                  contains("'{measured copy, 10.0 µs; 10\\_b, bf16: 5.00 µs}'"));
}

TEST_CASE("a lesson's chart has the types in which its prediction is graded") {
  std::vector<Result> results = {
      result_of("10_a", 30), result_of("11_b", 20), result_of("10_a", 15), result_of("11_b", 12)};
  results[2].dtype = results[3].dtype = "bf16";
  const Rung rung{"11_b", "10_a", "heads"};
  CHECK(lesson_chart(results, rung).value().title == "11_b is 1.25 times as fast as 10_a in heads");
  results[2].verdict = Verdict::unsupported;
  results[2].median_us = results[2].gbps = {};
  CHECK(lesson_chart(results, rung).value().title == "11_b is 1.50 times as fast as 10_a in heads");
}

TEST_CASE("a lesson's chart shows no later lesson, and the library last") {
  const std::vector<Result> results = {
      result_of("06_float4", 40), result_of("librmsnorm", 5), result_of("07_multi_row", 20),
      result_of("08_registers", 16)};
  const Chart chart = lesson_chart(results, {"07_multi_row", "06_float4", "heads"}).value();
  CHECK_THAT(chart.commands(kLight), !contains("registers"));
  CHECK(chart.data.at(0).points == std::vector<std::pair<double, double>>{{2, 200}});
}

TEST_CASE("a lesson about another operation is compared in time where it moves fewer bytes") {
  std::vector<Result> results = {
      result_of("10_a", 20), result_of("11_b", 20), result_of("16_c", 16),
      result_of("librmsnorm", 18), result_of("16_c/given", 15)};
  for (std::size_t i = 2; i < 5; ++i) results[i].operation = i == 4 ? "given" : "in_8_bits";
  for (std::size_t i = 2; i < 5; ++i) results[i].bytes = results[i].bytes * 3 / 4;
  const Chart chart = lesson_chart(results, {"16_c", "10_a", "heads"}).value();
  CHECK(chart.title == "16_c is 1.25 times as fast as 10_a in heads");
  CHECK(lengths(chart, 0) == Lengths{18});  // not 11_b
  CHECK(lengths(chart, 1) == Lengths{15});
  CHECK(lengths(chart, 2) == Lengths{20});
  CHECK(lengths(chart, 3) == Lengths{16});
}

TEST_CASE("every lesson that is timed has a chart on its page, of what its prediction compares") {
  for (const Implementation& lesson : all_implementations()) {
    const std::string slug = lesson.slug;
    if (lesson.memory != Memory::device || is_variant(slug) || slug == "librmsnorm") continue;
    CAPTURE(slug);
    const auto rung = std::find_if(
        std::begin(kRungs), std::end(kRungs), [&](const Rung& one) { return one.lesson == slug; });
    REQUIRE(rung != std::end(kRungs));
    CHECK(rung->regime == std::string(lesson.regime));
    CHECK(
        rung->before ==
        std::string(predecessor_and_lesson(all_implementations(), {lesson})[0].slug));
    const std::string page = read_file(tests::top() / "lessons" / slug / "README.md");
    for (const char* theme : {"", "-dark"}) {
      const std::string chart = "plots/charts/lesson_" + slug + theme + ".svg";
      CHECK_THAT(page, contains("\"../../" + chart + "\""));
      CHECK(std::filesystem::exists(tests::top() / chart));
    }
  }
}

TEST_CASE("a lesson's page shows charts of no later lesson") {
  for (const Sweep& sweep : kSweeps) {
    if (sweep.has_others) continue;
    CAPTURE(sweep.name);
    const std::string number = std::string(sweep.name).substr(7, 2);  // behind "lesson_"
    for (const std::string name : sweep.coloured)
      CHECK((name == "librmsnorm" || name.substr(0, 2) <= number));
  }
  for (const std::filesystem::path& folder : tests::lesson_folders()) {
    CAPTURE(folder.string());
    const std::string page = read_file(folder / "README.md");
    const std::string begin = "plots/charts/";
    for (std::size_t at = page.find(begin); at != page.npos; at = page.find(begin, at + 1)) {
      const std::string chart = page.substr(at + begin.size(), 60);
      CAPTURE(chart);
      CHECK((
          chart.starts_with("lesson_" + folder.filename().string()) || chart.starts_with("error")));
    }
  }
}

TEST_CASE("what was not timed has a word instead of a bar") {
  Result refused = result_of("03_shared_memory", 1);
  refused.verdict = Verdict::unsupported;
  refused.median_us = refused.gbps = {};
  const Chart chart = chart_of({result_of("02_naive", 20), refused});
  CHECK_THAT(chart.commands(kLight), contains("'{unsupported}'"));
  CHECK(chart.title == "heads");
}

TEST_CASE("a sweep's title says where one is most ahead of the other") {
  std::vector<Result> results;
  for (const std::int64_t hidden : {64, 128, 4096}) {
    for (const auto& [name, us] :
         {std::pair("06_float4", hidden == 64 ? 30.0 : 20.0), std::pair("07_multi_row", 12.0),
          std::pair("08_registers", 11.0)}) {
      results.push_back(result_of(name, us, "sweep_hidden"));
      results.back().hidden = hidden;
    }
  }
  const Chart chart = sweep_chart(results, kOverHidden, {}).value();
  CHECK(chart.title == "07_multi_row is up to 2.50 times as fast as 06_float4: at 64 columns");
  REQUIRE(chart.data.size() == 4);  // grey, the copy, and the two in colour
  CHECK(chart.data[1].points.front().second == 100);
  CHECK(std::round(chart.data[2].points.front().second) == 33);
  CHECK_FALSE(sweep_chart(results, kOverRows, {}));
}

TEST_CASE("a sweep for a lesson's page shows what it compares, and nothing else") {
  std::vector<Result> results;
  for (const char* name : {"02_a", "02_a/one", "03_b", "03_b/two"})
    results.push_back(result_of(name, 20, "sweep_hidden"));
  const Sweep sweep =
      of_lesson(kOverHidden, "lesson_02_a_hidden", "02_a/one", "02_a", "librmsnorm");
  CHECK(sweep_chart(results, sweep, {}).value().data.size() == 3);  // with the copy
  CHECK(sweep_chart(results, kOverHidden, {}).value().data.size() == 5);
}

TEST_CASE("errors of all kernels of the GPU share a band") {
  std::vector<Result> results;
  for (const auto& [name, error] :
       {std::pair("01_cpu", 6e-6), std::pair("02_a", 2e-7), std::pair("03_b", 3e-7)}) {
    results.push_back(result_of(name, 1, "sweep_hidden"));
    results.back().max_error = error;
    results.back().error_bound = 1e-5;
  }
  results[0].cache = {};
  const Chart chart = error_chart(results, kOverHidden).value();
  CHECK(chart.title == "At 128 columns, 01_cpu is 20 times as far off as the GPU's kernels");
  using Points = std::vector<std::pair<double, double>>;
  CHECK(chart.data.at(0).points == Points{{128, 2e-7}, {128, 3e-7}});  // the band
  CHECK(chart.data.at(1).points == Points{{128, 1e-5}});
  CHECK(chart.data.at(2).points == Points{{128, 6e-6}});
  results[0].max_error = {};
  CHECK_FALSE(error_chart(results, kOverHidden));
}

TEST_CASE("the chart of latencies names the levels that it finds") {
  const Chart chart = latency_chart(tests::memories());
  CHECK(chart.title == "A load takes 40 cycles from L1, 200 from L2, and 600 from DRAM");
  REQUIRE(chart.data.size() == 4);  // all sets, in grey, and a line for each level
  CHECK(chart.data[0].points.size() == 14);
  using Points = std::vector<std::pair<double, double>>;
  CHECK(chart.data[2].points == Points{{32768, 200}, {65536, 200}, {131072, 202}, {262144, 200}});
  CHECK_THAT(chart.commands(kLight), contains("'{L2, 100 ns (to 256k)}'"));
}

TEST_CASE("the chart of bytes in flight shows the best bandwidth and what the law allows") {
  const Chart chart = in_flight_chart(tests::memories());
  // An SM reads 40 bytes in a nanosecond, and one load takes 300 ns.
  CHECK(
      chart.title ==
      "32 KiB in flight on each SM suffice for 95 % of DRAM's bandwidth; Little's law asks for 12 "
      "KiB at least");
  REQUIRE(chart.data.size() == 4);
  const auto& [law, dram] = std::pair(chart.data[2].points, chart.data[3].points);
  CHECK_THAT(law.back().first, Catch::Matchers::WithinRel(12000.0));
  CHECK_THAT(law.back().second, Catch::Matchers::WithinRel(5.28));
  REQUIRE(dram.size() == 3);
  CHECK(dram[1].first == 32768);
  CHECK_THAT(dram[1].second, Catch::Matchers::WithinRel(0.132 * 39));
  auto other = tests::memories();
  for (MachineRow& row : other) row.device = "another GPU";
  CHECK_THROWS_WITH(in_flight_chart(other), contains("how many SMs"));
}

TEST_CASE("a long title has lines that fit the canvas") {
  const auto lines = wrapped("one two three four", 10, 60);  // 6.2 points a letter
  CHECK(lines == std::vector<std::string>{"one two", "three", "four"});
}
