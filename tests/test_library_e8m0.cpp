/// \file
/// librmsnorm's scales that are powers of two, of blocks of 32 columns (MXFP8) and of groups: y and
/// the scales are bit for bit what a separate quantiser makes of the norm that is stored.

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "common/contract/types.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "tests/dl_tensor.hpp"
#include "tests/gpu_support.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

constexpr float kTinyEps = 1;  // norms are then as small as x

/// Where the scales lie.
enum class Scales { rows, columns, tiles };

struct Call {
  Types types;
  Layout x;
  Dtype y_dtype;
  rmsnorm_scaling scaling;
  Scales at;
  bool has_residual;
  std::optional<float> limit = {};

  std::int64_t width() const { return scaling == RMSNORM_SCALE_BLOCK ? 32 : 128; }
  std::int64_t groups() const { return (x.hidden() + width() - 1) / width(); }
};

/// Scales as bytes, with a few behind them that are nobody's.
struct Bytes {
  Bytes(const Call& call) : array(Dtype::e4m3, size_of(call) + 16, 6) {
    shape.assign(call.x.shape.begin(), call.x.shape.end() - 1);
    shape.push_back(call.groups());
    Layout at = contiguous(shape);
    if (call.at == Scales::columns) {
      at = contiguous({shape.begin(), shape.end() - 1});
      at.shape = shape;
      at.strides.push_back(call.x.rows() + 3);
    }
    if (call.at == Scales::tiles) at = contiguous({size_of(call)});
    layout = at;
    view = view_of(array, layout);
    view.dtype = {RMSNORM_FLOAT8_E8M0, 8, 1};
  }
  static std::int64_t size_of(const Call& call) {
    const std::int64_t rows = call.x.rows(), groups = call.groups();
    if (call.at == Scales::tiles) return (rows + 127) / 128 * 128 * ((groups + 3) / 4 * 4);
    return call.at == Scales::columns ? (rows + 3) * groups : rows * groups;
  }

  std::vector<std::int64_t> shape;
  DeviceArray array;
  Layout layout;
  DLTensor view;
};

/// Where a scale lies in that memory; in tiles as NVIDIA's documentation of cuBLAS has it.
std::int64_t place_of(const Call& call, std::int64_t row, std::int64_t group) {
  if (call.at == Scales::rows) return row * call.groups() + group;
  if (call.at == Scales::columns) return row + group * (call.x.rows() + 3);
  const std::int64_t tile = row / 128 * ((call.groups() + 3) / 4) + group / 4;
  const std::int64_t outer = row % 128;
  return tile * 512 + outer % 32 * 16 + outer / 32 * 4 + group % 4;
}

/// The exponent of the scale for a largest number, with its bias.
int exponent_for(double largest, double most) {
  if (largest == 0) return 0;
  int exponent = 0;
  const double part = std::frexp(largest / most, &exponent);  // 0.5 to 1, times 2^exponent
  return std::clamp((part == 0.5 ? exponent - 1 : exponent) + 127, 0, 254);
}

