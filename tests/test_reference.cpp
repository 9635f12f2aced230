/// \file
/// The fp64 reference against values worked out by hand.

#include <array>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "common/operations/reference.hpp"
#include "common/verify/element_check.hpp"
#include "common/verify/verifier.hpp"
#include "tests/catch.hpp"

using Catch::Matchers::WithinRel;
using rmsnorm::check_element;
using rmsnorm::ElementCheck;
using rmsnorm::reference_row_rstd;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double rstd_of(const std::vector<float>& row, float eps) {
  return reference_row_rstd(row.data(), static_cast<int>(row.size()), eps);
}

}  // namespace

TEST_CASE("the worked 3 x 8 example has the roots that its squares add up to") {
  const std::vector<float> first = {2, -1, 3, 0.5f, -0.5f, 1.5f, -2, 1};   // 21.75 / 8 = 2.71875
  const std::vector<float> second = {4, -3, 2.5f, 1, -1.5f, 0, -0.5f, 2};  // 38.75 / 8 = 4.84375
  const std::vector<float> third = {-1, 3.5f, -2.5f, 1.5f, 0, -3, 2.5f, -0.5f};  // 37.25 / 8
  CHECK_THAT(rstd_of(first, 0), WithinRel(0.6064784348631227, 1e-15));
  CHECK_THAT(rstd_of(second, 0), WithinRel(0.4543694673976518, 1e-15));
  CHECK_THAT(rstd_of(third, 0), WithinRel(0.4634275570907938, 1e-15));
}

TEST_CASE("eps is added to the mean, inside the root") {
  // Mean of squares 4, eps 5: 1 / sqrt(4 + 5). Added to the sum it would be 1 / sqrt(13 / 2), added
  // to the root 1 / 7.
  CHECK_THAT(rstd_of({2, -2}, 5), WithinRel(1.0 / 3, 1e-15));
}

TEST_CASE("a row of zeros gives zeros") {
  const double rstd = rstd_of({0, 0, 0}, 1e-4f);
  CHECK_THAT(rstd, WithinRel(100.0, 1e-6));  // 1e-4f is not quite 1e-4
  const ElementCheck zero = check_element(0, 0, 1.5f, rstd, 1e-7);
  CHECK(zero.ok);
  CHECK(zero.expected == 0);
  CHECK_FALSE(check_element(1e-30f, 0, 1.5f, rstd, 1e-7).ok);
}

TEST_CASE("a row of zeros without eps gives NaN as IEEE 754 says") {
  const double rstd = rstd_of({0, 0}, 0);
  CHECK(std::isinf(rstd));
  CHECK(check_element(kNan, 0, 1, rstd, 1e-7).ok);
  CHECK_FALSE(check_element(0, 0, 1, rstd, 1e-7).ok);
}

TEST_CASE("a sum beyond the range of fp32 makes the row zero") {
  const std::vector<float> row = {FLT_MAX / 4, 1};
  const double rstd = rstd_of(row, 1e-5f);
  CHECK(rstd == 0);
  CHECK(check_element(0, row[0], 1, rstd, 1e-7).ok);
  CHECK_FALSE(check_element(1, row[0], 1, rstd, 1e-7).ok);
  CHECK(rstd_of({1e19f, 0}, 0) > 0);  // 1e38 is still within the range
}

TEST_CASE("one NaN makes its row NaN") {
  const double rstd = rstd_of({1, kNan, 2}, 1e-5f);
  CHECK(std::isnan(rstd));
  CHECK(check_element(kNan, 1, 1, rstd, 1e-7).ok);
  CHECK_FALSE(check_element(0, 1, 1, rstd, 1e-7).ok);
  CHECK_FALSE(check_element(kInf, 1, 1, rstd, 1e-7).ok);
}

TEST_CASE("one Inf makes its row zero and itself NaN") {
  const double rstd = rstd_of({1, -kInf, 2}, 1e-5f);
  CHECK(rstd == 0);
  CHECK(check_element(0, 1, 1, rstd, 1e-7).ok);
  CHECK(check_element(kNan, -kInf, 1, rstd, 1e-7).ok);
  CHECK_FALSE(check_element(0, -kInf, 1, rstd, 1e-7).ok);
}

TEST_CASE("a result beyond the range of fp32 is Inf with the right sign") {
  CHECK(check_element(-kInf, -2, 3e38f, 1, 1e-7).ok);
  CHECK_FALSE(check_element(kInf, -2, 3e38f, 1, 1e-7).ok);
  CHECK_FALSE(check_element(-FLT_MAX, -2, 3e38f, 1, 1e-7).ok);
}

TEST_CASE("a NaN or an Inf is wrong where a number is expected") {
  CHECK_FALSE(check_element(kNan, 1, 1, 1, 1e-7).ok);
  CHECK_FALSE(check_element(kInf, 1, 1, 1, 1e-7).ok);
}

TEST_CASE("subnormal results may be off by their own rounding and no more") {
  const float x = FLT_MIN / 4;  // the results' spacing is 2^-149 there
  CHECK(check_element(x, x, 1, 1, 0).ok);
  CHECK(check_element(x + 0x1p-149f, x, 1, 1, 0).ok);
  CHECK_FALSE(check_element(x + 0x1p-147f, x, 1, 1, 0).ok);
  CHECK(check_element(x + 0x1p-147f, x, 1, 1, 0).error == 0);  // no meaning there
}

TEST_CASE("the error of an element is its distance relative to what was expected") {
  const ElementCheck check = check_element(-1.5f, 2, -0.5f, 1, 0.25);
  CHECK(check.expected == -1);
  CHECK(check.error == 0.5);
  CHECK_THAT(check.allowed, WithinRel(0.25, 1e-12));
  CHECK_FALSE(check.ok);
}

TEST_CASE("the bound is what its derivation adds up to") {
  // To first order, (depth + 4) / 2 + 4 + 2 halves of an ulp.
  CHECK_THAT(rmsnorm::relative_error_bound(0), WithinRel(1.01 * 8 * 0x1p-24, 1e-5));
  CHECK_THAT(rmsnorm::relative_error_bound(100), WithinRel(1.01 * 58 * 0x1p-24, 1e-5));
  // Where the mean can be off by 0.75, its root can be half of what it should be: off by 1.
  CHECK_THAT(rmsnorm::relative_error_bound((3 << 22) - 4), WithinRel(1.01, 1e-5));
}

TEST_CASE("there is no bound where the sum can lose all its digits") {
  CHECK(rmsnorm::relative_error_bound((1 << 24) - 5) < 1e5);
  CHECK(std::isinf(rmsnorm::relative_error_bound((1 << 24) - 4)));
  CHECK(std::isinf(rmsnorm::relative_error_bound(1 << 25)));
}

TEST_CASE("the bound grows with every addition") {
  for (int depth = 0; depth < 70000; ++depth)
    REQUIRE(rmsnorm::relative_error_bound(depth) < rmsnorm::relative_error_bound(depth + 1));
}
