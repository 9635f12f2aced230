/// \file
/// The random tensors, and the guards around them.

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "common/tensors/random.hpp"
#include "common/tensors/workload.hpp"
#include "common/verify/element_check.hpp"
#include "tests/bits.hpp"
#include "tests/catch.hpp"

using namespace rmsnorm;
using tests::same_bits;

namespace {

std::vector<float> x_of(const Problem& p) {
  return {p.x, p.x + p.rows * p.hidden};
}

std::vector<float> weight_of(const Problem& p) {
  return {p.weight, p.weight + p.hidden};
}

WorkloadSpec spec_with(std::uint64_t seed) {
  return {.memory = Memory::host, .rows = 300, .hidden = 77, .seed = seed};
}

}  // namespace

TEST_CASE("the random bits are those of SplitMix64") {
  CHECK(random_bits(0, 0) == 0xe220a8397b1dcdaf);
  CHECK(random_bits(0, 1) == 0x6e789e6aa1b965f4);
  CHECK(random_bits(0, 2) == 0x06c45d188009454f);
}

TEST_CASE("random floats fill their range evenly") {
  double sum = 0;
  float least = 1;
  float most = -1;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const float value = random_float(1, i);
    REQUIRE(value >= -1);
    REQUIRE(value < 1);
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  CHECK(std::abs(sum / 100000) < 0.01);
  CHECK(least < -0.999f);
  CHECK(most > 0.999f);
}

TEST_CASE("the same seed gives the same tensors and another seed gives others") {
  const Workload once(spec_with(7));
  const Workload again(spec_with(7));
  const Workload other(spec_with(8));
  CHECK(same_bits(x_of(once.problem()), x_of(again.problem())));
  CHECK(same_bits(weight_of(once.problem()), weight_of(again.problem())));
  CHECK_FALSE(same_bits(x_of(once.problem()), x_of(other.problem())));
  CHECK_FALSE(same_bits(weight_of(once.problem()), weight_of(other.problem())));
}

TEST_CASE("every set has tensors of its own") {
  WorkloadSpec spec = spec_with(7);
  spec.sets = 3;
  const Workload workload(spec);
  CHECK(same_bits(x_of(workload.problem(0)), x_of(Workload(spec_with(7)).problem())));
  CHECK_FALSE(same_bits(x_of(workload.problem(0)), x_of(workload.problem(1))));
  CHECK_FALSE(same_bits(x_of(workload.problem(1)), x_of(workload.problem(2))));
  CHECK_FALSE(same_bits(weight_of(workload.problem(0)), weight_of(workload.problem(1))));
  CHECK(workload.problem(1).y >= workload.problem(0).y + 300 * 77 + Workload::kGuard);
}

TEST_CASE("no weight is 1 or 0 or beyond 1.5 and both signs are there") {
  int negative = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (std::uint64_t col = 0; col < 65536; ++col) {
      const float weight = random_weight(seed, col);
      REQUIRE(std::abs(weight) >= 0.5f);
      REQUIRE(std::abs(weight) <= 1.5f);
      REQUIRE(std::abs(weight) != 1);
      negative += weight < 0 ? 1 : 0;
    }
  }
  CHECK(negative > 3 * 65536 * 0.49);
  CHECK(negative < 3 * 65536 * 0.51);
}

TEST_CASE("rows differ in scale and neighbours mostly do") {
  constexpr int kHidden = 256;
  std::set<int> exponents;
  int unlike_the_next = 0;
  int last = 100;
  for (int row = 0; row < 256; ++row) {
    float largest = 0;
    for (int col = 0; col < kHidden; ++col)
      largest = std::max(largest, std::abs(random_x(1, row, col, kHidden)));
    const int exponent = std::ilogb(largest) + 1;  // of the first power of two above
    exponents.insert(exponent);
    unlike_the_next += exponent != last ? 1 : 0;
    last = exponent;
  }
  CHECK(exponents == std::set<int>{-4, -3, -2, -1, 0, 1, 2, 3});
  CHECK(unlike_the_next > 200);
}

TEST_CASE("each tensor starts where it was asked to") {
  for (const int misalign : {0, 1, 2, 3}) {
    WorkloadSpec spec = spec_with(1);
    spec.sets = 2;
    spec.misalign = misalign;
    const Workload workload(spec);
    for (const int set : {0, 1}) {
      const Problem p = workload.problem(set);
      for (const float* tensor : {p.x, p.weight, static_cast<const float*>(p.y)})
        CHECK(reinterpret_cast<std::uintptr_t>(tensor) % 256 == misalign * sizeof(float));
    }
  }
}

TEST_CASE("NaN lies before and after x and the weight") {
  WorkloadSpec spec = spec_with(1);
  spec.sets = 2;
  spec.misalign = 2;
  const Workload workload(spec);
  for (const int set : {0, 1}) {
    const Problem p = workload.problem(set);
    for (std::size_t i = 1; i <= Workload::kGuard; ++i) {
      REQUIRE(std::isnan(*(p.x - i)));
      REQUIRE(std::isnan(p.x[p.rows * p.hidden + i - 1]));
      REQUIRE(std::isnan(*(p.weight - i)));
      REQUIRE(std::isnan(p.weight[p.hidden + i - 1]));
    }
  }
}

TEST_CASE("y and its guards hold poison until somebody writes") {
  const Workload workload(spec_with(1));
  const Problem p = workload.problem();
  CHECK(workload.y_guard(0) == p.y - Workload::kGuard);
  CHECK(workload.y_guard(1) == p.y + p.rows * p.hidden);
  const float* begin = p.y - Workload::kGuard;
  const float* end = p.y + p.rows * p.hidden + Workload::kGuard;
  CHECK(std::all_of(begin, end, is_poison));

  p.y[-1] = p.y[5] = p.y[p.rows * p.hidden] = 1;
  CHECK_FALSE(std::all_of(begin, end, is_poison));
  workload.poison_y();
  CHECK(std::all_of(begin, end, is_poison));
}

TEST_CASE("x and the weight can be replaced") {
  const Workload workload({.memory = Memory::host, .rows = 2, .hidden = 2});
  workload.set_x({1, 2, 3, 4});
  workload.set_weight({5, 6});
  CHECK(x_of(workload.problem()) == std::vector<float>{1, 2, 3, 4});
  CHECK(weight_of(workload.problem()) == std::vector<float>{5, 6});
  CHECK(std::isnan(workload.problem().x[4]));
}

TEST_CASE("the bytes of a workload cover the tensors and their guards and little else") {
  const std::size_t tensors = (2 * 1000 * 1000 + 1000) * sizeof(float);
  CHECK(
      Workload::bytes({.rows = 1000, .hidden = 1000}) >
      tensors + 6 * Workload::kGuard * sizeof(float));
  CHECK(Workload::bytes({.rows = 1000, .hidden = 1000}) < tensors * 1.02);
  CHECK(Workload::bytes({.rows = 1000, .hidden = 1000, .sets = 3}) > 3 * tensors);
  CHECK(
      Workload::bytes({.rows = 4194305, .hidden = 513}) >
      std::size_t{2} * 4194305 * 513 * sizeof(float));
}
