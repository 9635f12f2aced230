/// \file
/// librmsnorm computes RMSNorm for every layout that it takes, and touches nothing else.

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/base/observation.hpp"
#include "common/contract/types.hpp"
#include "common/operations/rms_norm.hpp"
#include "common/verify/verifier.hpp"
#include "tests/dl_tensor.hpp"
#include "tests/gpu_support.hpp"
#include "tests/staged_row.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

constexpr float kEps = 0x1p-10f;
constexpr Dtype kTypes[] = {Dtype::fp32, Dtype::fp16, Dtype::bf16};

/// How far rounding can move y, as a part of it: that of an fp32 kernel, and once more that to the
/// type. No kernel adds a square more often than this.
double bound(Dtype dtype) {
  const double half_ulp = dtype == Dtype::fp32 ? 0 : dtype == Dtype::fp16 ? 0x1p-11 : 0x1p-8;
  return rms_norm_bound(64, {}) + half_ulp * 1.001;
}

/// Checks y against what was normed and the weight, and that nothing else of y's array changed.
void check_result(
    const std::vector<float>& x, const Layout& x_at, const std::vector<float>& weight, float bias,
    const DeviceArray& y, const Layout& y_at) {
  std::vector<float> expected_bytes = y.before();
  const std::vector<float> got = y.now();
  std::vector<bool> is_result(got.size());
  const double allowed = bound(y.dtype());
  std::int64_t wrong = 0;
  for (std::int64_t row = 0; row < x_at.rows(); ++row) {
    const float* const from = x.data() + x_at.row(row);
    double sum = 0;
    for (std::int64_t col = 0; col < x_at.hidden(); ++col) sum += double{from[col]} * from[col];
    const double rstd = reference_rstd(sum, static_cast<int>(x_at.hidden()), kEps);
    for (std::int64_t col = 0; col < x_at.hidden(); ++col) {
      const std::int64_t at = y_at.row(row) + col;
      is_result[at] = true;
      const double factor = double{weight.empty() ? 1 : weight[col]} + bias;
      const double expected = from[col] * rstd * factor;
      if (std::fabs(got[at] - expected) <= allowed * std::fabs(expected) + 0x1p-24) continue;
      if (wrong++ == 0) {
        UNSCOPED_INFO(
            "row " << row << ", column " << col << ": " << got[at] << " instead of " << expected);
      }
    }
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (is_result[i] || got[i] == y.before()[i]) continue;
    if (wrong++ == 0) UNSCOPED_INFO("element " << i << " of the array is not y's, and changed");
  }
  CHECK(wrong == 0);
}

/// One call of rmsnorm_forward, checked.
struct Call {
  Dtype dtype = Dtype::bf16;
  std::optional<Dtype> weight_dtype = Dtype::bf16;  // none: no weight
  Layout x, y;
  std::int64_t weight_offset = 0;
  float bias = 0;
};

/// From the layout's first element to its last: what a kernel may touch.
KnownMemory extent(const std::string& name, const DeviceArray& array, const Layout& layout) {
  std::int64_t begin = layout.row(0);
  std::int64_t end = begin;
  for (std::int64_t row = 0; row < layout.rows(); ++row) {
    begin = std::min(begin, layout.row(row));
    end = std::max(end, layout.row(row) + layout.hidden());
  }
  const auto bytes = static_cast<int>(bytes_of(array.dtype()));
  const auto size = static_cast<std::size_t>(end - begin) * bytes;
  return {name, static_cast<const char*>(array.data()) + begin * bytes, size, bytes};
}

