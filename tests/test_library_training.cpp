/// \file
/// librmsnorm's passes for training are right for every layout that they take. test_lessons.cpp
/// has the backward pass beside the lessons': on many rows, and beyond 2^31 elements.

#include <cmath>
#include <random>
#include <vector>

#include "common/contract/expected.hpp"
#include "common/contract/types.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/operations/rms_norm.hpp"
#include "tests/dl_tensor.hpp"
#include "tests/gpu_support.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

/// Lengths for one thread a row and many, one vector a thread and several, rows in parts, tails.
constexpr int kHidden[] = {1, 8, 33, 64, 128, 264, 520, 1000, 2056, 4096, 8200, 12288, 20000};

constexpr int kAdditions = 200;  // no sum here has more

/// How the tensors lie.
struct Layouts {
  Layout x, dy, y, dx;
};

/// Checks both passes, the second with and without a dweight.
/// \param weight_of_heads  whether each index of the last dimension but one has a weight of its own
void check_passes(
    const Types& types, const Layouts& at, float eps = kEps, bool weight_of_heads = false) {
  const std::int64_t rows = at.x.rows(), hidden = at.x.hidden();
  const Dtype weight_dtype = types.weight.value_or(types.dtype);
  const std::int64_t heads = weight_of_heads ? at.x.shape.end()[-2] : 1;
  const Layout of_weight = weight_of_heads ? contiguous({heads, hidden}) : contiguous({hidden});
  const DeviceTensor x(types.dtype, at.x, 1), dy(types.dtype, at.dy, 2), y(types.dtype, at.y, 3),
      dx(types.dtype, at.dx, 4), weight(weight_dtype, of_weight, 5),
      dweight(weight_dtype, of_weight, 6), rstd(Dtype::fp32, contiguous({rows}), 7),
      dx_alone(types.dtype, at.dx, 4);
  const DLTensor* const factors = types.weight ? &weight.view : nullptr;
  const float bias = types.weight_bias;
  const std::vector<KnownMemory> inputs = {extent("x", x), extent("weight", weight)};
  call_watched({inputs[0], inputs[1], extent("y", y), extent("rstd", rstd)}, [&] {
    return rmsnorm_forward_rstd(&x.view, factors, &y.view, &rstd.view, eps, bias, nullptr);
  });
  const std::vector<float> rstds = rstd.array.now();

  std::size_t bytes = 0;
  REQUIRE(rmsnorm_backward_workspace_bytes(&x.view, &bytes) == RMSNORM_OK);
  const DeviceTensor workspace(
      Dtype::fp32, contiguous({static_cast<std::int64_t>(bytes / sizeof(float))}), 8);
  for (const bool with_dweight : {true, false}) {
    const DeviceTensor& to = with_dweight ? dx : dx_alone;
    const std::vector<KnownMemory> touched = {
        inputs[0],
        inputs[1],
        extent("dy", dy),
        extent("rstd", rstd),
        extent("dx", to),
        extent("dweight", dweight),
        extent("workspace", workspace)};
    call_watched(touched, [&] {
      return rmsnorm_backward(
          &dy.view, &x.view, factors, &rstd.view, &to.view, with_dweight ? &dweight.view : nullptr,
          workspace.array.data(), bytes, bias, nullptr);
    });
  }
  CHECK((dx_alone.array.now() == dx.array.now()));

  std::vector<double> squares(rows), means(rows), mean_sizes(rows), dweights(heads * hidden),
      dweight_sizes(heads * hidden);
  const Factors factor = factors_of(types.weight ? &weight : nullptr, bias);
  const auto n = [&](std::int64_t row, std::int64_t col) {
    return double{x.before(row, col)} * rstds[row];
  };
  const auto g = [&](std::int64_t row, std::int64_t col) {
    return dy.before(row, col) * factor(row, col);
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < hidden; ++col) {
      squares[row] += std::pow(double{x.before(row, col)}, 2);
      const double product = g(row, col) * n(row, col);
      means[row] += product / hidden;
      mean_sizes[row] += std::abs(product) / hidden;
      const double of_weight = dy.before(row, col) * n(row, col);
      dweights[row % heads * hidden + col] += of_weight;
      dweight_sizes[row % heads * hidden + col] += std::abs(of_weight);
    }
  }
  check_elements(rstd, [&](std::int64_t, std::int64_t row) -> Allowed {
    const double value = reference_rstd(squares[row], static_cast<int>(hidden), eps);
    return {value, kAdditions * 0x1p-24 * value};
  });
  check_elements(y, [&](std::int64_t row, std::int64_t col) {
    const double value = n(row, col) * factor(row, col);
    return in_fp32(kAdditions, value, std::abs(value), types.dtype);
  });
  check_elements(dx, [&](std::int64_t row, std::int64_t col) {
    const double value = rstds[row] * (g(row, col) - n(row, col) * means[row]);
    const double size =
        rstds[row] * (std::abs(g(row, col)) + std::abs(n(row, col)) * mean_sizes[row]);
    return in_fp32(kAdditions, value, size, types.dtype);
  });
  check_elements(dweight, [&](std::int64_t head, std::int64_t col) {
    const std::int64_t i = head * hidden + col;
    return in_fp32(kAdditions, dweights[i], dweight_sizes[i], weight_dtype);
  });
}

}  // namespace

