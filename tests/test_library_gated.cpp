/// \file
/// librmsnorm's norms with a gate are right, forwards and backwards, in either order, for every
/// layout that they take.

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "common/contract/expected.hpp"
#include "common/contract/types.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "tests/dl_tensor.hpp"
#include "tests/gpu_support.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

/// Lengths for some lanes of a warp and for whole warps, tails, and more than a block keeps.
constexpr int kHidden[] = {1, 8, 33, 64, 128, 264, 520, 1000, 2056, 4096, 8192, 20000};

/// How the tensors lie.
struct Layouts {
  Layout x, z, y, dy, dx, dz;
};

/// All tensors alike.
Layouts all_at(const Layout& at) {
  return {at, at, at, at, at, at};
}

double sigmoid(double z) {
  return 1 / (1 + std::exp(-z));
}

constexpr int kAdditions = 300;  // no sum here has more
constexpr double kFp32 = kAdditions * 0x1p-24;

/// The tensors of both passes, and what they are to be.
struct Passes {
  Passes(const Types& types, const Layouts& at, bool weight_of_heads)
      : types(types),
        rows(at.x.rows()),
        hidden(at.x.hidden()),
        heads(weight_of_heads ? at.x.shape.end()[-2] : 1),
        weight_dtype(types.weight.value_or(types.dtype)),
        of_weight(weight_of_heads ? contiguous({heads, hidden}) : contiguous({hidden})),
        x(types.dtype, at.x, 1),
        z(types.dtype, at.z, 2),
        y(types.dtype, at.y, 3),
        dy(types.dtype, at.dy, 4),
        dx(types.dtype, at.dx, 5),
        dz(types.dtype, at.dz, 6),
        weight(weight_dtype, of_weight, 7),
        dweight(weight_dtype, of_weight, 8),
        factors(types.weight ? &weight.view : nullptr),
        factor(factors_of(types.weight ? &weight : nullptr, types.weight_bias)) {}

  /// Of each row: sums of what is normed.
  struct Row {
    double squares = 0, dot = 0, dot_size = 0;
  };
  double u(std::int64_t row, std::int64_t col, rmsnorm_gate gate) const {
    const double value = x.before(row, col), of_z = z.before(row, col);
    return gate == RMSNORM_GATE_FIRST ? value * of_z * sigmoid(of_z) : value;
  }
  /// What u's norm is multiplied by, but for the weight.
  double last(std::int64_t row, std::int64_t col, rmsnorm_gate gate) const {
    const double of_z = z.before(row, col);
    return gate == RMSNORM_GATE_FIRST ? 1 : of_z * sigmoid(of_z);
  }
  double g(std::int64_t row, std::int64_t col, rmsnorm_gate gate) const {
    return dy.before(row, col) * factor(row, col) * last(row, col, gate);
  }
  std::vector<Row> sums(rmsnorm_gate gate) const {
    std::vector<Row> sums(rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t col = 0; col < hidden; ++col) {
        const double value = u(row, col, gate), product = value * g(row, col, gate);
        sums[row].squares += value * value;
        sums[row].dot += product;
        sums[row].dot_size += std::abs(product);
      }
    }
    return sums;
  }
  double rstd(double squares) const { return 1 / std::sqrt(squares / hidden + kEps); }

  Types types;
  std::int64_t rows, hidden, heads;
  Dtype weight_dtype;
  Layout of_weight;
  DeviceTensor x, z, y, dy, dx, dz, weight, dweight;
  const DLTensor* factors;
  Factors factor;
};

void check_forward(const Passes& p, rmsnorm_gate gate, rmsnorm_rounding rounding) {
  const std::vector<KnownMemory> touched = {
      extent("x", p.x), extent("z", p.z), extent("weight", p.weight), extent("y", p.y)};
  call_watched(touched, [&] {
    return rmsnorm_forward_gated(
        &p.x.view, &p.z.view, p.factors, &p.y.view, gate, rounding, kEps, p.types.weight_bias,
        nullptr);
  });
  const auto sums = p.sums(gate);
  const Dtype dtype = p.types.dtype;
  check_elements(p.y, [&](std::int64_t row, std::int64_t col) {
    const double n = p.u(row, col, gate) * p.rstd(sums[row].squares);
    const double factor = p.factor(row, col), last = p.last(row, col, gate);
    if (rounding == RMSNORM_ROUND_ONCE)
      return in_fp32(kAdditions, n * factor * last, std::abs(n * factor * last), dtype);
    // Next to the middle of two numbers, either may be what it is rounded to.
    const auto twice = [&](double norm) {
      const double value = rounded(dtype, static_cast<float>(norm)) * factor;
      const bool is_rounded = p.weight_dtype == dtype;
      return last * (is_rounded ? rounded(dtype, static_cast<float>(value)) : value);
    };
    const double least = twice(n * (1 - kFp32)), most = twice(n * (1 + kFp32));
    Allowed result = in_fp32(kAdditions, (least + most) / 2, std::abs(most), dtype);
    result.error += std::abs(most - least) / 2;
    return result;
  });
}

