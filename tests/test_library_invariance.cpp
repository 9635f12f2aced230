/// \file
/// The bits of a row depend on its values, hidden, the types and the weight, and on nothing else:
/// not on the rows that are with it, nor on where it lies.

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/base/device.hpp"
#include "common/contract/types.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "tests/dl_tensor.hpp"
#include "tests/gpu_support.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

/// What can be asked for. Of all but the last, y is the same.
enum class Pass { forward, pair, rstd, sum };

using Bytes = std::vector<std::byte>;

/// Where the tensors of a call lie.
struct Places {
  Layout x, y, residual;
  std::int64_t weight_offset = 0;
  std::int64_t chunk = 0;  ///< rows of a call, of tensors of 2 dimensions; 0: all
  bool in_place = false;   ///< y is x
};

/// So many rows of each tensor, side by side from a multiple of 256 bytes on.
Places contiguous_places(std::int64_t rows, std::int64_t hidden) {
  const Layout at = contiguous({rows, hidden});
  return {at, at, at};
}

Layout moved(Layout at, std::int64_t offset, std::int64_t gap) {
  at.offset = offset;
  at.strides[0] += gap;
  return at;
}

/// Copies some bytes from an element on to another.
void copy(
    const Bytes& from, std::int64_t from_element, Bytes& to, std::int64_t to_element,
    std::int64_t elements, Dtype dtype) {
  const std::int64_t size = bytes_of(dtype);
  std::copy_n(from.begin() + from_element * size, elements * size, to.begin() + to_element * size);
}

/// Distinct rows of one length beside one weight, and what becomes of each alone.
class Rows {
 public:
  Rows(const Types& types, std::int64_t hidden, int rows)
      : types_(types),
        x_(types.dtype, contiguous({rows, hidden}), 31),
        residual_(types.dtype, contiguous({rows, hidden}), 32),
        weight_(types.weight.value_or(Dtype::fp32), contiguous({hidden}), 33),
        x_bytes_(x_.array.bytes()),
        residual_bytes_(residual_.array.bytes()),
        weight_bytes_(weight_.array.bytes()) {
    for (const Pass pass : {Pass::forward, Pass::rstd, Pass::sum}) {
      for (int row = 0; row < rows; ++row) {
        alone_[pass].push_back(results(pass, {row}, contiguous_places(1, hidden)).front());
      }
    }
    alone_[Pass::pair] = alone_[Pass::forward];
    for (int row = 0; row < rows; ++row) {  // with rstd, y is the same
      Bytes y = alone_[Pass::rstd][row];
      y.resize(y.size() - sizeof(float));
      REQUIRE(y == alone_[Pass::forward][row]);
    }
  }

