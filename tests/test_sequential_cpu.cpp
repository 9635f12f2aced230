/// \file
/// Lesson 01, the only one that needs no GPU, and what the bound makes of its rounding errors.

#include <vector>

#include "common/contract/registry.hpp"
#include "common/verify/verifier.hpp"
#include "tests/catch.hpp"

using namespace rmsnorm;

namespace {

Implementation lesson_01() {
  return find_implementations(all_implementations(), "01").at(0);
}

}  // namespace

TEST_CASE("lesson 01 solves the worked 3 x 8 example") {
  const Workload workload(
      *lesson_01().operation, {.memory = Memory::host, .rows = 3, .hidden = 8, .eps = 0});
  workload.set("x", {2,  -1,   3,     0.5f, -0.5f, 1.5f, -2,    1,        // row 0
                     4,  -3,   2.5f,  1,    -1.5f, 0,    -0.5f, 2,        // row 1
                     -1, 3.5f, -2.5f, 1.5f, 0,     -3,   2.5f,  -0.5f});  // row 2
  workload.set("weight", std::vector<float>(8, 1.0f));
  REQUIRE(verify(lesson_01(), workload).complaint == "");

  const std::vector<double> expected = {1.2129569, -0.6064784, 1.8194353,  0.3032392,  -0.3032392,
                                        0.9097177, -1.2129569, 0.6064784,  1.8174779,  -1.3631084,
                                        1.1359237, 0.4543695,  -0.6815542, 0,          -0.2271847,
                                        0.9087389, -0.4634276, 1.6219964,  -1.1585689, 0.6951413,
                                        0,         -1.3902827, 1.1585689,  -0.2317138};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK_THAT(workload.tensor("y").values()[i], Catch::Matchers::WithinAbs(expected[i], 2e-7));
  }
}

TEST_CASE("lesson 01's error stays below its bound, grows with the row, and is the seed's") {
  const auto error_of = [](int hidden, std::uint64_t seed) {
    const Workload workload(
        *lesson_01().operation,
        {.memory = Memory::host, .rows = 16, .hidden = hidden, .seed = seed});
    const Verification found = verify(lesson_01(), workload);
    CHECK(found.complaint == "");
    CHECK(found.max_error.value() <= found.error_bound);
    return found.max_error.value();
  };
  CHECK(error_of(65536, 5) > 4 * error_of(64, 5));
  CHECK(error_of(4096, 5) == error_of(4096, 5));
  CHECK(error_of(4096, 6) != error_of(4096, 5));
}
