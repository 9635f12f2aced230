/// \file
/// librmsnorm's norms in 8 bits: what is stored is what the header says, for every layout that they
/// take, and nothing else is touched. On contiguous tensors, the operation's own check has them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/contract/types.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/operations/rms_norm_fp8.hpp"
#include "tests/dl_tensor.hpp"
#include "tests/gpu_support.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr rmsnorm_scaling kScalings[] = {
    RMSNORM_SCALE_GIVEN, RMSNORM_SCALE_ROW, RMSNORM_SCALE_GROUP};
constexpr Dtype kFp8[] = {Dtype::e4m3, Dtype::e5m2};

/// One call of rmsnorm_forward_fp8. What is written in place is the norm in x's type.
struct Call : NormCall {
  Dtype y_dtype;
  rmsnorm_scaling scaling;
  rmsnorm_rounding rounding;
  std::optional<Layout> norm = {};
  bool in_columns = false;  ///< scales are in column order
  bool has_limit = false;   ///< of 1.5
};

std::string text(const Call& call) {
  return tests::text(call) + ", to " + to_string(call.y_dtype) + ", scaling " +
         std::to_string(call.scaling) + ", rounding " + std::to_string(call.rounding) +
         (call.norm ? ", norm" : "") + (call.in_columns ? ", in columns" : "");
}

/// How many columns share a scale that the library chooses.
std::int64_t width_of(const Call& call) {
  return call.scaling == RMSNORM_SCALE_GROUP ? kGroup : call.x.hidden();
}

std::int64_t groups_of(const Call& call) {
  return (call.x.hidden() - 1) / width_of(call) + 1;
}

/// Where scales lie.
Layout scale_layout(const Call& call) {
  if (call.scaling == RMSNORM_SCALE_GIVEN) return contiguous({1}, 3);
  std::vector<std::int64_t> shape(call.x.shape.begin(), call.x.shape.end() - 1);
  Layout rows = contiguous(shape, 3);
  const bool is_row = call.scaling == RMSNORM_SCALE_ROW;
  if (is_row && !call.in_columns) return rows;
  shape.push_back(groups_of(call));
  if (!call.in_columns) return contiguous(shape, 3);
  rows.shape = shape;
  rows.strides.push_back((call.x.rows() + 3) / 4 * 4);
  return rows;
}

/// The scale for elements whose largest is this, as the header has it.
float scale_for(float largest, float limit, Dtype type) {
  const float most = type == Dtype::e4m3 ? 448 : 57344;
  return std::max(std::min(largest, limit) / most, 1 / (512 * most));
}

