/// \file
/// RMSNorm to 8 bits: what is right by the definition, at its edges, and how little else is.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/fp8.hpp"
#include "common/operations/rms_norm_fp8.hpp"
#include "common/tensors/workload.hpp"
#include "tests/catch.hpp"

using namespace rmsnorm;

namespace {

constexpr float kInf = INFINITY;

using Codes = std::vector<int>;
const Codes kZeros = {0x00, 0x80};

/// Those that are right for an element.
Codes right_codes(const Expected& expected, Dtype dtype) {
  Codes right;
  for (int code = 0; code < 0x100; ++code) {
    const float got = value_of(dtype, static_cast<std::uint32_t>(code));
    if (check_element(got, expected, dtype).ok) right.push_back(code);
  }
  return right;
}

/// A row in fp32 that is to be normed, without a mistake of its sum.
template <class Op>
struct Row {
  using Of = Description<Op>;
  std::vector<float> x;
  std::vector<float> weight;
  float limit_or_scale;
  float eps = 0;
  typename Op::Scale scale = 0;  ///< that is stored; of all groups

  Problem problem() {
    Problem p;
    p.rows = 1;
    p.hidden = static_cast<int>(x.size());
    p.eps = eps;
    p.tensors[Of::kX] = x.data();
    p.tensors[Of::kWeight] = weight.data();
    p.tensors[Of::kLimitOrScale] = &limit_or_scale;
    p.tensors[Of::kScale] = &scale;
    return p;
  }
  typename Of::OfRow::Sum sum() {
    typename Of::OfRow::Sum sum;
    for (std::size_t col = 0; col < x.size(); ++col) {
      Of::OfRow::add(sum, Of::OfRow::term(problem(), 0, static_cast<std::int64_t>(col)));
    }
    return sum;
  }
  /// The scale that the kernel is to choose, if its arithmetic is exact.
  double chosen() { return Of::OfScale::expected(problem(), sum(), 0, 0, 0).value; }
  /// The codes that are right for a column.
  Codes codes(int col, double bound = 0) {
    return right_codes(Of::OfY::expected(problem(), sum(), 0, col, bound), Op::kType);
  }
};

/// The exponent of the smallest power of two that is not less than a number, with its bias.
std::uint8_t exponent_for(double number) {
  int exponent = 0;
  while (exponent < 254 && std::ldexp(1, exponent - 127) < number) ++exponent;
  return static_cast<std::uint8_t>(exponent);
}

/// The problem's solution in fp64, but for what is rounded by the definition.
template <class Op>
void solve(const Workload& workload) {
  using Of = Description<Op>;
  const Problem p = workload.problem();
  const int width = Op::kScaling == Scaling::group   ? 128
                    : Op::kScaling == Scaling::block ? 32
                                                     : p.hidden;
  const int scales = (p.hidden + width - 1) / width;
  const auto number = [&](std::int64_t i) -> float {
    const float x = p.like_x(Of::kX, i);
    return Op::kNormed == Normed::sum ? x + p.like_x(Of::kResidual, i) : x;
  };
  const float largest_code = Op::kType == Dtype::e4m3 ? 448 : 57344;
  for (int row = 0; row < p.rows; ++row) {
    double squares = 0;
    const std::int64_t first = std::int64_t{row} * p.hidden;
    for (int col = 0; col < p.hidden; ++col) squares += std::pow(number(first + col), 2);
    std::vector<float> norms;
    for (int col = 0; col < p.hidden; ++col) {
      const double root = std::sqrt(squares / p.hidden + p.eps);
      const auto norm = static_cast<float>(number(first + col) / root * p.factor(Of::kWeight, col));
      norms.push_back(Op::kRounding == Rounding::twice ? rounded(p.dtype, norm) : norm);
    }
    float scale = p.fp32(Of::kLimitOrScale, 0);
    const float limit = scale;
    for (int col = 0; col < p.hidden; ++col) {
      if (Op::kScaling != Scaling::given && col % width == 0) {
        float largest = 0;
        for (int i = col; i < std::min(col + width, p.hidden); ++i) {
          largest = std::max(largest, std::abs(norms[i]));
        }
        scale = std::max(std::min(largest, limit) / largest_code, least_scale(Op::kType));
        auto& stored = p.as<typename Op::Scale>(Of::kScale)[row * scales + col / width];
        if constexpr (Op::kScaling == Scaling::block) {
          stored = exponent_for(std::min(largest, limit) / largest_code);
          scale = static_cast<float>(std::ldexp(1, stored - 127));
        } else {
          stored = scale;
        }
      }
      const double quotient = norms[col] / scale;
      p.as<std::uint8_t>(Of::kY)[first + col] =
          to_fp8(fp8_of(Op::kType), quotient, Overflow::saturates);
      if (Op::kNormed != Normed::sum) continue;
      const std::uint32_t sum = bits_of(p.dtype, number(first + col));
      set_bits(p.tensors[Of::kResidual], p.dtype, first + col, sum);
    }
  }
}

}  // namespace

