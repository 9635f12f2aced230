/// \file
/// The named shapes, and what follows from a shape's size.

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/contract/regime.hpp"
#include "common/measure/benchmark.hpp"
#include "common/measure/roofline.hpp"
#include "tests/catch.hpp"
#include "tests/operations.hpp"

using namespace rmsnorm;

TEST_CASE("the regimes have the shapes that the pages speak of") {
  const std::string expected =
      "prefill 262144 x 4096 cold; batch 1024 x 4096 cold warm; decode 16 x 4096 cold warm; "
      "heads 1048576 x 128 cold; wide 4096 x 49152 cold; backward 16384 x 4096 cold; ";
  std::string found;
  for (const Regime& regime : regimes()) {
    found += regime.name;
    for (const Shape& shape : regime.shapes)
      found += fmt::format(" {} x {}", shape.rows, shape.hidden);
    for (const Cache cache : regime.caches) found += fmt::format(" {}", to_string(cache));
    found += "; ";
    CHECK(regime.is_of_one == (regime.name == "backward"));
  }
  CHECK(found == expected);
}

TEST_CASE("a sweep has a name of its own, changes one thing and keeps the other") {
  std::set<std::string> names = {kCustomRegime, "all"};
  for (const auto* list : {&regimes(), &sweeps()}) {
    for (const Regime& regime : *list) CHECK(names.insert(regime.name).second);
  }
  REQUIRE(sweeps().size() == 3);
  const std::vector<Shape>& over_rows = sweeps()[0].shapes;
  for (std::size_t i = 1; i < over_rows.size(); ++i) {
    CHECK(over_rows[i].hidden == 4096);
    CHECK(over_rows[i].rows == 2 * over_rows[i - 1].rows);
  }
  const std::vector<Shape>& over_hidden = sweeps()[1].shapes;
  for (std::size_t i = 1; i < over_hidden.size(); ++i) {
    CHECK(over_hidden[i].hidden > over_hidden[i - 1].hidden);
    const double elements = double(over_hidden[i].rows) * over_hidden[i].hidden;
    CHECK_THAT(elements, Catch::Matchers::WithinRel(double(1 << 26), 1e-3));
  }
}

TEST_CASE("an operation is measured in the regimes that are its own or of most") {
  std::map<std::string, std::string> measured;
  const Regime custom{kCustomRegime, {{1, 1}}, {}};
  for (const Operation* operation : tests::operations()) {
    CHECK(is_measured_in(*operation, custom));
    for (const Regime& regime : regimes()) {
      if (is_measured_in(*operation, regime)) measured[operation->name] += regime.name + " ";
    }
    CHECK(is_measured_in(*operation, sweeps()[0]) == operation->regime.empty());
  }
  CHECK(measured["rms_norm"] == "prefill batch decode heads wide ");
  CHECK(measured["residual_add"] == measured["rms_norm"]);
  CHECK(measured["backward"] == "backward ");
}

TEST_CASE("the small version of a shape has as many columns and rows for a warp") {
  for (const auto& [rows, hidden, expected] :
       {std::tuple(262144, 4096, 32),
        {1024, 128, 1024},
        {1048576, 128, 1024},
        {16, 4096, 16},
        {4096, 49152, 32},
        {0, 4096, 0}}) {
    const Shape small = small_version({rows, hidden});
    CHECK(small.rows == expected);
    CHECK(small.hidden == hidden);
  }
  CHECK(small_version({4096, 49152}, 8).rows == 8);
  CHECK(small_version({262144, 4096}, 8).rows == 32);
}

TEST_CASE(
    "the sets for a cold cache are four times its size and two at least, and a GB/s is a thousand "
    "bytes a microsecond") {
  CHECK(sets_for_cold_cache(1000, 1000) == 4);
  CHECK(sets_for_cold_cache(999, 1000) == 5);
  CHECK(sets_for_cold_cache(4000, 1000) == 2);
  CHECK(sets_for_cold_cache(1'000'000, 1000) == 2);
  CHECK(sets_for_cold_cache(1000, 0) == 2);
  CHECK(sets_for_cold_cache(0, 1000) >= 2);
  CHECK(sets_for_cold_cache(1, 1 << 30) <= 1 << 14);  // more would only take time
  CHECK(gbps(8e9, 2e6) == 4);
}