/// Checks one call: the residual and the norm against fp64; scales and y against the norm that was
/// stored, or against fp64's where none was. With RMSNORM_ROUND_TWICE, or in fp32, y and the scales
/// are bit for bit those of the stored norm.
void check_call(const Call& call) {
  INFO(text(call));
  const auto& [dtype, weight_dtype, bias] = call.types;
  const std::int64_t hidden = call.x.hidden();
  const DeviceTensor x(dtype, call.x, 1), residual(dtype, call.residual.value_or(call.x), 2),
      weight(weight_dtype.value_or(Dtype::fp32), weight_layout(call), 3),
      y(call.y_dtype, call.y, 4), other(dtype, call.norm.value_or(contiguous({1})), 5);
  const DeviceTensor& norm = call.in_place ? x : other;
  const bool has_norm = call.norm || call.in_place;
  const DeviceTensor scale(Dtype::fp32, scale_layout(call), 6),
      limit(Dtype::fp32, contiguous({1}), 7);
  const bool is_given = call.scaling == RMSNORM_SCALE_GIVEN;
  constexpr float kGiven = 0.013f, kLimit = 1.5f;
  if (is_given) scale.array.set(scale.layout.offset, kGiven);
  limit.array.set(0, kLimit);

  std::vector<KnownMemory> touched{
      extent("x", x), extent("y", y), extent("scale", scale), extent("limit", limit)};
  if (weight_dtype) touched.push_back(extent("weight", weight));
  if (call.residual) touched.push_back(extent("residual", residual));
  if (call.norm) touched.push_back(extent("norm", norm));
  call_watched(touched, [&] {
    return rmsnorm_forward_fp8(
        &x.view, call.residual ? &residual.view : nullptr, weight_dtype ? &weight.view : nullptr,
        &y.view, &scale.view, call.has_limit && !is_given ? &limit.view : nullptr,
        has_norm ? &norm.view : nullptr, call.scaling, call.rounding, kEps, bias, nullptr);
  });
  std::vector<float> scales_now = scale.array.now();
  const Values sum = check_sum(x, call.residual ? &residual : nullptr);
  const auto expected =
      norm_of(sum, call.x, dtype, factors_of(weight_dtype ? &weight : nullptr, bias));
  if (has_norm) check_elements(norm, expected);

  // From here on, what was stored as the norm is right.
  const bool is_exact = has_norm && (call.rounding == RMSNORM_ROUND_TWICE || dtype == Dtype::fp32);
  const std::vector<float> norms = has_norm ? norm.array.now() : std::vector<float>();
  const double unsure = is_exact ? 0 : 2.1 * rounding_error(dtype) + 0x1p-17;  // relative
  const auto number = [&](std::int64_t row, std::int64_t col) {
    return has_norm ? norms[norm.layout.row(row) + col]
                    : static_cast<float>(expected(row, col).value);
  };
  const float most_counts = call.has_limit ? kLimit : kInf;
  std::vector<float> scale_of;  // of each row, and of each group in it
  int wrong = 0;
  for (std::int64_t row = 0; row < call.x.rows(); ++row) {
    for (std::int64_t begin = 0; begin < hidden; begin += width_of(call)) {
      if (is_given) {
        scale_of.push_back(kGiven);
        continue;
      }
      float largest = 0;
      for (std::int64_t col = begin; col < std::min(begin + width_of(call), hidden); ++col) {
        largest = std::max(largest, std::abs(number(row, col)));
      }
      const float is = scale_for(largest, most_counts, call.y_dtype);
      const bool is_column = scale.view.ndim == x.view.ndim;
      const std::int64_t at =
          is_column ? scale.layout.row(row) + begin / width_of(call) * scale.layout.strides.back()
                    : scale.layout.offset + row;
      if (!(std::abs(scales_now[at] - is) <= unsure * is) && wrong++ == 0) {
        UNSCOPED_INFO(row << ", " << begin << ": " << scales_now[at] << " instead of " << is);
      }
      scale_of.push_back(scales_now[at]);
      scales_now[at] = scale.array.before()[at];
    }
  }
  CHECK(wrong == 0);
  if (is_given) scales_now[scale.layout.offset] = scale.array.before()[scale.layout.offset];
  CHECK((scales_now == scale.array.before()));  // and nothing beside them has changed
  const double half_step = call.y_dtype == Dtype::e4m3 ? 0x1p-10 : 0x1p-17;  // of the smallest
  check_elements(y, [&](std::int64_t row, std::int64_t col) -> Allowed {
    const float inverse = 1 / scale_of[row * groups_of(call) + col / width_of(call)];
    const float value = number(row, col) * inverse;
    if (is_exact) return {rounded(call.y_dtype, value), 0};
    const double most = call.y_dtype == Dtype::e4m3 ? 448 : 57344;
    const double saturated = std::clamp(double{value}, -most, most);
    const double part = 1.01 * rounding_error(call.y_dtype) + unsure;
    return {saturated, part * std::abs(saturated) + half_step};
  });
}

/// All ways to scale and to round, each with one of the types of y.
std::vector<Call> variants(const Types& types, const Layout& x, const Layout& y) {
  std::vector<Call> calls;
  for (const rmsnorm_scaling scaling : kScalings) {
    for (const rmsnorm_rounding rounding : {RMSNORM_ROUND_ONCE, RMSNORM_ROUND_TWICE}) {
      const Dtype to = kFp8[(static_cast<int>(scaling) + rounding) % 2];
      calls.push_back({{types, x, y}, to, scaling, rounding});
    }
  }
  return calls;
}