void check_call(Call call) {
  const DeviceArray x(call.dtype, size_for(call.x), 1);
  const DeviceArray y(call.dtype, size_for(call.y), 2);
  Layout weight_at = contiguous({call.x.hidden()}, call.weight_offset);
  const DeviceArray weight(
      call.weight_dtype.value_or(Dtype::fp32), call.weight_offset + call.x.hidden(), 3);
  const DLTensor x_view = view_of(x, call.x);
  const DLTensor y_view = view_of(y, call.y);
  const DLTensor weight_view = view_of(weight, weight_at);
  std::vector<KnownMemory> touched{extent("x", x, call.x), extent("y", y, call.y)};
  if (call.weight_dtype) touched.push_back(extent("weight", weight, weight_at));
  start_observing(touched);
  const rmsnorm_status status = rmsnorm_forward(
      &x_view, call.weight_dtype ? &weight_view : nullptr, &y_view, kEps, call.bias, nullptr);
  INFO(rmsnorm_last_error());
  REQUIRE(status == RMSNORM_OK);
  std::vector<float> factors;
  if (call.weight_dtype) {
    const auto begin = weight.before().begin() + call.weight_offset;
    factors.assign(begin, begin + call.x.hidden());
  }
  check_result(x.before(), call.x, factors, call.bias, y, call.y);
  stop_observing();
  CHECK(take_hazards() == std::vector<std::string>());
}

std::string text(const Call& call) {
  std::string text = to_string(Types{call.dtype, call.weight_dtype, call.bias}) + ", weight from " +
                     std::to_string(call.weight_offset);
  for (const Layout& at : {call.x, call.y}) {
    for (const std::int64_t size : at.shape) text += ", " + std::to_string(size);
    for (const std::int64_t stride : at.strides) text += " / " + std::to_string(stride);
    text += " from " + std::to_string(at.offset);
  }
  return text;
}

/// One call of rmsnorm_residual_add, checked.
struct ResidualCall {
  Types types;
  Layout x, residual, y;
  bool in_place = false;
};

void check_residual_call(ResidualCall call) {
  const auto& [dtype, weight_dtype, bias] = call.types;
  const std::int64_t hidden = call.x.hidden();
  const DeviceArray x(dtype, size_for(call.x), 14);
  const DeviceArray residual(dtype, size_for(call.residual), 15);
  const DeviceArray other(dtype, size_for(call.y), 16);
  const DeviceArray& y = call.in_place ? x : other;
  const DeviceArray weight(weight_dtype.value_or(Dtype::fp32), hidden, 17);
  Layout weight_at = contiguous({hidden});
  const DLTensor x_view = view_of(x, call.x);
  const DLTensor residual_view = view_of(residual, call.residual);
  const DLTensor y_view = view_of(y, call.y);
  const DLTensor weight_view = view_of(weight, weight_at);
  start_observing(
      {extent("x", x, call.x), extent("residual", residual, call.residual), extent("y", y, call.y),
       extent("weight", weight, weight_at)});
  const rmsnorm_status status = rmsnorm_residual_add(
      &x_view, &residual_view, weight_dtype ? &weight_view : nullptr, &y_view, kEps, bias, nullptr);
  INFO(rmsnorm_last_error());
  REQUIRE(status == RMSNORM_OK);

  const std::vector<float> stored = residual.now();
  std::vector<float> expected = residual.before();
  std::vector<float> sums;  // in fp32
  for (std::int64_t row = 0; row < call.x.rows(); ++row) {
    for (int col = 0; col < hidden; ++col) {
      float& element = expected[call.residual.row(row) + col];
      sums.push_back(x.before()[call.x.row(row) + col] + element);
      element = rounded(dtype, sums.back());
    }
  }
  CHECK(stored == expected);  // and nothing beside the rows has changed
  const std::vector<float> factors = weight_dtype ? weight.before() : std::vector<float>();
  check_result(sums, contiguous({call.x.rows(), hidden}), factors, bias, y, call.y);
  stop_observing();
  CHECK(take_hazards() == std::vector<std::string>());
}

}  // namespace

TEST_CASE("the library norms contiguous rows of any length, in every type") {
  NEEDS_GPU();
  for (const int hidden :
       {1,    2,    3,    7,    8,    9,     16,    17,    33,    64,    96,    111,
        128,  129,  255,  256,  257,  511,   512,   769,   1000,  1024,  1025,  1031,
        2048, 4095, 4096, 5120, 8192, 12289, 16384, 40000, 65536, 70001, 131072}) {
    for (const Types& types : all_types()) {
      const std::int64_t rows = hidden > 10000 ? 2 : hidden > 300 ? 5 : 67;
      const Call call{
          types.dtype, types.weight, contiguous({rows, hidden}), contiguous({rows, hidden})};
      INFO(text(call));
      check_call(call);
    }
  }
}