  /// Checks that the rows of these numbers have in one call the bits that each has alone. With
  /// rstd, y is not x.
  void check(
      const std::vector<int>& numbers, Places at,
      const std::vector<Pass>& passes = {Pass::rstd, Pass::forward, Pass::pair, Pass::sum}) const {
    const bool in_place = at.in_place;
    for (const Pass pass : passes) {
      at.in_place = in_place && pass != Pass::rstd;
      CAPTURE(hidden(), to_string(types_), at.x.strides, at.x.offset, static_cast<int>(pass));
      const std::vector<Bytes> got = results(pass, numbers, at);
      std::vector<std::size_t> wrong;
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (got[i] != alone_.at(pass)[numbers[i]]) wrong.push_back(i);
      }
      CHECK(wrong == std::vector<std::size_t>());
    }
  }

 private:
  std::int64_t hidden() const { return x_.layout.hidden(); }

  /// Of each row: y, and the sum or rstd.
  std::vector<Bytes> results(Pass pass, const std::vector<int>& numbers, const Places& at) const {
    const DeviceTensor x(types_.dtype, at.x, 1), other(types_.dtype, at.y, 2);
    const DeviceTensor& y = at.in_place ? x : other;
    const DeviceTensor residual(types_.dtype, at.residual, 3);
    const auto count = static_cast<std::int64_t>(numbers.size());
    const DeviceTensor rstd(Dtype::fp32, contiguous({count}), 4);
    const DeviceTensor weight(weight_.array.dtype(), contiguous({hidden()}, at.weight_offset), 5);
    place(x_bytes_, numbers, x);
    place(residual_bytes_, numbers, residual);
    Bytes factors = weight.array.bytes();
    copy(weight_bytes_, 0, factors, at.weight_offset, hidden(), weight.array.dtype());
    weight.array.fill(factors);

    const DLTensor* const w = types_.weight ? &weight.view : nullptr;
    const std::int64_t chunk = at.chunk > 0 ? at.chunk : count;
    for (std::int64_t begin = 0; begin < count; begin += chunk) {
      std::vector<std::int64_t> shape = x.layout.shape, rows = {std::min(chunk, count - begin)};
      if (at.chunk > 0) shape[0] = rows[0];
      const auto part = [&](const DeviceTensor& tensor) {
        return part_of(tensor.view, shape, begin * tensor.layout.strides[0]);
      };
      const DLTensor from = part(x), to = part(y), sum = part(residual);
      const DLTensor number = part_of(rstd.view, rows, begin);
      CHECK(call(pass, from, sum, w, to, number) == RMSNORM_OK);
    }

    const Bytes y_bytes = y.array.bytes(), sums = residual.array.bytes();
    const Bytes rstds = rstd.array.bytes();
    std::vector<Bytes> results;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t size = hidden() * bytes_of(types_.dtype);
      Bytes result(pass == Pass::sum ? 2 * size : pass == Pass::rstd ? size + sizeof(float) : size);
      copy(y_bytes, y.layout.row(i), result, 0, hidden(), types_.dtype);
      if (pass == Pass::sum) {
        copy(sums, residual.layout.row(i), result, hidden(), hidden(), types_.dtype);
      } else if (pass == Pass::rstd) {
        std::copy_n(rstds.begin() + i * sizeof(float), sizeof(float), result.begin() + size);
      }
      results.push_back(result);
    }
    return results;
  }

  void place(const Bytes& from, const std::vector<int>& numbers, const DeviceTensor& tensor) const {
    Bytes bytes = tensor.array.bytes();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::int64_t to = tensor.layout.row(static_cast<std::int64_t>(i));
      copy(from, numbers[i] * hidden(), bytes, to, hidden(), types_.dtype);
    }
    tensor.array.fill(bytes);
  }

  static rmsnorm_status call(
      Pass pass, const DLTensor& x, const DLTensor& residual, const DLTensor* weight,
      const DLTensor& y, const DLTensor& rstd) {
    if (pass == Pass::forward) return rmsnorm_forward(&x, weight, &y, kEps, 0, nullptr);
    if (pass == Pass::rstd) return rmsnorm_forward_rstd(&x, weight, &y, &rstd, kEps, 0, nullptr);
    if (pass == Pass::sum) return rmsnorm_residual_add(&x, &residual, weight, &y, kEps, 0, nullptr);
    // The first index by itself, and all others.
    std::vector<std::int64_t> one(x.shape, x.shape + x.ndim), others = one;
    one[0] = std::min<std::int64_t>(1, x.shape[0]);
    others[0] -= one[0];
    const DLTensor q = part_of(x, one, 0), q_out = part_of(y, one, 0);
    const DLTensor k = part_of(x, others, x.strides[0]), k_out = part_of(y, others, y.strides[0]);
    return rmsnorm_forward_pair(&q, weight, &q_out, &k, weight, &k_out, kEps, 0, nullptr);
  }

  Types types_;
  DeviceTensor x_, residual_, weight_;
  Bytes x_bytes_, residual_bytes_, weight_bytes_;
  std::map<Pass, std::vector<Bytes>> alone_;
};

/// Of tensors that were made from the same seed.
bool have_same_bits(const DeviceTensor& a, const DeviceTensor& b) {
  return a.array.bytes() == b.array.bytes();
}

}  // namespace

