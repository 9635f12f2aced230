/// \file
/// The named shapes, and what follows from a shape's size.

#include <set>
#include <string>
#include <vector>

#include "common/contract/regime.hpp"
#include "common/measure/benchmark.hpp"
#include "common/measure/roofline.hpp"
#include "tests/catch.hpp"

using namespace rmsnorm;

TEST_CASE("the regimes have the shapes that the pages speak of") {
  struct Expected {
    std::string name;
    int rows, hidden;
    std::vector<Cache> caches;
  };
  const std::vector<Cache> cold = {Cache::cold};
  const std::vector<Cache> both = {Cache::cold, Cache::warm};
  const std::vector<Expected> expected = {
      {"prefill", 262144, 4096, cold}, {"batch", 1024, 4096, both}, {"decode", 16, 4096, both},
      {"heads", 1048576, 128, cold},   {"wide", 4096, 49152, cold}, {"backward", 16384, 4096, cold},
  };
  REQUIRE(regimes().size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(expected[i].name);
    CHECK(regimes()[i].name == expected[i].name);
    REQUIRE(regimes()[i].shapes.size() == 1);
    CHECK(regimes()[i].shapes[0].rows == expected[i].rows);
    CHECK(regimes()[i].shapes[0].hidden == expected[i].hidden);
    CHECK(regimes()[i].caches == expected[i].caches);
    CHECK(regimes()[i].is_backward == (expected[i].name == "backward"));
  }
}

TEST_CASE("every regime and sweep has a name of its own") {
  std::set<std::string> names = {kCustomRegime, "all"};
  for (const auto* list : {&regimes(), &sweeps()}) {
    for (const Regime& regime : *list) CHECK(names.insert(regime.name).second);
  }
}

TEST_CASE("a sweep changes one thing and keeps the other") {
  REQUIRE(sweeps().size() == 3);
  const std::vector<Shape>& over_rows = sweeps()[0].shapes;
  REQUIRE(over_rows.size() > 2);
  for (std::size_t i = 1; i < over_rows.size(); ++i) {
    CHECK(over_rows[i].hidden == 4096);
    CHECK(over_rows[i].rows == 2 * over_rows[i - 1].rows);
  }
  const std::vector<Shape>& over_hidden = sweeps()[1].shapes;
  REQUIRE(over_hidden.size() > 2);
  for (std::size_t i = 1; i < over_hidden.size(); ++i) {
    CHECK(over_hidden[i].hidden > over_hidden[i - 1].hidden);
    const double elements = double(over_hidden[i].rows) * over_hidden[i].hidden;
    CHECK_THAT(elements, Catch::Matchers::WithinRel(double(1 << 26), 1e-3));
  }
}

TEST_CASE("x and y take eight bytes an element beyond 32 bits too") {
  CHECK(bytes_of_rows({3, 5}) == 120);
  CHECK(bytes_of_rows({262144, 4096}) == 8'589'934'592);
}

TEST_CASE("rows are halved until x and y fit and no further") {
  CHECK(halve_rows_to_fit({1024, 4096}, 1024 * 4096 * 8).rows == 1024);
  CHECK(halve_rows_to_fit({1024, 4096}, 1024 * 4096 * 8 - 1).rows == 512);
  CHECK(halve_rows_to_fit({1024, 4096}, 300 * 4096 * 8).rows == 256);
  CHECK(halve_rows_to_fit({1024, 4096}, 1024 * 4096 * 16, 4).rows == 1024);
  CHECK(halve_rows_to_fit({1024, 4096}, 1024 * 4096 * 16 - 1, 4).rows == 512);
  CHECK(halve_rows_to_fit({1024, 4096}, 0).rows == 1);
  CHECK(halve_rows_to_fit({0, 4096}, 0).rows == 0);
  CHECK(halve_rows_to_fit({1024, 4096}, 0).hidden == 4096);
}

TEST_CASE("the sets for a cold cache are four times its size and at least one") {
  CHECK(sets_for_cold_cache(1000, 1000) == 4);
  CHECK(sets_for_cold_cache(999, 1000) == 5);
  CHECK(sets_for_cold_cache(4000, 1000) == 1);
  CHECK(sets_for_cold_cache(1'000'000, 1000) == 1);
  CHECK(sets_for_cold_cache(1000, 0) == 1);
  CHECK(sets_for_cold_cache(0, 1000) >= 1);
  CHECK(sets_for_cold_cache(1, 1 << 30) <= 1 << 14);  // more would only take time
}

TEST_CASE("a gigabyte a second is a thousand bytes a microsecond") {
  CHECK(gbps(8e9, 2e6) == 4);
}