rmsnorm_status to_e4m3(
    const DLTensor& x, const DLTensor* weight, const DLTensor& y, const DLTensor& scale,
    rmsnorm_scaling scaling, const DLTensor* limit = nullptr, float eps = kEps,
    const DLTensor* norm = nullptr, rmsnorm_rounding rounding = RMSNORM_ROUND_ONCE) {
  return rmsnorm_forward_fp8(
      &x, nullptr, weight, &y, &scale, limit, norm, scaling, rounding, eps, 0, nullptr);
}

}  // namespace

TEST_CASE("8 bits of rows of any length, with every scaling, both roundings, and a residual") {
  NEEDS_GPU();
  const std::vector<Types> all = types_of_library();
  std::size_t number = 0;
  for (const int hidden : {1, 7, 8, 32, 64, 100, 128, 136, 256, 512, 769, 1024, 4096, 8192}) {
    for (const Types& types : all) {
      const Layout at = contiguous({hidden > 1000 ? 2 : 5, hidden});
      const auto calls = variants(types, at, at);
      for (int k = 0; k < 2; ++k) {  // in turn: each with each, soon
        Call call = calls[number++ * 7 % calls.size()];
        if (number % 3 != 0) call.norm = at;
        if (number % 4 == 0) call.residual = at;
        call.in_columns = number % 5 == 0;
        call.has_limit = number % 2 == 0;
        check_call(call);
      }
    }
  }
  const Types bf16{.dtype = Dtype::bf16, .weight = Dtype::bf16}, fp32{.dtype = Dtype::fp32};
  for (const auto& [hidden, types] :
       {std::pair{12288, bf16},
        {16384, bf16},
        {16392, bf16},
        {20001, bf16},
        {49152, bf16},
        {8200, fp32},
        {131080, bf16}}) {
    const Layout at = contiguous({2, hidden});
    for (Call call : variants(types, at, at)) {
      call.norm = at;
      if (call.rounding == RMSNORM_ROUND_ONCE) call.residual = at;
      check_call(call);
    }
  }
}

TEST_CASE(
    "8 bits of random layouts of two to four dimensions, with scales in rows or in columns",
    "[sanitizer]") {
  NEEDS_GPU();
  Draw draw{std::mt19937(20261123)};
  for (int i = 0; i < in_time(250); ++i) {
    Call call{
        random_call(draw), kFp8[draw(0, 1)], kScalings[draw(0, 2)],
        draw(0, 1) == 0 ? RMSNORM_ROUND_ONCE : RMSNORM_ROUND_TWICE};
    const int unit = call.x.hidden() % 8 == 0 ? 8 : 1;
    if (draw(0, 1) == 0) call.norm = random_layout(draw, call.x.shape, unit, true);
    if (!call.norm && draw(0, 2) == 0) {
      call.x = random_layout(draw, call.x.shape, unit, true);
      call.in_place = true;
    }
    call.in_columns = draw(0, 1) == 0;
    call.has_limit = draw(0, 1) == 0;
    check_call(call);
  }
}

TEST_CASE("the norm beside 8 bits is bit for bit the forward pass's") {
  NEEDS_GPU();
  for (const int hidden : {8, 64, 128, 256, 512, 1024, 4096, 8192, 12288, 16384}) {
    for (const Types& types : all_types()) {
      if (hidden * bytes_of(types.dtype) > (32 << 10)) continue;
      CAPTURE(hidden, to_string(types));
      const Layout at = contiguous({3, hidden});
      const DeviceTensor x(types.dtype, at, 1), y(Dtype::e4m3, at, 2), norm(types.dtype, at, 3),
          forward(types.dtype, at, 3), scale(Dtype::fp32, contiguous({3}), 4),
          weight(types.weight.value_or(Dtype::fp32), contiguous({hidden}), 5);
      const DLTensor* const factors = types.weight ? &weight.view : nullptr;
      const auto rounding = hidden % 512 == 0 ? RMSNORM_ROUND_TWICE : RMSNORM_ROUND_ONCE;
      REQUIRE(rmsnorm_forward(&x.view, factors, &forward.view, kEps, 0, nullptr) == RMSNORM_OK);
      REQUIRE(
          to_e4m3(
              x.view, factors, y.view, scale.view, RMSNORM_SCALE_ROW, nullptr, kEps, &norm.view,
              rounding) == RMSNORM_OK);
      CHECK((norm.array.now() == forward.array.now()));
    }
  }
}