void check_backward(const Passes& p, rmsnorm_gate gate) {
  std::size_t bytes = 0;
  REQUIRE(rmsnorm_backward_gated_workspace_bytes(&p.x.view, &bytes) == RMSNORM_OK);
  const DeviceTensor workspace(
      Dtype::fp32, contiguous({static_cast<std::int64_t>(bytes / sizeof(float))}), 9);
  const std::vector<KnownMemory> touched = {
      extent("x", p.x),
      extent("z", p.z),
      extent("dy", p.dy),
      extent("weight", p.weight),
      extent("dx", p.dx),
      extent("dz", p.dz),
      extent("dweight", p.dweight),
      extent("workspace", workspace)};
  const auto call = [&](const DLTensor* dweight) {
    return rmsnorm_backward_gated(
        &p.dy.view, &p.x.view, &p.z.view, p.factors, &p.dx.view, &p.dz.view, dweight,
        workspace.array.data(), bytes, gate, kEps, p.types.weight_bias, nullptr);
  };
  call_watched(touched, [&] { return call(&p.dweight.view); });
  const auto results = [&] {
    return std::array{p.dx.array.bytes(), p.dz.array.bytes(), p.dweight.array.bytes()};
  };
  const auto first = results();
  for (const DLTensor* dweight : {&p.dweight.view, static_cast<const DLTensor*>(nullptr)}) {
    REQUIRE(call(dweight) == RMSNORM_OK);
    CHECK((results() == first));  // the same bits, whether it is wanted or not
  }

  const auto sums = p.sums(gate);
  struct Gradients {
    double du, du_size, n, silu, slope;
  };
  const auto gradients = [&](std::int64_t row, std::int64_t col) {
    const double r = p.rstd(sums[row].squares), n = p.u(row, col, gate) * r;
    const double g = p.g(row, col, gate), mean = sums[row].dot * r / p.hidden;
    const double mean_size = sums[row].dot_size * r / p.hidden;
    const double of_z = p.z.before(row, col), s = sigmoid(of_z);
    return Gradients{
        r * (g - n * mean), r * (std::abs(g) + std::abs(n) * mean_size), n, of_z * s,
        s * (1 + of_z * (1 - s))};
  };
  const bool is_first = gate == RMSNORM_GATE_FIRST;
  const Dtype dtype = p.types.dtype;
  check_elements(p.dx, [&](std::int64_t row, std::int64_t col) {
    const Gradients of = gradients(row, col);
    const double scale = is_first ? of.silu : 1;
    return in_fp32(kAdditions, of.du * scale, of.du_size * std::abs(scale), dtype);
  });
  check_elements(p.dz, [&](std::int64_t row, std::int64_t col) {
    const Gradients of = gradients(row, col);
    const double x = p.x.before(row, col);
    const double dy = p.dy.before(row, col) * p.factor(row, col) * of.n;
    const double of_z = p.z.before(row, col);
    const double size = (is_first ? of.du_size * std::abs(x) : std::abs(dy)) * (2 + std::abs(of_z));
    return in_fp32(kAdditions, (is_first ? of.du * x : dy) * of.slope, size, dtype);
  });
  std::vector<double> dweights(p.heads * p.hidden), sizes(p.heads * p.hidden);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int64_t col = 0; col < p.hidden; ++col) {
      const Gradients of = gradients(row, col);
      const double one = p.dy.before(row, col) * of.n * (is_first ? 1 : of.silu);
      dweights[row % p.heads * p.hidden + col] += one;
      sizes[row % p.heads * p.hidden + col] += std::abs(one);
    }
  }
  check_elements(p.dweight, [&](std::int64_t head, std::int64_t col) {
    const std::int64_t i = head * p.hidden + col;
    return in_fp32(kAdditions, dweights[i], sizes[i], p.weight_dtype);
  });
}

/// Checks all that can be done with these tensors: each pass has new ones.
void check_passes(const Types& types, const Layouts& at, bool weight_of_heads = false) {
  for (const rmsnorm_gate gate : {RMSNORM_GATE_LAST, RMSNORM_GATE_FIRST}) {
    CAPTURE(gate);
    const Passes passes(types, at, weight_of_heads), other(types, at, weight_of_heads);
    check_forward(passes, gate, RMSNORM_ROUND_ONCE);
    check_forward(other, gate, RMSNORM_ROUND_TWICE);
    if (passes.hidden <= 8192) check_backward(passes, gate);
  }
}

}  // namespace

