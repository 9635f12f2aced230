#pragma once
/// \file
/// RMSNorm whose result is stored in 8 bits, with scales: what a matrix product of 8-bit numbers
/// reads.

#include <type_traits>

#include "common/operations/residual_add.hpp"
#include "common/operations/rms_norm.hpp"

namespace rmsnorm {

/// Which elements share a scale, and who chooses it.
enum class Scaling {
  given,  ///< all of them; it is an input
  row,    ///< those of a row; the kernel, by the largest of them
  group,  ///< those of kGroup columns of a row, or of what is left at its end; likewise
  block,  ///< those of kScaleBlock columns of a row; likewise, a power of two
};

/// Columns of a row that share a scale, but for what may be left at its end.
__host__ __device__ constexpr int columns_of_scale(Scaling scaling, int hidden) {
  if (scaling == Scaling::block) return kScaleBlock;
  return scaling == Scaling::group ? kGroup : hidden;
}

/// How often a norm is rounded.
enum class Rounding {
  once,   ///< from fp32 to 8 bits
  twice,  ///< to x's type first: as by two kernels, of which one stores the norm in that type
};

/// What is normed.
enum class Normed {
  x,    ///< x
  sum,  ///< that of x and a residual, whose place it takes: see ResidualAdd
};

/// The smallest scale that a kernel chooses: by it, the largest norm that y can hold is 1 / 512.
__host__ __device__ constexpr float least_scale(Dtype type) {
  return 1 / ((type == Dtype::e4m3 ? 448.0f : 57344.0f) * 512);
}

/// One RMSNorm to do, whose elements are divided by a scale and stored in 8 bits:
///
///     norm[row][col] = x[row][col] / sqrt(eps + mean over col of x[row][col]^2)
///                      * (weight[col] + weight_bias)
///     y[row][col] = norm[row][col] / s, rounded to kType
///
/// With Normed::sum, x[row][col] stands for the sum of x and the residual, in fp32, which is also
/// stored in the residual, rounded once to its type.
///
/// With Rounding::twice, norm[row][col] is rounded to x's type, and what follows takes that. The
/// scale s is limit_or_scale[0] with Scaling::given. Else it is the row's or the group's, which is
/// stored in scale[row] or scale[row][group]:
///
///     largest = max over the columns that share the scale, of |norm[row][col]|
///     s = max(min(largest, limit_or_scale[0]) / kLargest, least_scale(kType))
///
/// With Scaling::block, which is for rows of whole blocks, it is a power of two, rounded up, whose
/// exponent is stored (e8m0):
///
///     s = the smallest power of two, from 2^-127 to 2^127, that is not less than
///         min(largest, limit_or_scale[0]) / kLargest; 2^127 if none is
///
/// kLargest is kType's largest number, 448 or 57344. Arithmetic is fp32's. The two divisors are
/// known beforehand to many elements: a quotient may also be the product with the reciprocal, both
/// of them rounded to the nearest.
///
/// - What is beyond kLargest becomes that, with its sign, Inf among it.
/// - A norm that is NaN becomes NaN, which is stored as CUDA's conversions do (0x7f), and does not
///   count for the largest. Of nothing but NaN the largest is 0.
/// - Columns of zeros are zeros, with a scale of least_scale(kType), or 2^-127. Any zero may have
///   either sign.
/// - A norm that is Inf makes Inf of the largest, and of the scale, if no limit is below: then
///   numbers become 0 and Inf NaN, as IEEE 754 says. The scale of a block is 2^127 then.
///
/// The tensors' addresses are multiples of their elements' size, and need not be of more.
template <Dtype kType_, Scaling kScaling_, Rounding kRounding_, Normed kNormed_ = Normed::x>
struct RmsNormFp8 {
  static constexpr Dtype kType = kType_;             ///< e4m3 or e5m2
  static constexpr Scaling kScaling = kScaling_;     ///< of y
  static constexpr Rounding kRounding = kRounding_;  ///< of the norm
  static constexpr Normed kNormed = kNormed_;        ///< x, or the sum
  /// A scale as it is stored: block: the exponent of e8m0.
  using Scale = std::conditional_t<kScaling == Scaling::block, std::uint8_t, float>;