TEST_CASE("a row's bits do not depend on its address") {
  NEEDS_GPU();
  // For lanes of a warp, a warp, two, a block, a cluster; of whole vectors, and of parts of one.
  for (const int hidden : {1,   4,    9,    33,   64,   100,  111,  256,   512,   513,  769,
                           770, 1024, 1031, 4096, 4097, 8192, 8200, 12289, 12297, 20000}) {
    for (const Types& types : types_of_library()) {
      const Rows rows(types, hidden, 3);
      const int size = 16 / bytes_of(types.dtype);
      const int step = hidden > 2000 && is_cpu_device() ? 3 : 1;
      for (int offset = 0; offset < size; offset += step) {
        Places at = contiguous_places(3, hidden);
        at.x = moved(at.x, offset, offset % 3);
        at.y = moved(at.y, (3 * offset + 1) % size, offset % 2);
        at.residual = moved(at.residual, 5 * offset % size, offset / 2 % 2);
        at.weight_offset = offset / 2;
        at.in_place = offset % 2 == 1;
        rows.check({2, 0, 1}, at);
      }
    }
  }
}

TEST_CASE("a row's bits do not depend on the addresses of x and y, each at every other's") {
  NEEDS_GPU();
  for (const int hidden : {64, 100}) {
    for (const Types& types : types_of_library()) {
      const Rows rows(types, hidden, 2);
      const int size = 16 / bytes_of(types.dtype);
      for (int offset = 0; offset < size * size; ++offset) {
        Places at = contiguous_places(2, hidden);
        at.x.offset = offset % size;
        at.y.offset = offset / size;
        rows.check({1, 0}, at, {Pass::forward, Pass::sum});
      }
    }
  }
}

TEST_CASE("a long row's bits do not depend on its address", "[memory]") {
  NEEDS_GPU();
  for (const char* const name : {"fp32", "bf16/fp32", "fp16"}) {
    const Types types = *types_named(name);
    for (const int vectors : {2500, 9000, 32800}) {  // for clusters, and too many for any
      const int hidden = 16 / bytes_of(types.dtype) * vectors;
      const Rows rows(types, hidden, 2);
      for (const int offset : {0, 1, 2}) {
        Places at = contiguous_places(2, hidden);
        at.x.offset = offset;
        at.y.offset = offset / 2;
        at.residual.offset = offset;
        rows.check({1, 0}, at);
      }
    }
  }
}

TEST_CASE("a row has the same bits where a part of a GPU holds no cluster for it") {
  NEEDS_GPU();
  if (!is_cpu_device()) SKIP_TEST("clusters are those of the GPU");
  const Rows rows(*types_named("bf16"), 20000, 2);  // with clusters
  for (const cudaError_t error : kNoClusters) {
    limit_clusters(1, error);
    CAPTURE(error);
    rows.check({1, 0}, contiguous_places(2, 20000));
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  limit_clusters(0);
}

TEST_CASE("a row's bits do not depend on the rows that are with it") {
  NEEDS_GPU();
  const auto seed = std::random_device()();
  std::mt19937 engine(seed);
  CAPTURE(seed);
  const std::int64_t most = is_cpu_device() ? 70000 : 4000000;  // elements
  for (const int hidden : {64, 100, 512, 769, 1024, 4096, 20000}) {
    for (const Types& types : types_of_library()) {
      constexpr int kDistinct = 5;
      const Rows rows(types, hidden, kDistinct);
      for (const int count : {2, 3, 8, 33, 130, 1025}) {
        if (std::int64_t{count} * hidden > most) continue;
        std::vector<int> numbers(count);
        std::iota(numbers.begin(), numbers.end(), 0);
        std::shuffle(numbers.begin(), numbers.end(), engine);
        for (int& number : numbers) number %= kDistinct;
        Places at = contiguous_places(count, hidden);
        for (const bool is_in_chunks : {false, true}) {
          if (is_in_chunks) at.chunk = 1 + count / 3;
          CAPTURE(count, is_in_chunks);
          rows.check(numbers, at);
        }
      }
    }
  }
}

TEST_CASE("a row's bits do not depend on how the dimensions lie") {
  NEEDS_GPU();
  for (const std::int64_t hidden : {33, 64, 769, 4096, 20000}) {
    for (const Types& types : types_of_library()) {
      const Rows rows(types, hidden, 4);
      const std::vector<int> numbers = {0, 1, 2, 3, 3, 0, 1, 2};
      const auto at = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
        return Layout{{2, 2, 2, hidden}, {a * hidden, b * hidden, c * hidden, 1}};
      };
      const Layout leaping{{2, 2, 2, hidden}, {9 * hidden, hidden, 3 * hidden + 1, 1}};
      for (const Places& places :
           {Places{at(4, 2, 1), at(4, 2, 1), at(1, 2, 4)},
            {at(1, 4, 2), at(2, 4, 1), at(4, 1, 2)},
            {at(1, 2, 4), leaping, at(4, 2, 1)},
            {leaping, at(4, 2, 1), leaping}}) {
        rows.check(numbers, places);
      }
    }
  }
}