#define ALL_OF_8_BITS                                                                            \
  RmsNormE4m3, RmsNormE4m3Twice, RmsNormE4m3Row, RmsNormE4m3RowTwice, RmsNormE4m3Group,          \
      RmsNormE4m3GroupTwice, RmsNormE5m2, RmsNormE5m2Twice, RmsNormE5m2Row, RmsNormE5m2RowTwice, \
      RmsNormE5m2Group, RmsNormE5m2GroupTwice
#define SUMS_OF_8_BITS                                                                \
  ResidualAddE4m3, ResidualAddE4m3Twice, ResidualAddE4m3Row, ResidualAddE4m3RowTwice, \
      ResidualAddE4m3Group, ResidualAddE4m3GroupTwice

TEMPLATE_TEST_CASE(
    "8 bits by the definition are right, and others not", "", ALL_OF_8_BITS, RmsNormMxfp8,
    SUMS_OF_8_BITS) {
  using Of = Description<TestType>;
  const Operation& operation = operation_of<TestType>();
  for (const char* const types : {"fp32", "bf16", "fp16/fp32", "bf16/none"}) {
    for (const int any : {1, 127, 128, 129, 300}) {
      const int multiple = operation.hidden_multiple;
      const int hidden = (any + multiple - 1) / multiple * multiple;
      WorkloadSpec spec{.memory = Memory::host, .rows = 6, .hidden = hidden};
      spec.types = *types_named(types);
      const Workload workload(operation, spec);
      solve<TestType>(workload);
      const Problem p = workload.problem();
      const auto complaint = [&] {
        const Comparison found = operation.compare_on_host(workload.before(), p, {hidden});
        return found.mismatch ? std::string(found.mismatch->tensor) : "";
      };
      CAPTURE(operation.name, types, hidden);
      CHECK(complaint() == "");
      auto* const y = p.as<std::uint8_t>(Of::kY);
      const int last = 6 * hidden - 1;
      for (const int change : {0x80, 0x10, 0x40}) {  // the sign and two bits of the exponent
        const std::uint8_t code = y[last];
        if ((code & 0x7f) == 0) continue;  // any sign is right
        y[last] ^= static_cast<std::uint8_t>(change);
        CHECK(complaint() == "y");
        y[last] = code;
      }
      if (TestType::kNormed == Normed::sum) {
        void* const residual = p.tensors[Of::kResidual];
        const std::uint32_t sum = bits_at(residual, p.dtype, last);
        set_bits(residual, p.dtype, last, sum ^ 1);
        CHECK(complaint() == "residual");
        set_bits(residual, p.dtype, last, sum);
      }
      if (TestType::kScaling == Scaling::given) continue;
      const std::size_t scales = workload.tensor("scale").size();
      auto& scale = p.template as<typename TestType::Scale>(Of::kScale)[scales - 1];
      const auto right = scale;
      for (const bool is_more : {true, false}) {
        if constexpr (TestType::kScaling == Scaling::block) {
          scale = static_cast<std::uint8_t>(is_more ? right + 1 : right - 1);
        } else {
          scale = right * (is_more ? 1.001f : 0.999f);
        }
        CHECK(complaint() == "scale");
      }
    }
  }
}