  const void* x;                ///< (rows, hidden)  input, of type dtype
  void* residual;               ///< sum: (rows, hidden), input and output, of type dtype; x: null
  const void* weight;           ///< (hidden)        of type weight_dtype; null: all are 1
  const float* limit_or_scale;  ///< (1)    given: the scale, a normal number greater than 0; else
                                ///<        the most that counts for the largest, likewise, or Inf
  void* y;                      ///< (rows, hidden)  output, of type kType
  Scale* scale;        ///< row: (rows), group: (rows, groups) row-major, block: (rows, blocks)
                       ///<      row-major, output; given: null
  int rows;            ///< as an RmsNorm's
  int hidden;          ///< likewise
  float eps;           ///< likewise
  float weight_bias;   ///< as a TypedRmsNorm's
  Dtype dtype;         ///< of x: fp32, fp16 or bf16
  Dtype weight_dtype;  ///< fp32, or that of x
};

/// To e4m3, with a given scale, rounded once.
using RmsNormE4m3 = RmsNormFp8<Dtype::e4m3, Scaling::given, Rounding::once>;
/// To e4m3, with a given scale, rounded twice.
using RmsNormE4m3Twice = RmsNormFp8<Dtype::e4m3, Scaling::given, Rounding::twice>;
/// To e4m3, with a scale for each row, rounded once.
using RmsNormE4m3Row = RmsNormFp8<Dtype::e4m3, Scaling::row, Rounding::once>;
/// To e4m3, with a scale for each row, rounded twice.
using RmsNormE4m3RowTwice = RmsNormFp8<Dtype::e4m3, Scaling::row, Rounding::twice>;
/// To e4m3, with a scale for each group, rounded once.
using RmsNormE4m3Group = RmsNormFp8<Dtype::e4m3, Scaling::group, Rounding::once>;
/// To e4m3, with a scale for each group, rounded twice.
using RmsNormE4m3GroupTwice = RmsNormFp8<Dtype::e4m3, Scaling::group, Rounding::twice>;
/// To e4m3, with a power of two for each block, rounded once: MXFP8.
using RmsNormMxfp8 = RmsNormFp8<Dtype::e4m3, Scaling::block, Rounding::once>;
/// To e5m2, with a given scale, rounded once.
using RmsNormE5m2 = RmsNormFp8<Dtype::e5m2, Scaling::given, Rounding::once>;
/// To e5m2, with a given scale, rounded twice.
using RmsNormE5m2Twice = RmsNormFp8<Dtype::e5m2, Scaling::given, Rounding::twice>;
/// To e5m2, with a scale for each row, rounded once.
using RmsNormE5m2Row = RmsNormFp8<Dtype::e5m2, Scaling::row, Rounding::once>;
/// To e5m2, with a scale for each row, rounded twice.
using RmsNormE5m2RowTwice = RmsNormFp8<Dtype::e5m2, Scaling::row, Rounding::twice>;
/// To e5m2, with a scale for each group, rounded once.
using RmsNormE5m2Group = RmsNormFp8<Dtype::e5m2, Scaling::group, Rounding::once>;
/// To e5m2, with a scale for each group, rounded twice.
using RmsNormE5m2GroupTwice = RmsNormFp8<Dtype::e5m2, Scaling::group, Rounding::twice>;
/// The sum to e4m3, with a given scale, rounded once.
using ResidualAddE4m3 = RmsNormFp8<Dtype::e4m3, Scaling::given, Rounding::once, Normed::sum>;
/// The sum to e4m3, with a given scale, rounded twice.
using ResidualAddE4m3Twice = RmsNormFp8<Dtype::e4m3, Scaling::given, Rounding::twice, Normed::sum>;
/// The sum to e4m3, with a scale for each row, rounded once.
using ResidualAddE4m3Row = RmsNormFp8<Dtype::e4m3, Scaling::row, Rounding::once, Normed::sum>;
/// The sum to e4m3, with a scale for each row, rounded twice.
using ResidualAddE4m3RowTwice = RmsNormFp8<Dtype::e4m3, Scaling::row, Rounding::twice, Normed::sum>;
/// The sum to e4m3, with a scale for each group, rounded once.
using ResidualAddE4m3Group = RmsNormFp8<Dtype::e4m3, Scaling::group, Rounding::once, Normed::sum>;
/// The sum to e4m3, with a scale for each group, rounded twice.
using ResidualAddE4m3GroupTwice =
    RmsNormFp8<Dtype::e4m3, Scaling::group, Rounding::twice, Normed::sum>;

/// The names of these operations: by type, of the sum the third; scaling and rounding. Those
/// without one are not there.
inline constexpr const char* kFp8Names[3][4][2] = {
    {{"rms_norm_e4m3", "rms_norm_e4m3_twice"},
     {"rms_norm_e4m3_row", "rms_norm_e4m3_row_twice"},
     {"rms_norm_e4m3_group", "rms_norm_e4m3_group_twice"},
     {"rms_norm_mxfp8"}},
    {{"rms_norm_e5m2", "rms_norm_e5m2_twice"},
     {"rms_norm_e5m2_row", "rms_norm_e5m2_row_twice"},
     {"rms_norm_e5m2_group", "rms_norm_e5m2_group_twice"}},
    {{"residual_add_e4m3", "residual_add_e4m3_twice"},
     {"residual_add_e4m3_row", "residual_add_e4m3_row_twice"},
     {"residual_add_e4m3_group", "residual_add_e4m3_group_twice"}}};

/// A tensor of these operations: the input.
inline constexpr TensorSpec kFp8X = {
    "x", Role::input, {side::rows, side::hidden}, Elements::like_x};
/// Its weight.
inline constexpr TensorSpec kFp8Weight = {
    "weight", Role::input, {side::hidden}, Elements::like_weight};
/// What the largest is limited to.
inline constexpr TensorSpec kFp8Limit = {"limit", Role::input, {}, Elements::fp32, 0x11317};
/// The scale where it is given.
inline constexpr TensorSpec kFp8Given = {"scale", Role::input, {}, Elements::fp32, 0x5ca1e};
/// What x is added to.
inline constexpr TensorSpec kFp8Residual =
    Description<ResidualAdd>::kTensors[Description<ResidualAdd>::kResidual];
/// The result.
template <Elements kType>
inline constexpr TensorSpec kFp8Y = {"y", Role::output, {side::rows, side::hidden}, kType};
/// The scales where the kernel chooses them.
template <Scaling kScaling>
inline constexpr TensorSpec kFp8Scale = {
    "scale", Role::output,
    kScaling == Scaling::row ? Sides{side::rows} : Sides{side::rows, side::groups}, Elements::fp32};
/// Likewise, as exponents.
template <>
inline constexpr TensorSpec kFp8Scale<Scaling::block> = {
    "scale", Role::output, {side::rows, side::blocks}, Elements::e8m0};

/// All of an operation's: of x, with a scale that the kernel chooses.
template <Elements kY, Scaling kScaling, Normed kNormed>
struct Fp8Tensors {
  /// In the order of the description's numbers.
  static constexpr TensorSpec kTensors[] = {
      kFp8X, kFp8Weight, kFp8Limit, kFp8Y<kY>, kFp8Scale<kScaling>};
};
/// Of x, with one that is given.
template <Elements kY>
struct Fp8Tensors<kY, Scaling::given, Normed::x> {
  /// In the order of the description's numbers.
  static constexpr TensorSpec kTensors[] = {kFp8X, kFp8Weight, kFp8Given, kFp8Y<kY>};
};
/// The same of the sum. As a ResidualAdd's they begin with x and the residual.
template <Elements kY, Scaling kScaling>
struct Fp8Tensors<kY, kScaling, Normed::sum> {
  /// In the order of the description's numbers.
  static constexpr TensorSpec kTensors[] = {kFp8X,     kFp8Residual, kFp8Weight,
                                            kFp8Limit, kFp8Y<kY>,    kFp8Scale<kScaling>};
};
/// The same with a scale that is given, and a residual.
template <Elements kY>
struct Fp8Tensors<kY, Scaling::given, Normed::sum> {
  /// In the order of the description's numbers.
  static constexpr TensorSpec kTensors[] = {kFp8X, kFp8Residual, kFp8Weight, kFp8Given, kFp8Y<kY>};
};

/// All numbers that fp32 arithmetic can make of something: those from the one to the other. Both
/// are NaN if it makes NaN.
struct Interval {
  float least;  ///< the first of them
  float most;   ///< the last
};

/// A number of an interval divided by a number greater than 0, or times its reciprocal. Both keep
/// the order of numbers.
__host__ __device__ inline Interval quotient(Interval of, float divisor) {
  const float reciprocal = 1 / divisor;
  return {
      fminf(of.least / divisor, of.least * reciprocal),
      fmaxf(of.most / divisor, of.most * reciprocal)};
}

/// The same as an expected element. The middle of two floats that are near each other is exact.
__host__ __device__ inline Expected expected_in(Interval of) {
  const double least = of.least;
  const double most = of.most;
  const double middle = (least + most) / 2;
  return {middle, (most - least) / 2, std::fabs(middle)};
}

template <Dtype kType, Scaling kScaling, Rounding kRounding, Normed kNormed>
struct Description<RmsNormFp8<kType, kScaling, kRounding, kNormed>>
    : CommonDescription,
      Fp8Tensors<kType == Dtype::e4m3 ? Elements::e4m3 : Elements::e5m2, kScaling, kNormed> {
  using Of = RmsNormFp8<kType, kScaling, kRounding, kNormed>;
  static constexpr bool kAdds = kNormed == Normed::sum;
  static_assert(!kAdds || kType == Dtype::e4m3, "the others have no name");
  static constexpr const char* kName =
      kFp8Names[kAdds ? 2 : kType == Dtype::e5m2][static_cast<int>(kScaling)]
               [kRounding == Rounding::twice];
  static_assert(kName != nullptr, "nobody has asked for it");
  static constexpr int kHiddenMultiple = kScaling == Scaling::block ? kScaleBlock : 1;
  static constexpr bool kIsTyped = true;
  enum { kX, kResidual, kWeight = kAdds ? 2 : 1, kLimitOrScale, kY, kScale };

  static Of view(const Problem& p) {
    return {
        p.tensors[kX],
        kAdds ? p.tensors[kResidual] : nullptr,
        p.tensors[kWeight],
        p.as<float>(kLimitOrScale),
        p.tensors[kY],
        kScaling == Scaling::given ? nullptr : p.as<typename Of::Scale>(kScale),
        p.rows,
        p.hidden,
        p.eps,
        p.weight_bias,
        p.dtype,
        p.weight_dtype};
  }

  /// What is normed of an element.
  __host__ __device__ static float number(const Problem& p, std::int64_t i) {
    return kAdds ? Description<ResidualAdd>::sum_of(p, i) : p.like_x(kX, i);
  }

  /// The norm of an element, which is exact if it is 0.
  __host__ __device__ static Interval norm(
      const Problem& p, double rstd, std::int64_t row, std::int64_t col, double bound) {
    const double x = number(p, row * p.hidden + col);
    const Expected norm = rms_norm_element(x, rstd, p.factor(kWeight, col), bound);
    const bool is_exact = norm.value == 0 || !std::isfinite(norm.value);
    const double allowed = is_exact ? 0 : norm.allowed;
    const auto least = static_cast<float>(norm.value - allowed);
    const auto most = static_cast<float>(norm.value + allowed);
    if (kRounding == Rounding::once) return {least, most};
    return {rounded(p.dtype, least), rounded(p.dtype, most)};  // it keeps their order
  }

  /// Its bound is that of a norm: what follows is exact, or one of two roundings that are both
  /// expected.
  struct OfRow : Description<RmsNorm>::OfY {
    __host__ __device__ static Sum term(const Problem& p, std::int64_t row, std::int64_t col) {
      using Norm = std::conditional_t<kAdds, ResidualAdd, RmsNorm>;
      return Description<Norm>::OfY::term(p, row, col);
    }
  };

  /// A scale that the kernel chooses.
  struct OfScale : OfRow {
    static constexpr int kTensor = kScale;
    /// Where the sum of squares is beyond fp32, all norms may be 0, and where it is added with more
    /// room they are not.
    __host__ __device__ static Expected expected(
        const Problem& p, const typename OfRow::Sum& sum, std::int64_t row, std::int64_t col,
        double bound) {
      const std::int64_t columns = columns_of_scale(kScaling, p.hidden);
      const std::int64_t end = col + columns < p.hidden ? col + columns : p.hidden;
      const double rstd = exact_rstd(sum.squares, p.hidden, p.eps);
      Interval largest = {0, 0};
      for (; col < end; ++col) {
        const Interval one = norm(p, rstd, row, col, bound);
        const bool has_zero = one.least <= 0 && one.most >= 0;
        const float nearest = fminf(fabsf(one.least), fabsf(one.most));
        largest.least = fmaxf(largest.least, has_zero ? 0 : nearest);  // without NaN
        largest.most = fmaxf(largest.most, fmaxf(fabsf(one.least), fabsf(one.most)));
      }
      if (sum.squares > FLT_MAX) largest.least = 0;
      const float limit = p.fp32(kLimitOrScale, 0);
      const Interval limited = {fminf(largest.least, limit), fminf(largest.most, limit)};
      const auto of_largest = static_cast<float>(saturates_at(kType));
      if (kScaling == Scaling::block) {  // rounding to e8m0 does the rest
        return expected_in({limited.least / of_largest, limited.most / of_largest});
      }
      const Interval scale = quotient(limited, of_largest);
      constexpr float kLeast = least_scale(kType);
      return expected_in({fmaxf(scale.least, kLeast), fmaxf(scale.most, kLeast)});
    }
  };

  /// An element, by the scale that is given, or that the kernel has stored: which one that is to be
  /// is checked first, and leaves some freedom. So all elements have to be of the one scale.
  struct OfY : OfRow {
    static constexpr int kTensor = kY;
    __host__ __device__ static float scale(const Problem& p, std::int64_t row, std::int64_t col) {
      if (kScaling == Scaling::given) return p.fp32(kLimitOrScale, 0);
      const std::int64_t columns = columns_of_scale(kScaling, p.hidden);
      const std::int64_t at = row * ((p.hidden - 1) / columns + 1) + col / columns;
      if (kScaling == Scaling::block) return value_at(p.tensors[kScale], Dtype::e8m0, at);
      return p.fp32(kScale, at);
    }
    __host__ __device__ static Expected expected(
        const Problem& p, const typename OfRow::Sum& sum, std::int64_t row, std::int64_t col,
        double bound) {
      const double rstd = exact_rstd(sum.squares, p.hidden, p.eps);
      const Interval one = norm(p, rstd, row, col, bound);
      Interval divided = quotient(one, scale(p, row, col));
      // A finite norm whose quotient is beyond fp32 saturates, as any other that is too large.
      if (std::isfinite(one.least) && std::isfinite(one.most)) {
        divided.least = fmaxf(fminf(divided.least, FLT_MAX), -FLT_MAX);
        divided.most = fmaxf(fminf(divided.most, FLT_MAX), -FLT_MAX);
      }
      Expected element = expected_in(divided);
      element.may_be_zero = sum.squares > FLT_MAX;
      return element;
    }
  };

  using OfResidual = Description<ResidualAdd>::OfResidual;
  using Outputs = std::conditional_t<
      kScaling == Scaling::given, std::conditional_t<kAdds, Checks<OfY, OfResidual>, Checks<OfY>>,
      std::conditional_t<kAdds, Checks<OfScale, OfY, OfResidual>, Checks<OfScale, OfY>>>;
};

}  // namespace rmsnorm