TEST_CASE("the library's norms with a gate are right for rows of any length, in every type") {
  NEEDS_GPU();
  for (const int hidden : kHidden) {
    const std::int64_t rows = hidden > 5000 ? 2 : hidden > 1000 ? 5 : hidden > 300 ? 11 : 70;
    for (Types types : all_types()) {
      if (hidden > 5000 && types.dtype == Dtype::fp16) continue;  // bf16 is alike
      if (types.weight) types.weight_bias = 1;
      for (const int offset : {0, 1}) {
        if (is_cpu_device() && hidden > 1000 && offset == 1 && types.dtype != Dtype::bf16) continue;
        CAPTURE(to_string(types), hidden, offset);
        check_passes(types, all_at(contiguous({rows, hidden}, offset)));
      }
    }
  }
}

TEST_CASE("the gradients of a gated norm add up many rows, of several blocks") {
  NEEDS_GPU();
  const Types types = *types_named("bf16");
  check_passes(types, all_at(contiguous({2000, 64})));
  check_passes(types, all_at(contiguous({40, 8192})));
  check_passes(types, all_at(contiguous({400, 3, 72})), true);
}

TEST_CASE("norms with a gate may have weights of heads, and lie in any layout", "[memory]") {
  NEEDS_GPU();
  Draw draw{std::mt19937(20261129)};
  const std::vector<Types> all = all_types();
  for (int i = 0; i < in_time(150); ++i) {
    const int unit = draw(0, 2) == 0 ? 1 : 8;
    const int hidden = draw(0, 3) > 0 ? unit * draw(1, 300 / unit) : unit * draw(1, 3000 / unit);
    std::vector<std::int64_t> shape{draw(1, hidden > 300 ? 4 : 20), hidden};
    for (int k = draw(0, 2); k > 0; --k) shape.insert(shape.begin(), draw(1, 7));
    const Types& types = all[draw(0, static_cast<int>(all.size()) - 1)];
    const auto in = [&] { return random_layout(draw, shape, unit, false); };
    const auto out = [&] { return random_layout(draw, shape, unit, true); };
    const bool weight_of_heads = shape.size() > 2 && draw(0, 1) == 0;
    CAPTURE(to_string(types), i, hidden, unit, weight_of_heads);
    const Layouts at{in(), in(), out(), in(), out(), out()};
    check_passes(types, at, weight_of_heads);
  }
}

TEST_CASE(
    "the bits of a row with a gate are the same alone, among others, elsewhere and in place") {
  NEEDS_GPU();
  for (const int hidden : {33, 64, 128, 520, 1000, 4096, 20000}) {
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      CAPTURE(hidden, to_string(dtype));
      const std::int64_t rows = 5;
      const DeviceTensor weight(dtype, contiguous({hidden}), 1);
      // The numbers of tensors that begin with their arrays, so many elements further.
      const auto moved = [&](std::uint64_t seed, int offset) {
        const DeviceTensor here(dtype, contiguous({rows, hidden}), seed);
        std::vector<std::byte> bytes = here.array.bytes();
        bytes.insert(
            bytes.begin(), static_cast<std::size_t>(offset) * bytes_of(dtype), std::byte{0});
        return bytes;
      };
      // So many rows a call.
      const auto norms = [&](std::int64_t at_once, int offset, bool in_place, rmsnorm_gate gate,
                             rmsnorm_rounding rounding) {
        const Layout at = contiguous({rows, hidden}, offset);
        const DeviceTensor x(dtype, at, 2), z(dtype, at, 3), y(dtype, at, 4);
        x.array.fill(moved(2, offset));
        z.array.fill(moved(3, offset));
        const DeviceTensor& to = in_place ? x : y;
        for (std::int64_t row = 0; row < rows; row += at_once) {
          std::vector<std::int64_t> shape{at_once, hidden};
          const auto part = [&](const DeviceTensor& of) {
            return part_of(of.view, shape, row * hidden);
          };
          const DLTensor some_x = part(x), some_z = part(z), some_y = part(to);
          REQUIRE(
              rmsnorm_forward_gated(
                  &some_x, &some_z, &weight.view, &some_y, gate, rounding, kEps, 0, nullptr) ==
              RMSNORM_OK);
        }
        const std::vector<float> all = to.array.now();
        return std::vector<float>(
            all.begin() + offset, all.begin() + offset + rows * std::int64_t{hidden});
      };
      for (const auto gate : {RMSNORM_GATE_LAST, RMSNORM_GATE_FIRST}) {
        for (const auto rounding : {RMSNORM_ROUND_ONCE, RMSNORM_ROUND_TWICE}) {
          const std::vector<float> expected = norms(rows, 0, false, gate, rounding);
          CHECK(norms(1, 0, false, gate, rounding) == expected);
          CHECK(norms(rows, 1, false, gate, rounding) == expected);
          CHECK(norms(rows, 0, true, gate, rounding) == expected);
        }
      }
    }
  }
}