TEMPLATE_TEST_CASE(
    "few elements may be one of two codes, and these are neighbours", "", ALL_OF_8_BITS) {
  Row<TestType> row{{}, {}, 1, 1e-5f, 0.01f};
  for (int col = 0; col < 2000; ++col) {
    row.x.push_back(static_cast<float>(std::sin(col)));
    row.weight.push_back(1 + static_cast<float>(std::cos(col)) / 2);
  }
  if (TestType::kScaling == Scaling::given) row.limit_or_scale = 0.01f;
  std::vector<float> scales(16, 0.01f);
  Problem p = row.problem();
  p.tensors[Description<TestType>::kScale] = scales.data();
  const auto sum = row.sum();
  int twofold = 0;
  for (int col = 0; col < 2000; ++col) {
    const double bound = rms_norm_bound(64, {});
    const Codes right =
        right_codes(Description<TestType>::OfY::expected(p, sum, 0, col, bound), TestType::kType);
    CAPTURE(col, right);
    const bool is_zero = right.front() == 0;
    REQUIRE(right.size() <= (is_zero ? 3u : 2u));
    if (right.size() == 2 && !is_zero) {
      CHECK(right[1] == right[0] + 1);
      ++twofold;
    }
  }
  CHECK(twofold < 4);
}

TEST_CASE("a byte that is not written is noticed, and so is one behind a tensor of odd size") {
  const auto check = [](const Operation& operation) {
    WorkloadSpec spec{.memory = Memory::host, .rows = 3, .hidden = 7, .misalign = 1};
    const Workload workload(operation, spec);
    workload.reset();
    const Problem p = workload.problem();
    auto* const y = p.as<std::uint8_t>(operation.index_of("y"));
    const Comparison found = operation.compare_on_host(workload.before(), p, {7});
    REQUIRE(found.mismatch.has_value());
    CHECK(is_poison(found.mismatch->got));
    const std::uint64_t results = workload.hash_of_results();
    const std::uint64_t others = workload.hash_of_untouchables();
    y[20] = 0;
    CHECK(workload.hash_of_results() != results);
    CHECK(workload.hash_of_untouchables() == others);
    CHECK(workload.complaint_about_guards() == "");
    y[21] = 0;
    CHECK(workload.hash_of_untouchables() != others);
    CHECK(
        workload.complaint_about_guards() ==
        "wrote 1 elements after the end of y, the first at y[rows * hidden + 0]");
  };
  check(operation_of<RmsNormE4m3>());
  check(operation_of<RmsNormE5m2Group>());
}

TEST_CASE("the scale of a block is the smallest power of two that is not less, within its range") {
  // Norms of 1, times a weight each, and a second block that is smaller.
  const auto codes = [](float number, float limit, double bound = 0, int col = 0) {
    Row<RmsNormMxfp8> row{std::vector<float>(64, 2), std::vector<float>(64, 0.01f), limit};
    row.weight[17] = number;
    row.weight[63] = 0.02f;
    using OfScale = Description<RmsNormMxfp8>::OfScale;
    return right_codes(OfScale::expected(row.problem(), row.sum(), 0, col, bound), Dtype::e8m0);
  };
  CHECK(codes(1, kInf) == Codes{119});      // 2^-8: 1 / 448 is more than 2^-9
  CHECK(codes(1.75f, kInf) == Codes{119});  // 448 * 2^-8
  CHECK(codes(std::nextafter(1.75f, 2.0f), kInf) == Codes{120});
  CHECK(codes(-3, kInf) == Codes{120});
  CHECK(codes(1.75f, kInf, 1e-6) == Codes{119, 120});  // what fp32 makes of it is one or the other
  CHECK(codes(1.8f, kInf, 1e-6) == Codes{120});
  CHECK(codes(3, 1.75f, 1e-6) == Codes{119});  // no arithmetic is in the limit
  CHECK(codes(1, kInf, 0, 32) == Codes{exponent_for(0.02 / 448)});
  CHECK(codes(NAN, 1) == Codes{exponent_for(0.01 / 448)});
  CHECK(codes(kInf, kInf) == Codes{254});
  CHECK(codes(kInf, 1.75f) == Codes{119});
  CHECK(codes(1, 0x1p-120f) == Codes{0});
  Row<RmsNormMxfp8> zeros{std::vector<float>(32, 0), std::vector<float>(32, 1), kInf, 1e-5f, 0};
  const Expected least =
      Description<RmsNormMxfp8>::OfScale::expected(zeros.problem(), zeros.sum(), 0, 0, 1e-6);
  CHECK(right_codes(least, Dtype::e8m0) == Codes{0});
  CHECK(zeros.codes(3, 1e-6) == kZeros);
  // By 2^-8 the norm 1 is 256, and 1.75 is 448; by 2^-9 both are beyond it.
  Row<RmsNormMxfp8> row{std::vector<float>(32, 2), std::vector<float>(32, 1), kInf, 0, 119};
  row.weight[0] = -1.75f;
  CHECK(row.codes(0) == Codes{0xfe});
  CHECK(row.codes(1) == Codes{0x78});
  row.scale = 118;
  CHECK(row.codes(1) == Codes{0x7e});
}