TEST_CASE("the library norms rows at any address, x and y and weight each at their own") {
  NEEDS_GPU();
  // The last two: all that the registers of a block hold in fp32 and in 16 bits, less a little.
  for (const int hidden : {1, 8, 13, 64, 111, 256, 769, 4096, 4097, 9001, 32767, 65533}) {
    for (int offset = 0; offset < 9; ++offset) {
      for (const Types& types : all_types()) {
        Call call{
            types.dtype, types.weight, contiguous({4, hidden}, offset),
            contiguous({4, hidden}, offset * 5 % 9)};
        call.weight_offset = offset * 7 % 9;
        call.x.strides[0] += offset * 2 % 9;
        call.y.strides[0] += offset * 4 % 9;
        INFO(text(call));
        check_call(call);
      }
    }
  }
}

TEST_CASE("the library norms random layouts of two and three dimensions") {
  NEEDS_GPU();
  std::mt19937 random(20261121);
  const auto draw = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  for (int i = 0; i < 400; ++i) {
    const int hidden = draw(0, 3) == 0 ? draw(1, 5000) : draw(1, 300);
    const int outer = draw(1, 5);
    const int inner = draw(1, 9);
    Call call;
    const std::vector<Types> types = all_types();
    const Types& drawn = types[draw(0, static_cast<int>(types.size()) - 1)];
    call.dtype = drawn.dtype;
    call.weight_dtype = drawn.weight;
    call.x = random_layout(random, outer, inner, hidden, 1, false);
    call.y = random_layout(random, outer, inner, hidden, 1, true);
    call.weight_offset = draw(0, 1) * draw(0, 9);
    if (call.weight_dtype) call.bias = static_cast<float>(draw(0, 1));
    if (draw(0, 1) == 0) {  // the same in two dimensions: the first alone
      for (Layout* at : {&call.x, &call.y}) {
        at->shape.erase(at->shape.begin() + 1);
        at->strides.erase(at->strides.begin() + 1);
      }
    }
    INFO(text(call));
    check_call(call);
  }
}

TEST_CASE(
    "rows are stored in vectors, wherever x and y begin, and of x each takes 24 bytes at most") {
  NEEDS_GPU();
  if (!can_observe()) SKIP_TEST("this build cannot watch kernels");
  constexpr std::int64_t kRows = 4, kVectors = 500;
  for (int x_offset = 0; x_offset < 8; ++x_offset) {
    for (int y_offset = 0; y_offset < 8; ++y_offset) {
      CAPTURE(x_offset, y_offset);
      Layout x_at = contiguous({kRows, kVectors * 8}, x_offset);
      Layout y_at = contiguous({kRows, kVectors * 8}, y_offset);
      const DeviceArray x(Dtype::bf16, kRows * kVectors * 8 + 8, 12);
      const DeviceArray y(Dtype::bf16, kRows * kVectors * 8 + 8, 13);
      const DLTensor x_view = view_of(x, x_at);
      const DLTensor y_view = view_of(y, y_at);
      start_observing({extent("x", x, x_at), extent("y", y, y_at)});
      REQUIRE(rmsnorm_forward(&x_view, nullptr, &y_view, kEps, 0, nullptr) == RMSNORM_OK);
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      std::int64_t loaded = 0;    // bytes, in vectors or halves of them
      std::int64_t stores = 0;    // of 16 bytes
      std::int64_t elements = 0;  // loaded or stored alone
      for (const LineCount& line : stop_observing().lines) {
        if (line.bytes == 2) elements += line.lanes;
        if (line.bytes >= 8 && line.kind == "global load") loaded += line.bytes * line.lanes;
        if (line.bytes == 16 && line.kind == "global store") stores += line.lanes;
      }
      const bool same = x_offset == y_offset;
      constexpr int kEnds = 24;    // elements of a row: the first 8 and the last 16
      constexpr int kStarts = 24;  // and the first 8 of the other warps, for the sum
      CHECK(stores >= kRows * (kVectors - 2));
      CHECK(loaded <= kRows * kVectors * (same ? 16 : 24));
      // loaded and stored; windows at the ends
      CHECK(elements <= kRows * (2 * kEnds + kStarts + 2 * 8));
      CHECK(take_hazards() == std::vector<std::string>());
    }
  }
}