TEST_CASE("8 bits of a row and its scales do not depend on the rows that are with it") {
  NEEDS_GPU();
  // Of 4000 rows of 2048 columns, each thread does the work of two.
  for (const auto& [rows, hidden] :
       {std::pair{21, 64}, {21, 130}, {21, 4096}, {21, 20000}, {4000, 2048}}) {
    for (const rmsnorm_scaling scaling : {RMSNORM_SCALE_ROW, RMSNORM_SCALE_GROUP}) {
      const std::int64_t groups = scaling == RMSNORM_SCALE_ROW ? 1 : (hidden + 127) / 128;
      const Layout layout = contiguous({rows, hidden});
      const DeviceTensor x(Dtype::bf16, layout, 1), y(Dtype::e4m3, layout, 2),
          scale(Dtype::fp32, contiguous({rows, groups}), 3);
      REQUIRE(to_e4m3(x.view, nullptr, y.view, scale.view, scaling) == RMSNORM_OK);
      const std::vector<float> quantized = y.array.now(), scales = scale.array.now();
      for (const auto& [begin, count] : {std::pair{0, 1}, {3, 8}, {1, 20}}) {
        CAPTURE(hidden, scaling, begin, count);
        const DeviceTensor y_of_part(Dtype::e4m3, contiguous({count, hidden}), 4),
            scale_of_part(Dtype::fp32, contiguous({count, groups}), 5);
        std::vector<std::int64_t> shape = y_of_part.layout.shape;
        const DLTensor part = part_of(x.view, shape, std::int64_t{begin} * hidden);
        REQUIRE(to_e4m3(part, nullptr, y_of_part.view, scale_of_part.view, scaling) == RMSNORM_OK);
        const auto same = [begin = begin, count = count](
                              const std::vector<float>& whole, const std::vector<float>& got,
                              std::int64_t width) {
          const auto at = whole.begin() + begin * width;
          return std::equal(at, at + count * width, got.begin());
        };
        CHECK(same(quantized, y_of_part.array.now(), hidden));
        CHECK(same(scales, scale_of_part.array.now(), groups));
      }
    }
  }
}

TEST_CASE("a long row beside a residual has the same 8 bits alone and among many") {
  NEEDS_GPU();
  // So many rows that two blocks share one, where there are clusters; of 6400 columns, unevenly.
  for (const auto& [rows, hidden, scaling] :
       {std::tuple{500, 8192, RMSNORM_SCALE_GROUP}, {640, 6400, RMSNORM_SCALE_ROW}}) {
    CAPTURE(rows, hidden, scaling);
    const std::int64_t groups = scaling == RMSNORM_SCALE_ROW ? 1 : hidden / kGroup;
    const Layout at = contiguous({rows, hidden});
    // A row has 8 numbers that are not 0: where it had many, few sums would show their order.
    const auto keep_first = [&, rows = rows, hidden = hidden](const DeviceTensor& tensor) {
      std::vector<std::byte> bytes = tensor.array.bytes();
      for (int row = 0; row < rows; ++row)
        std::fill_n(&bytes[(row * hidden + 8) * 4], (hidden - 8) * 4, std::byte{0});
      tensor.array.fill(bytes);
    };
    const DeviceTensor x(Dtype::fp32, at, 1), weight(Dtype::fp32, contiguous({hidden}), 2);
    keep_first(x);
    /// The last hundred rows' sums, norms, codes and scales, of a launch of so many of the last.
    const auto last_rows = [&, all = rows, hidden = hidden, scaling = scaling](int count) {
      const DeviceTensor residual(Dtype::fp32, at, 3), norm(Dtype::fp32, at, 4),
          y(Dtype::e4m3, at, 5), scale(Dtype::fp32, contiguous({all, groups}), 6);
      keep_first(residual);
      std::vector<std::int64_t> shape{count, hidden}, of_scale{count, groups};
      const auto part = [&](const DeviceTensor& tensor) {
        return part_of(tensor.view, shape, std::int64_t{all - count} * hidden);
      };
      const DLTensor parts[] = {part(x), part(residual), part(y), part(norm)};
      const DLTensor scales = part_of(scale.view, of_scale, (all - count) * groups);
      REQUIRE(
          rmsnorm_forward_fp8(
              &parts[0], &parts[1], &weight.view, &parts[2], &scales, nullptr, &parts[3], scaling,
              RMSNORM_ROUND_ONCE, kEps, 0, nullptr) == RMSNORM_OK);
      std::vector<std::vector<float>> last;
      for (const DeviceTensor* tensor : {&residual, &norm, &y, &scale}) {
        const std::vector<float> values = tensor->array.now();
        last.emplace_back(values.end() - values.size() / all * 100, values.end());
      }
      return last;
    };
    CHECK((last_rows(rows) == last_rows(100)));
  }
}