TEST_CASE("at the edges of 8 bits each element has one value") {
  using Given = Row<RmsNormE4m3>;
  CHECK(Given{{2, -2}, {1, 1}, 1}.codes(0) == Codes{0x38});
  CHECK(Given{{2, -2}, {1, 1}, 1}.codes(1) == Codes{0xb8});
  CHECK(Given{{2, -2}, {1, 1}, 0x1p-9f}.codes(0) == Codes{0x7e});  // 512 is out of range
  CHECK(Given{{2, -2}, {1, 1}, 0x1p-9f}.codes(1) == Codes{0xfe});
  CHECK(Given{{2, -2}, {1, 1}, 0x1p-126f}.codes(0) == Codes{0x7e});
  CHECK(Given{{2, -2}, {1, 1}, FLT_MAX}.codes(0) == kZeros);
  CHECK(Given{{2, -2}, {1, 1}, 0x1p9f}.codes(0) == Codes{0x01});
  CHECK(Given{{2, -2}, {1, 1}, 0x1p10f}.codes(0) == kZeros);  // a tie, which goes to 0
  CHECK(Given{{2, -2}, {kInf, 1}, 1}.codes(0) == Codes{0x7e});
  CHECK(Given{{NAN, 1}, {1, 1}, 1}.codes(1) == Codes{0x7f});
  CHECK(Given{{kInf, 1}, {1, 1}, 1}.codes(0) == Codes{0x7f});
  CHECK(Given{{kInf, 1}, {1, 1}, 1}.codes(1) == kZeros);
  CHECK(Given{{0, 0}, {1, 1}, 0x1p-126f, 1e-5f}.codes(0, 1e-6) == kZeros);
  CHECK(Row<RmsNormE5m2>{{2, -2}, {1, 1}, 0x1p-16f}.codes(1) == Codes{0xfb});
  CHECK(Row<RmsNormE5m2>{{0, 0}, {1, 1}, 0x1p-126f, 1e-5f}.codes(0, 1e-6) == kZeros);

  // A tie of the norm that the rounding to bf16 makes: 1 + 2^-4 + 2^-9 is no tie, 1 + 2^-4 is.
  const float above_tie = 1.0625f + 0x1p-9f;
  const auto tie = [&](auto row) {
    row.weight = {above_tie, 1};
    Problem p = row.problem();
    std::vector<std::uint16_t> x = {0x4000, 0xc000};  // 2 and -2
    p.tensors[0] = x.data();
    p.dtype = Dtype::bf16;
    const Expected expected = decltype(row)::Of::OfY::expected(p, {8}, 0, 0, 0);
    return expected.value;
  };
  CHECK(tie(Row<RmsNormE4m3>{{2, -2}, {}, 1}) == above_tie);
  CHECK(tie(Row<RmsNormE4m3Twice>{{2, -2}, {}, 1}) == 1.0625);
}