TEST_CASE("a row's bits do not depend on its address") {
  NEEDS_GPU();
  for (const int hidden : {1, 9, 33, 111, 513, 769, 1031, 4097, 12289, 40001}) {  // none of vectors
    for (const Types& types : all_types()) {
      Layout weight_at = contiguous({hidden});
      const DeviceArray weight(types.weight.value_or(Dtype::fp32), hidden, 21);
      const DLTensor weight_view = view_of(weight, weight_at);
      const DeviceArray row(types.dtype, hidden, 22);
      std::vector<float> first;
      for (int offset = 0; offset < 8; ++offset) {
        CAPTURE(hidden, to_string(types), offset);
        Layout x_at = contiguous({1, hidden}, offset * 3 % 8);
        Layout y_at = contiguous({1, hidden}, offset);
        const DeviceArray x(types.dtype, hidden + 8, 23);
        const DeviceArray y(types.dtype, hidden + 8, 24);
        const auto bytes = static_cast<std::int64_t>(bytes_of(types.dtype));
        REQUIRE(
            cudaMemcpy(
                static_cast<char*>(x.data()) + x_at.offset * bytes, row.data(), hidden * bytes,
                cudaMemcpyDeviceToDevice) == cudaSuccess);
        const DLTensor x_view = view_of(x, x_at);
        const DLTensor y_view = view_of(y, y_at);
        REQUIRE(
            rmsnorm_forward(
                &x_view, types.weight ? &weight_view : nullptr, &y_view, kEps, 0, nullptr) ==
            RMSNORM_OK);
        const std::vector<float> all = y.now();
        const std::vector<float> got(all.begin() + offset, all.begin() + offset + hidden);
        if (offset == 0) first = got;
        CHECK(got == first);
      }
    }
  }
}

TEST_CASE("the library norms in place") {
  NEEDS_GPU();
  for (const int hidden : {1, 8, 111, 128, 769, 4096, 12289, 70001}) {
    for (const Dtype dtype : kTypes) {
      for (const int offset : {0, 1}) {
        CAPTURE(hidden, static_cast<int>(dtype), offset);
        Layout at{{3, 2, hidden}, {2 * hidden + 7, hidden, 1}, offset};
        const DeviceArray x(dtype, 3 * (2 * hidden + 7) + 9, 4);
        const DLTensor view = view_of(x, at);
        REQUIRE(rmsnorm_forward(&view, nullptr, &view, kEps, 0, nullptr) == RMSNORM_OK);
        check_result(x.before(), at, {}, 0, x, at);
        CHECK(take_hazards() == std::vector<std::string>());
      }
    }
  }
}

TEST_CASE("strides of null are those of a contiguous tensor") {
  NEEDS_GPU();
  Layout at = contiguous({3, 5, 64});
  const DeviceArray x(Dtype::bf16, 3 * 5 * 64, 5);
  const DeviceArray y(Dtype::bf16, 3 * 5 * 64, 6);
  DLTensor x_view = view_of(x, at);
  DLTensor y_view = view_of(y, at);
  x_view.strides = y_view.strides = nullptr;
  REQUIRE(rmsnorm_forward(&x_view, nullptr, &y_view, kEps, 0, nullptr) == RMSNORM_OK);
  check_result(x.before(), at, {}, 0, y, at);
}

TEST_CASE("a size of 1 has no stride that could be wrong") {
  NEEDS_GPU();
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  Layout x_at{{1, 1, 64}, {-7, kLargest, 1}, 0};
  Layout y_at{{1, 1, 64}, {-kLargest, 1, 1}, 0};
  const DeviceArray x(Dtype::bf16, 64, 5);
  const DeviceArray y(Dtype::bf16, 64, 6);
  const DLTensor x_view = view_of(x, x_at);
  const DLTensor y_view = view_of(y, y_at);
  REQUIRE(rmsnorm_forward(&x_view, nullptr, &y_view, kEps, 0, nullptr) == RMSNORM_OK);
  check_result(x.before(), x_at, {}, 0, y, y_at);

  Layout column{{4, 1}, {3, 99}, 0};  // one column: its stride is never used
  const DLTensor x_column = view_of(x, column);
  const DLTensor y_column = view_of(y, column);
  REQUIRE(rmsnorm_forward(&x_column, nullptr, &y_column, kEps, 0, nullptr) == RMSNORM_OK);
}