TEST_CASE("at the edges of 8 bits, scales and limits are what the header says") {
  NEEDS_GPU();
  for (const int hidden : {256, 250}) {  // with either kernel
    const Layout at = contiguous({1, hidden});
    const DeviceTensor x(Dtype::fp32, at, 1), y(Dtype::e4m3, at, 2),
        scale(Dtype::fp32, contiguous({1}), 3), limit(Dtype::fp32, contiguous({1}), 4);
    std::vector<float> row(hidden, 0);
    /// Column 0, and a column that has a value of its own, and the scale.
    const auto results = [&](rmsnorm_scaling scaling, float number, const DLTensor* most) {
      if (scaling == RMSNORM_SCALE_GIVEN) scale.array.set(0, number);
      if (most != nullptr) limit.array.set(0, number);
      REQUIRE(
          cudaMemcpy(x.array.data(), row.data(), hidden * 4, cudaMemcpyHostToDevice) ==
          cudaSuccess);
      REQUIRE(to_e4m3(x.view, nullptr, y.view, scale.view, scaling, most, 0x1p-20f) == RMSNORM_OK);
      const std::vector<float> quantized = y.array.now();
      return std::vector<float>{quantized[0], quantized[9], scale.array.now()[0]};
    };
    const float nan = std::numeric_limits<float>::quiet_NaN(), least = 1 / (448.0f * 512);
    const auto none = [&](rmsnorm_scaling scaling) { return results(scaling, 1, nullptr); };
    CAPTURE(hidden);
    CHECK((none(RMSNORM_SCALE_ROW) == std::vector<float>{0, 0, least}));

    std::fill(row.begin(), row.end(), 1.0f);
    row[9] = 0;
    const float one = std::sqrt(static_cast<float>(hidden) / static_cast<float>(hidden - 1));
    std::vector<float> got = none(RMSNORM_SCALE_ROW);
    CHECK((got[0] == 448 && got[1] == 0));
    CHECK(std::abs(got[2] - one / 448) < 1e-6f * one);
    got = results(RMSNORM_SCALE_ROW, 0.5f, &limit.view);
    CHECK((got == std::vector<float>{448, 0, 0.5f / 448}));
    got = results(RMSNORM_SCALE_ROW, nan, &limit.view);
    CHECK(std::abs(got[2] - one / 448) < 1e-6f * one);
    CHECK(results(RMSNORM_SCALE_ROW, -1, &limit.view)[2] == least);

    got = results(RMSNORM_SCALE_GIVEN, 0, nullptr);
    CHECK((got[0] == 448 && std::isnan(got[1])));
    CHECK(std::isnan(results(RMSNORM_SCALE_GIVEN, nan, nullptr)[0]));
    got = results(RMSNORM_SCALE_GIVEN, kInf, nullptr);
    CHECK((got[0] == 0 && got[1] == 0));

    row[9] = nan;  // and so is every norm of the row
    got = none(RMSNORM_SCALE_ROW);
    CHECK((std::isnan(got[0]) && std::isnan(got[1]) && got[2] == least));
  }
}