TEST_CASE("of what is beyond 8 bits, the largest value is expected") {
  CHECK(check_element(240, {612, 0.01, 612}, Dtype::e4m3).expected == 448);
  CHECK(check_element(240, {-612, 0.01, 612}, Dtype::e4m3).expected == -448);
  CHECK(check_element(240, {kInf, 0, 1}, Dtype::e5m2).expected == 57344);
  CHECK(check_element(240, {612, 0.01, 612}, Dtype::e4m3).allowed == 0);
}

TEST_CASE("the scale of 8 bits is that of the largest norm, within its limits") {
  using Chosen = Row<RmsNormE4m3Row>;
  const float least = 1 / (448.0f * 512);
  CHECK(least_scale(Dtype::e4m3) == least);
  CHECK(least_scale(Dtype::e5m2) == 1 / (57344.0f * 512));
  const auto near = [](double got, double expected) {
    return std::abs(got - expected) <= 0x1p-23 * expected;
  };
  CHECK(near(Chosen{{2, -2}, {1, -3}, kInf}.chosen(), 3.0 / 448));
  CHECK(near(Row<RmsNormE5m2Row>{{2, -2}, {1, -3}, kInf}.chosen(), 3.0 / 57344));
  CHECK(near(Chosen{{2, -2}, {1, -3}, 0.5f}.chosen(), 0.5 / 448));  // limited
  CHECK(Chosen{{2, -2}, {1, -3}, 0.5f, 0, 0.5f / 448}.codes(0) == Codes{0x7e});
  CHECK(Chosen{{2, -2}, {1, 1}, 0x1p-100f}.chosen() == least);
  CHECK(Chosen{{0, 0}, {1, 1}, kInf, 1e-5f}.chosen() == least);
  CHECK(Chosen{{0, 0}, {1, 1}, kInf, 1e-5f, least}.codes(0, 1e-6) == kZeros);
  CHECK(Chosen{{0, 0}, {1, 1}, kInf}.chosen() == least);  // with eps 0 they are NaN
  CHECK(Chosen{{0, 0}, {1, 1}, kInf, 0, least}.codes(0) == Codes{0x7f});
  CHECK(Chosen{{NAN, 1}, {1, 1}, kInf}.chosen() == least);
  CHECK(near(Chosen{{2, -2}, {NAN, 1}, kInf}.chosen(), 1.0 / 448));  // NaN does not count
  CHECK(Chosen{{2, -2}, {NAN, 1}, kInf, 0, 1.0f / 448}.codes(0) == Codes{0x7f});
  CHECK(Chosen{{2, -2}, {kInf, 1}, kInf}.chosen() == kInf);
  CHECK(Chosen{{2, -2}, {kInf, 1}, kInf, 0, kInf}.codes(0) == Codes{0x7f});
  CHECK(Chosen{{2, -2}, {kInf, 1}, kInf, 0, kInf}.codes(1) == kZeros);
  CHECK(near(Chosen{{2, -2}, {kInf, 1}, 7}.chosen(), 7.0 / 448));
  CHECK(Chosen{{2, -2}, {kInf, 1}, 7, 0, 7.0f / 448}.codes(0) == Codes{0x7e});
  // Groups of 128: the last of 130 columns has two.
  Row<RmsNormE4m3Group> groups{std::vector<float>(130, 1), std::vector<float>(130, 1), kInf};
  groups.weight[127] = 5;
  groups.weight[128] = 3;
  const auto of_group = [&](std::int64_t col) {
    return Description<RmsNormE4m3Group>::OfScale::expected(
               groups.problem(), groups.sum(), 0, col, 0)
        .value;
  };
  CHECK(near(of_group(0), 5.0 / 448));
  CHECK(near(of_group(128), 3.0 / 448));
  // A sum beyond fp32: norms may be 0, or what they are.
  const Expected beyond = Description<RmsNormE4m3Row>::OfScale::expected(
      Row<RmsNormE4m3Row>{{1, 1}, {1, 1}, kInf}.problem(), {1e39}, 0, 0, 0);
  CHECK(check_element(least, beyond, Dtype::fp32).ok);
}