TEST_CASE("queries and keys are normed in one launch, as parts of one tensor and in place") {
  NEEDS_GPU();
  for (const int head_dim : {33, 64, 128, 256, 769}) {
    for (const Dtype dtype : kTypes) {
      CAPTURE(head_dim, static_cast<int>(dtype));
      const std::int64_t tokens = 13, q_heads = 6, k_heads = 2, heads = 10;  // 2 are the values'
      Layout q_at{{tokens, q_heads, head_dim}, {heads * head_dim, head_dim, 1}, 0};
      Layout k_at{{tokens, k_heads, head_dim}, {heads * head_dim, head_dim, 1}, 6 * head_dim};
      Layout weight_at = contiguous({head_dim});
      const DeviceArray qkv(dtype, tokens * heads * head_dim, 7);
      const DeviceArray q_weight(dtype, head_dim, 8);
      const DeviceArray k_weight(dtype, head_dim, 9);
      const DLTensor q = view_of(qkv, q_at);
      const DLTensor k = view_of(qkv, k_at);
      const DLTensor q_factors = view_of(q_weight, weight_at);
      const DLTensor k_factors = view_of(k_weight, weight_at);
      const rmsnorm_status status =
          rmsnorm_forward_pair(&q, &q_factors, &q, &k, &k_factors, &k, kEps, 1, nullptr);
      INFO(rmsnorm_last_error());
      REQUIRE(status == RMSNORM_OK);

      // Each in turn: what it left alone in the array is what the other changed, and the values.
      const std::vector<float> now = qkv.now();
      for (std::int64_t token = 0; token < tokens; ++token) {
        for (std::int64_t at = (token * heads + 8) * head_dim; at < (token + 1) * heads * head_dim;
             ++at) {
          REQUIRE(now[at] == qkv.before()[at]);
        }
      }
      const auto check_part = [&](const Layout& at, const DeviceArray& weight) {
        for (std::int64_t row = 0; row < at.rows(); ++row) {
          const float* const from = qkv.before().data() + at.row(row);
          double sum = 0;
          for (int col = 0; col < head_dim; ++col) sum += double{from[col]} * from[col];
          const double rstd = reference_rstd(sum, head_dim, kEps);
          for (int col = 0; col < head_dim; ++col) {
            const double expected = from[col] * rstd * (double{weight.before()[col]} + 1);
            const double error = std::fabs(now[at.row(row) + col] - expected);
            REQUIRE(error <= bound(dtype) * std::fabs(expected) + 0x1p-24);
          }
        }
      };
      check_part(q_at, q_weight);
      check_part(k_at, k_weight);
      CHECK(take_hazards() == std::vector<std::string>());
    }
  }
}