TEST_CASE("beside a weight of heads, a row has the bits that it has beside its head's alone") {
  NEEDS_GPU();
  constexpr std::int64_t kTokens = 2, kHeads = 3;
  for (const std::int64_t hidden : {64, 100, 4096, 20000}) {
    for (const Types& types : types_of_library()) {
      if (!types.weight) continue;
      const Layout at = contiguous({kTokens, kHeads, hidden});
      const DeviceTensor x(types.dtype, at, 1), y(types.dtype, at, 2), y_alone(types.dtype, at, 2);
      const DeviceTensor weight(*types.weight, contiguous({kHeads, hidden}), 4);
      for (const bool is_sum : {false, true}) {
        const DeviceTensor residual(types.dtype, at, 5), other(types.dtype, at, 5);
        const auto call = [&](const DLTensor& from, const DLTensor& sum, const DLTensor& factors,
                              const DLTensor& to) {
          return is_sum ? rmsnorm_residual_add(&from, &sum, &factors, &to, kEps, 0, nullptr)
                        : rmsnorm_forward(&from, &factors, &to, kEps, 0, nullptr);
        };
        REQUIRE(call(x.view, residual.view, weight.view, y.view) == RMSNORM_OK);
        for (std::int64_t head = 0; head < kHeads; ++head) {
          std::vector<std::int64_t> shape = {kTokens, 1, hidden}, of_weight = {hidden};
          const auto part = [&](const DeviceTensor& tensor) {
            return part_of(tensor.view, shape, head * hidden);
          };
          DLTensor factors = part_of(weight.view, of_weight, head * hidden);
          factors.strides = nullptr;
          REQUIRE(call(part(x), part(other), factors, part(y_alone)) == RMSNORM_OK);
        }
        CAPTURE(hidden, to_string(types), is_sum);
        CHECK(have_same_bits(y, y_alone));
        CHECK(have_same_bits(residual, other));
      }
    }
  }
}

TEST_CASE("queries have the same bits, whether or not there is a weight for the keys") {
  NEEDS_GPU();
  for (const std::int64_t hidden : {64, 100, 4096, 20000}) {
    for (const Types& types : types_of_library()) {
      if (!types.weight) continue;
      const Layout at = contiguous({3, hidden});
      const DeviceTensor x(types.dtype, at, 1), weight(*types.weight, contiguous({hidden}), 2);
      const DeviceTensor with(types.dtype, at, 3), without(types.dtype, at, 3);
      const DeviceTensor q(types.dtype, at, 3), k(types.dtype, at, 3);
      const auto norm = [&](const DLTensor* factors, const DeviceTensor& y) {
        REQUIRE(rmsnorm_forward(&x.view, factors, &y.view, kEps, 0, nullptr) == RMSNORM_OK);
      };
      norm(&weight.view, with);
      norm(nullptr, without);
      REQUIRE(
          rmsnorm_forward_pair(
              &x.view, &weight.view, &q.view, &x.view, nullptr, &k.view, kEps, 0, nullptr) ==
          RMSNORM_OK);
      CAPTURE(hidden, to_string(types));
      CHECK(have_same_bits(q, with));
      CHECK(have_same_bits(k, without));
    }
  }
}