TEST_CASE("the library's passes for training are right for rows of any length, in every type") {
  NEEDS_GPU();
  for (const int hidden : kHidden) {
    const std::int64_t rows = hidden > 5000 ? 3 : hidden > 1000 ? 7 : hidden > 300 ? 20 : 70;
    for (Types types : types_of_library()) {
      if (hidden > 5000 && types.dtype == Dtype::fp16) continue;  // bf16 is alike
      if (types.weight) types.weight_bias = 1;
      for (const int offset : {0, 1}) {
        if (is_cpu_device() && hidden > 1000 && offset == 1 && types.dtype != Dtype::bf16) continue;
        CAPTURE(to_string(types), hidden, offset);
        const Layout at = contiguous({rows, hidden}, offset);
        check_passes(types, {at, at, at, at}, offset == 0 ? 1e-5f : 1);
      }
    }
  }
}

TEST_CASE("in training, heads may have weights, and each tensor its own order of dimensions") {
  NEEDS_GPU();
  for (const int hidden : kHidden) {
    for (const Types& types : all_types()) {
      if (hidden > (is_cpu_device() ? 1000 : 5000) && types.dtype != Dtype::bf16) continue;
      const std::int64_t step = hidden + 8, batches = hidden > 5000 ? 1 : 3;
      const std::vector<std::int64_t> shape{batches, 5, 2, hidden};
      const Layouts at{
          {shape, {11 * step, step, 5 * step, 1}, 8},  // heads before tokens in memory
          {shape, {0, 0, 0, 1}},                       // expanded
          contiguous(shape),
          {shape, {2 * step, 6 * step, step, 1}}};  // tokens before batches
      Layouts expanded = at;
      expanded.dy.strides.back() = 0;  // the columns, too
      for (const bool weight_of_heads : {false, true}) {
        CAPTURE(to_string(types), hidden, weight_of_heads);
        check_passes(types, at, 0x1p-10f, weight_of_heads);
        check_passes(types, expanded, 0x1p-10f, weight_of_heads);
        expanded.dy.strides = {40, 8, 3, 0};
      }
    }
  }
}

TEST_CASE("the library's passes for training are right where a part of a GPU holds no cluster") {
  NEEDS_GPU();
  if (!is_cpu_device()) SKIP_TEST("clusters are those of the GPU");
  const Layout at = contiguous({3, 20000});
  for (const char* const name : {"fp32", "bf16/fp32"}) {
    for (const cudaError_t error : kNoClusters) {
      CAPTURE(name, error);
      limit_clusters(1, error);
      check_passes(*types_named(name), {at, at, at, at});
      CHECK(cudaGetLastError() == cudaSuccess);
    }
  }
  limit_clusters(0);
}

