/// \file
/// Types of tensors: their names, who knows them, and what the verifier asks of 16 bits.

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "common/contract/expected.hpp"
#include "common/operations/rms_norm.hpp"
#include "tests/catch.hpp"
#include "tests/operations.hpp"

using namespace rmsnorm;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Compares an element with a value that fp32 arithmetic may be off by so much of.
ElementCheck check(float got, double value, double bound, Dtype dtype) {
  return check_element(got, rms_norm_element(value, 1, 1, bound), dtype);
}

}  // namespace

TEST_CASE("the names of types are those that the command line takes and each is another") {
  std::set<std::string> names;
  for (const Types& types : all_types()) {
    const std::string name = to_string(types);
    CHECK(types_named(name) == types);
    names.insert(name);
  }
  CHECK(
      names ==
      std::set<std::string>{
          "fp32", "fp32/none", "fp16", "fp16/fp32", "fp16/none", "bf16", "bf16/fp32", "bf16/none"});
  for (const char* const name : {"", "fp64", "bf16/fp16", "fp32/fp32", "BF16", "bf16/"}) {
    CHECK_FALSE(types_named(name).has_value());
  }
}

TEST_CASE("who knows fp32 alone supports nothing else and says so in one sentence") {
  for (Types types : all_types()) {
    for (const float bias : {0.0f, 1.0f}) {
      if (!types.weight && bias != 0) continue;
      types.weight_bias = bias;
      CAPTURE(to_string(types), bias);
      const Problem p = tests::problem_of(3, 5, types);
      CHECK(types_of(p) == types);
      const std::string reason = unsupported_types("07_typed/variant", p);
      CHECK(reason.empty() == (types == Types{}));
      if (!reason.empty()) CHECK(reason.starts_with("07_typed as 'variant' knows fp32 alone: "));
    }
  }
}

TEST_CASE("an element of 16 bits may only be one of the two values around it") {
  for (const Dtype dtype : {Dtype::fp16, Dtype::bf16}) {
    const float step = dtype == Dtype::fp16 ? 0x1p-10f : 0x1p-7f;  // of the numbers from 1 to 2
    const auto accepts = [&](float got, double expected) {
      return check(got, expected, 1e-6, dtype).ok;
    };
    const float above = 1 + step;
    CAPTURE(to_string(dtype));
    CHECK((accepts(1, 1) && !accepts(above, 1) && !accepts(1 - step / 2, 1)));
    CHECK((accepts(1, 1 + 0.49 * step) && !accepts(above, 1 + 0.49 * step)));
    CHECK((!accepts(1, 1 + 0.51 * step) && accepts(above, 1 + 0.51 * step)));
    // On either side of the middle, by what fp32 arithmetic can be off.
    CHECK((accepts(1, 1 + 0.5 * step) && accepts(above, 1 + 0.5 * step)));
    CHECK((accepts(-1, -1 - 0.5 * step) && accepts(-above, -1 - 0.5 * step)));
    CHECK_FALSE(accepts(NAN, 1));
    CHECK_FALSE(accepts(kInf, 1));
    CHECK(accepts(NAN, NAN));
    CHECK_FALSE(accepts(value_of(dtype, poison_bits(dtype)), NAN));
  }
}

TEST_CASE("beyond the largest fp16 a result is Inf where rounding says so") {
  const auto accepts = [](float got, double expected) {
    return check(got, expected, 1e-7, Dtype::fp16).ok;
  };
  CHECK((accepts(65504, 65519) && !accepts(kInf, 65519)));
  CHECK((!accepts(65504, 65521) && accepts(kInf, 65521) && !accepts(-kInf, 65521)));
  CHECK((accepts(65504, 65520) && accepts(kInf, 65520)));
  CHECK((accepts(-kInf, -1e30) && !accepts(-65504, -1e30)));
  CHECK(check(kInf, 1e30, 1e-7, Dtype::fp16).error == 0);  // no meaning there
}

TEST_CASE("subnormal results of fp16 are held to the values around them") {
  const auto accepts = [](float got, double expected) {
    return check(got, expected, 1e-7, Dtype::fp16).ok;
  };
  constexpr float kStep = 0x1p-24f;
  CHECK((accepts(3 * kStep, 3.4 * kStep) && !accepts(4 * kStep, 3.4 * kStep)));
  CHECK((accepts(0, 0.4 * kStep) && !accepts(kStep, 0.4 * kStep)));
  CHECK((accepts(0, 1e-30) && !accepts(kStep, 1e-30)));
  CHECK(check(3 * kStep, 3.4 * kStep, 1e-7, Dtype::fp16).error == 0);
}