TEST_CASE("rows may be further apart than 32 bits can say") {
  NEEDS_GPU();
  constexpr std::int64_t kHidden = 64, kFar = (std::int64_t{1} << 31) + 8;  // elements
  constexpr std::size_t kRowBytes = kHidden * 2;
  char* memory = nullptr;  // not a DeviceArray: nothing fills what is between the rows
  if (cudaMalloc(&memory, 2 * (kFar + kHidden + 1)) != cudaSuccess) {
    cudaGetLastError();
    SKIP_TEST("there is no memory for them");
  }
  for (const std::int64_t offset : {0, 1}) {
    Layout near_at = contiguous({2, kHidden}, offset);
    Layout far_at{{2, kHidden}, {kFar, 1}, offset};
    const DeviceArray source(Dtype::bf16, 2 * kHidden + 1, 18);
    const DeviceArray near(Dtype::bf16, 2 * kHidden + 1, 19);
    const auto copy_rows = [&](void* to, const Layout& to_at, const void* from,
                               const Layout& from_at) {
      for (const int row : {0, 1}) {
        REQUIRE(
            cudaMemcpy(
                static_cast<char*>(to) + 2 * to_at.row(row),
                static_cast<const char*>(from) + 2 * from_at.row(row), kRowBytes,
                cudaMemcpyDeviceToDevice) == cudaSuccess);
      }
    };
    const DLTensor source_view = view_of(source, near_at);
    const DLTensor near_view = view_of(near, near_at);
    DLTensor far = view_of(source, far_at);
    far.data = memory;
    REQUIRE(rmsnorm_forward(&source_view, nullptr, &near_view, kEps, 0, nullptr) == RMSNORM_OK);
    const std::vector<float> expected = near.now();
    copy_rows(memory, far_at, source.data(), near_at);
    REQUIRE(rmsnorm_forward(&far, nullptr, &far, kEps, 0, nullptr) == RMSNORM_OK);
    copy_rows(near.data(), near_at, memory, far_at);
    CHECK(near.now() == expected);

    const DeviceArray residual(Dtype::bf16, 2 * kHidden + 1, 20);
    const DeviceArray other(Dtype::bf16, 2 * kHidden + 1, 20);
    const DLTensor residual_view = view_of(residual, near_at);
    const DLTensor other_view = view_of(other, near_at);
    REQUIRE(
        rmsnorm_residual_add(&source_view, &residual_view, nullptr, &near_view, kEps, 0, nullptr) ==
        RMSNORM_OK);
    const std::vector<float> expected_of_sum = near.now();
    copy_rows(memory, far_at, source.data(), near_at);
    REQUIRE(rmsnorm_residual_add(&far, &other_view, nullptr, &far, kEps, 0, nullptr) == RMSNORM_OK);
    copy_rows(near.data(), near_at, memory, far_at);
    CHECK(near.now() == expected_of_sum);
    CHECK(other.now() == residual.now());
  }
  CHECK(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("of queries and keys, either may lack a weight, or be empty") {
  NEEDS_GPU();
  constexpr int kHidden = 64;
  for (const std::int64_t offset : {0, 1}) {
    for (const int lacking : {0, 1}) {  // q or k
      for (const int empty : {-1, 0, 1}) {
        CAPTURE(offset, lacking, empty);
        Layout at[2], weight_at = contiguous({kHidden});
        for (int i = 0; i < 2; ++i)
          at[i] = contiguous({i == empty ? 0 : 5, 2 + i, kHidden}, offset);
        const DeviceArray q(Dtype::bf16, 1000, 1), k(Dtype::bf16, 1000, 2);
        const DeviceArray q_out(Dtype::bf16, 1000, 3), k_out(Dtype::bf16, 1000, 4);
        const DeviceArray weight(Dtype::fp32, kHidden, 5);
        const DLTensor q_view = view_of(q, at[0]), k_view = view_of(k, at[1]);
        const DLTensor q_to = view_of(q_out, at[0]), k_to = view_of(k_out, at[1]);
        const DLTensor factors = view_of(weight, weight_at);
        const DLTensor* const q_weight = lacking == 0 ? nullptr : &factors;
        const DLTensor* const k_weight = lacking == 1 ? nullptr : &factors;
        REQUIRE(
            rmsnorm_forward_pair(
                &q_view, q_weight, &q_to, &k_view, k_weight, &k_to, kEps, 0, nullptr) ==
            RMSNORM_OK);
        const std::vector<float> none;
        check_result(q.before(), at[0], lacking == 0 ? none : weight.before(), 0, q_out, at[0]);
        check_result(k.before(), at[1], lacking == 1 ? none : weight.before(), 0, k_out, at[1]);
      }
    }
  }
}

TEST_CASE("of a row that is too long for a GPU's shared memory, less is kept there") {
  constexpr int kVectors = 131072 / 8;
  CHECK(staged_bytes_of_row(kVectors, 226 << 10) == 192 << 10);
  CHECK(staged_bytes_of_row(kVectors, 98 << 10) == 96 << 10);
  CHECK(staged_bytes_of_row(kVectors, 15 << 10) == 0);
}

TEST_CASE("the library norms the sum with a residual, and stores it rounded") {
  NEEDS_GPU();
  for (const int hidden : {1, 7, 128, 512, 513, 769, 2048, 4096, 5121, 8192, 16385, 49152}) {
    for (Types types : all_types()) {
      if (types.weight) types.weight_bias = 1;
      for (const int variant : {0, 1, 2, 3}) {  // contiguous; gaps; odd addresses; in place
        CAPTURE(hidden, to_string(types), variant);
        const std::int64_t rows = hidden > 5000 ? 2 : 6;
        const std::int64_t gap = variant == 1 ? 8 : variant == 2 ? 5 : 0;
        const auto layout = [&](std::int64_t offset) {
          Layout at = contiguous({rows / 2, 2, hidden}, variant == 2 ? offset : 0);
          at.strides = {2 * (hidden + gap), hidden + gap, 1};
          return at;
        };
        check_residual_call({types, layout(1), layout(2), layout(3), variant == 3});
      }
    }
  }
}

TEST_CASE("the library norms sums in random layouts of three dimensions") {
  NEEDS_GPU();
  std::mt19937 random(20261122);
  const auto draw = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  const std::vector<Types> types = all_types();
  for (int i = 0; i < 200; ++i) {
    const int unit = draw(0, 1) == 0 ? 1 : 8;
    const int hidden = unit * (draw(0, 3) == 0 ? draw(1, 5000 / unit) : draw(1, 300 / unit));
    const int outer = draw(1, 9);
    const int inner = draw(1, 9);
    const auto layout = [&](bool is_output) {
      return random_layout(random, outer, inner, hidden, unit, is_output);
    };
    const Types& drawn = types[draw(0, static_cast<int>(types.size()) - 1)];
    CAPTURE(to_string(drawn), outer, inner, hidden, unit);
    check_residual_call({drawn, layout(false), layout(true), layout(true)});
  }
}

TEST_CASE("empty tensors launch nothing and need no memory") {
  constexpr std::int64_t kMany = std::int64_t{1} << 62;  // of nothing
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{0, 64}, {4, 0}, {0, 3, 64}, {3, 0, 64}, {kMany, kMany, 0}}) {
    Layout at = contiguous(shape);
    DLTensor x{};
    x.device = {kDLCUDA, 0};
    x.ndim = static_cast<int>(shape.size());
    x.dtype = dl_type(Dtype::bf16);
    x.shape = at.shape.data();
    const DLTensor y = x;
    NEEDS_GPU();
    CHECK(rmsnorm_forward(&x, nullptr, &y, kEps, 0, nullptr) == RMSNORM_OK);
    CHECK(rmsnorm_forward_pair(&x, nullptr, &y, &x, nullptr, &y, kEps, 0, nullptr) == RMSNORM_OK);
    CHECK(rmsnorm_residual_add(&x, &y, nullptr, &x, kEps, 0, nullptr) == RMSNORM_OK);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
  }
}

TEST_CASE("NaN and infinity stay in their row") {
  NEEDS_GPU();
  Layout at = contiguous({3, 128});
  const DeviceArray x(Dtype::fp32, 3 * 128, 10);
  const DeviceArray y(Dtype::fp32, 3 * 128, 11);
  const float nan = NAN, inf = INFINITY;
  auto* const data = static_cast<float*>(x.data());
  REQUIRE(cudaMemcpy(data, &nan, sizeof nan, cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(cudaMemcpy(data + 128, &inf, sizeof inf, cudaMemcpyHostToDevice) == cudaSuccess);
  const DLTensor x_view = view_of(x, at);
  const DLTensor y_view = view_of(y, at);
  REQUIRE(rmsnorm_forward(&x_view, nullptr, &y_view, kEps, 0, nullptr) == RMSNORM_OK);
  const std::vector<float> got = y.now();
  for (int col = 0; col < 128; ++col) {
    CHECK(std::isnan(got[col]));                                     // NaN times anything
    CHECK((col == 0 ? std::isnan(got[128]) : got[128 + col] == 0));  // Inf times 0, or x times 0
    CHECK(std::isfinite(got[256 + col]));
  }
}