TEST_CASE("the bits of dx and rstd do not depend on how the dimensions lie") {
  NEEDS_GPU();
  for (const std::int64_t hidden : {33, 64, 264, 4096, 8200, 12288, 20000}) {
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      // Each pass in one layout: that of x, which dy has, too. dx has gaps.
      const auto passes = [&](Layout at) {
        const DeviceTensor x(dtype, at, 1), dy(dtype, at, 2), y(dtype, at, 3);
        const DeviceTensor weight(dtype, contiguous({hidden}), 4);
        const DeviceTensor rstd(Dtype::fp32, contiguous({at.rows()}), 5);
        Layout wide = contiguous(at.shape);
        wide.strides[0] += 16;
        const DeviceTensor dx(dtype, wide, 6);
        std::size_t bytes = 0;
        REQUIRE(rmsnorm_backward_workspace_bytes(&x.view, &bytes) == RMSNORM_OK);
        const DeviceArray workspace(Dtype::fp32, static_cast<std::int64_t>(bytes / 4), 7);
        REQUIRE(
            rmsnorm_forward_rstd(&x.view, &weight.view, &y.view, &rstd.view, 1e-6f, 0, nullptr) ==
            RMSNORM_OK);
        REQUIRE(
            rmsnorm_backward(
                &dy.view, &x.view, &weight.view, &rstd.view, &dx.view, nullptr, workspace.data(),
                bytes, 0, nullptr) == RMSNORM_OK);
        // The rows in the order of x's memory.
        std::vector<float> all(8 * (hidden + 1));
        const std::vector<float> rstds = rstd.array.now(), numbers = dx.array.now();
        for (std::int64_t row = 0; row < at.rows(); ++row) {
          const auto to = all.begin() + at.row(row) / hidden * (hidden + 1);
          const auto from = numbers.begin() + wide.row(row);
          *to = rstds[row];
          std::copy(from, from + hidden, to + 1);
        }
        return all;
      };
      const std::vector<float> expected = passes(contiguous({8, hidden}));
      for (const Layout& at :
           {Layout{{2, 2, 2, hidden}, {4 * hidden, 2 * hidden, hidden, 1}},
            Layout{{2, 2, 2, hidden}, {hidden, 4 * hidden, 2 * hidden, 1}},
            Layout{{2, 2, 2, hidden}, {hidden, 2 * hidden, 4 * hidden, 1}},
            Layout{{4, 2, hidden}, {hidden, 4 * hidden, 1}}}) {
        CAPTURE(hidden, to_string(dtype), at.shape.size(), at.strides[0], at.strides[1]);
        CHECK((passes(at) == expected));
      }
    }
  }
}

TEST_CASE("the library's passes for training take rows in any layout", "[memory]") {
  NEEDS_GPU();
  Draw draw{std::mt19937(20261123)};
  const std::vector<Types> all = types_of_library();
  for (int i = 0; i < in_time(200); ++i) {
    const int unit = draw(0, 2) == 0 ? 1 : 8;
    const int hidden = i % 40 == 0      ? 20000  // in parts
                       : draw(0, 3) > 0 ? unit * draw(1, 300 / unit)
                                        : unit * draw(1, 5000 / unit);
    std::vector<std::int64_t> shape{draw(1, hidden > 300 ? 4 : 20), hidden};
    for (int k = draw(0, 2); k > 0; --k) shape.insert(shape.begin(), draw(1, 9));
    const Types& types = all[draw(0, static_cast<int>(all.size()) - 1)];
    const auto layout = [&](bool is_output) { return random_layout(draw, shape, unit, is_output); };
    const bool weight_of_heads = shape.size() > 2 && draw(0, 1) == 0;
    CAPTURE(to_string(types), i, hidden, unit, weight_of_heads);
    const Layouts at{layout(false), layout(false), layout(true), layout(true)};
    check_passes(types, at, 0x1p-10f, weight_of_heads);
  }
}