void check_call(const Call& call) {
  CAPTURE(to_string(call.types), call.x.hidden(), call.x.shape.size(), static_cast<int>(call.at));
  CAPTURE(call.x.offset, call.scaling, call.has_residual, to_string(call.y_dtype));
  const auto& [dtype, weight_dtype, bias] = call.types;
  const std::int64_t hidden = call.x.hidden(), rows = call.x.rows();
  const DeviceTensor x(dtype, call.x, 1), residual(dtype, call.x, 2), y(call.y_dtype, call.x, 3),
      norm(dtype, contiguous(call.x.shape), 4),
      weight(weight_dtype.value_or(Dtype::fp32), contiguous({hidden}), 5);
  // Rows that are smaller and smaller; of the second, a block of zeros.
  std::vector<std::byte> bytes = x.array.bytes();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < hidden; ++col) {
      const std::int64_t i = call.x.row(row) + col;
      const bool is_zero = row == 1 && col < 128;
      const float number =
          is_zero ? 0 : std::ldexp(x.array.before()[i], -static_cast<int>(row) * 9);
      set_bits(bytes.data(), dtype, i, bits_of(dtype, number));
    }
  }
  x.array.fill(bytes);
  const Bytes scale(call);
  const DeviceTensor limit(Dtype::fp32, contiguous({1}), 7);
  if (call.limit) limit.array.set(0, *call.limit);
  const auto size = static_cast<std::size_t>(Bytes::size_of(call));
  std::vector<KnownMemory> touched{
      extent("x", x),
      extent("y", y),
      extent("norm", norm),
      extent("limit", limit),
      {"scale", scale.array.data(), size, 1}};
  if (weight_dtype) touched.push_back(extent("weight", weight));
  if (call.has_residual) touched.push_back(extent("residual", residual));
  call_watched(touched, [&] {
    return rmsnorm_forward_fp8(
        &x.view, call.has_residual ? &residual.view : nullptr,
        weight_dtype ? &weight.view : nullptr, &y.view, &scale.view,
        call.limit ? &limit.view : nullptr, &norm.view, call.scaling, RMSNORM_ROUND_TWICE, kTinyEps,
        bias, nullptr);
  });

  const std::vector<float> norms = norm.array.now();
  const double most = call.y_dtype == Dtype::e4m3 ? 448 : 57344;
  std::vector<std::byte> expected = scale.array.bytes();
  const std::vector<std::byte> scales = expected;
  if (call.at == Scales::tiles) std::fill_n(expected.begin(), size, std::byte{0});
  std::vector<int> exponents;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t group = 0; group < call.groups(); ++group) {
      double largest = 0;
      for (std::int64_t col = group * call.width();
           col < std::min((group + 1) * call.width(), hidden); ++col)
        largest = std::max(largest, std::abs(double{norms[row * hidden + col]}));
      largest = std::min(largest, double{call.limit.value_or(INFINITY)});
      exponents.push_back(exponent_for(largest, most));
      expected[place_of(call, row, group)] = std::byte(exponents.back());
    }
  }
  CHECK((scales == expected));
  check_elements(y, [&](std::int64_t row, std::int64_t col) -> Allowed {
    const int exponent = exponents[row * call.groups() + col / call.width()];
    const double quotient = std::ldexp(double{norms[row * hidden + col]}, 127 - exponent);
    const double saturated = std::clamp(quotient, -most, most);
    return {rounded(call.y_dtype, static_cast<float>(saturated)), 0};
  });
}

}  // namespace

TEST_CASE(
    "scales of blocks are powers of two, in rows or in tiles, as a separate quantiser has them") {
  NEEDS_GPU();
  int number = 0;
  for (const int hidden : {32, 64, 96, 128, 160, 512, 1056, 4096, 16416}) {
    for (const Types& types : types_of_library()) {
      if (hidden > 4096 && types.dtype == Dtype::fp16) continue;  // bf16 is alike
      for (const Scales at : {Scales::rows, Scales::tiles}) {
        const std::int64_t rows = hidden > 1000 ? 3 : hidden > 100 ? 5 : ++number % 3 ? 7 : 131;
        const Dtype to = ++number % 3 == 0 ? Dtype::e5m2 : Dtype::e4m3;
        Call call{types, contiguous({rows, hidden}, number % 4 == 0 ? 1 : 0),
                  to,    RMSNORM_SCALE_BLOCK,
                  at,    number % 5 < 2};
        if (number % 7 == 0) call.limit = 0.37f;
        check_call(call);
      }
    }
  }
  const Layout of_many_tiles = contiguous({260, 288});  // each way
  check_call(
      {*types_named("bf16"), of_many_tiles, Dtype::e4m3, RMSNORM_SCALE_BLOCK, Scales::tiles,
       false});
}

TEST_CASE("scales of blocks of three and four dimensions, at any distance") {
  NEEDS_GPU();
  const Types types = *types_named("bf16");
  for (const std::int64_t hidden : {64, 160, 1056}) {
    const std::int64_t step = hidden + 32;
    for (const Layout& x :
         {Layout{{2, 3, hidden}, {4 * step, step, 1}, 8},
          Layout{{2, 3, 2, hidden}, {7 * step, step, 3 * step, 1}, 8},
          Layout{{3, 2, 2, hidden}, {2 * step, 7 * step, step, 1}}}) {
      for (const Scales at : {Scales::rows, Scales::tiles})
        check_call({types, x, Dtype::e4m3, RMSNORM_SCALE_BLOCK, at, false});
    }
  }
}

TEST_CASE("scales of groups may be powers of two, in rows or in columns") {
  NEEDS_GPU();
  int number = 0;
  for (const int hidden : {1, 100, 128, 136, 512, 769, 4096, 16512}) {
    for (const Types& types : all_types()) {
      if (hidden > 4096 && types.dtype == Dtype::fp16) continue;
      const Scales at = ++number % 2 == 0 ? Scales::rows : Scales::columns;
      check_call(
          {types, contiguous({hidden > 1000 ? 3 : 6, hidden}), Dtype::e4m3, RMSNORM_SCALE_GROUP, at,
           number % 3 == 0});
    }
  }
}
