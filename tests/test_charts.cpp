/// \file
/// The charts of the lessons' results, as far as the recorded ones do not show it (charts.sh): what
/// was not timed or was disturbed, and that everybody can tell the colours apart.

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/files.hpp"
#include "common/contract/registry.hpp"
#include "common/programs/prediction.hpp"
#include "plots/charts.hpp"
#include "tests/catch.hpp"
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
  r.roof_gbps = static_cast<double>(r.bytes) / 10 / 1e3;  // it takes 10 us
  r.device = "a GPU";
  return r;
}

Chart chart_of(const std::vector<Result>& results) {
  return progression_chart(results, condition_of(results.front()));
}

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

TEST_CASE("the ladder compares a lesson and what it starts from in the types of its prediction") {
  const auto counted = [](const char* lesson, const char* dtype, std::int64_t sectors) {
    TraceRow row{"rms_norm", lesson, "prefill", dtype, 2, 4096, "", 1, {}, "", ""};
    row.count.kind = "global load";
    row.count.sectors = sectors;
    return row;
  };
  const std::vector<TraceRow> trace = {
      counted("08_registers", "fp32", 20), counted("09_cache_policy", "fp32", 20),
      counted("10_half_precision", "fp32", 20), counted("10_half_precision", "bf16", 10)};
  const Chart ladder = ladder_chart(trace).value();
  CHECK_THAT(ladder.title, contains("1 of 2 steps cut") && contains("no count changes in 09"));
  CHECK_THAT(ladder.commands(kLight), contains("'{sectors 10 → 5}'"));
  CHECK_FALSE(ladder_chart({}));
}

TEST_CASE("what was not timed has a word instead of a bar") {
  Result refused = result_of("03_shared_memory", 1);
  refused.verdict = Verdict::unsupported;
  refused.median_us = refused.gbps = {};
  const Chart chart = chart_of({result_of("02_naive", 20), refused});
  CHECK_THAT(chart.commands(kLight), contains("'{unsupported}'"));
  CHECK(chart.title == "heads");
}

TEST_CASE("a chart for which nothing was timed is left out") {
  const std::vector<Result> results = {result_of("06_float4", 40), result_of("07_multi_row", 80)};
  CHECK(lesson_chart(results, {"07_multi_row", "06_float4", "heads"}));
  CHECK_FALSE(lesson_chart(results, {"08_registers", "07_multi_row", "heads"}));
  CHECK_FALSE(sweep_chart(results, kOverRows, {}));
  CHECK_FALSE(error_chart(results, kOverHidden));
}
