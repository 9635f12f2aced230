/// \file
/// librmsnorm's norms are right for every layout that they take, and touch nothing else. Its passes
/// for training: test_library_training.cpp.

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/contract/types.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "tests/dl_tensor.hpp"
#include "tests/gpu_support.hpp"
#include "tests/plan_of_row.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

constexpr Dtype kTypes[] = {Dtype::fp32, Dtype::fp16, Dtype::bf16};

/// Checks that y is the norm of x, and that nothing else of its array has changed.
void check_norm(
    const DeviceTensor& y, const Values& x, const DeviceTensor* weight = nullptr, float bias = 0) {
  check_elements(y, norm_of(x, y.layout, y.array.dtype(), factors_of(weight, bias)));
}

rmsnorm_status norm(
    const DLTensor& x, const DLTensor& y, const DLTensor* weight = nullptr, float bias = 0) {
  return rmsnorm_forward(&x, weight, &y, kEps, bias, nullptr);
}

void check_call(const NormCall& call) {
  INFO(text(call));
  const auto& [dtype, weight_dtype, bias] = call.types;
  const DeviceTensor x(dtype, call.x, 1), other(dtype, call.y, 2),
      residual(call.residual_dtype.value_or(dtype), call.residual.value_or(call.x), 3),
      weight(weight_dtype.value_or(Dtype::fp32), weight_layout(call), 4);
  const DeviceTensor& y = call.in_place ? x : other;
  const DLTensor* const factors = weight_dtype ? &weight.view : nullptr;
  std::vector<KnownMemory> touched{extent("x", x), extent("y", y)};
  if (weight_dtype) touched.push_back(extent("weight", weight));
  if (call.residual) touched.push_back(extent("residual", residual));
  call_watched(touched, [&] {
    if (!call.residual) return norm(x.view, y.view, factors, bias);
    return rmsnorm_residual_add(&x.view, &residual.view, factors, &y.view, kEps, bias, nullptr);
  });
  const Values sum = check_sum(x, call.residual ? &residual : nullptr);
  check_norm(y, sum, weight_dtype ? &weight : nullptr, bias);
}

}  // namespace

TEST_CASE("the library norms contiguous rows of any length, in every type, in place or not") {
  NEEDS_GPU();
  for (const int hidden :
       {1,     2,     3,     7,     8,     9,     16,    17,     33,     64,
        96,    111,   128,   129,   255,   256,   257,   511,    512,    769,
        1000,  1024,  1025,  1031,  2048,  4095,  4096,  5120,   8192,   12289,
        16384, 40000, 40001, 50001, 65536, 70000, 70001, 131072, 135168, 270336}) {
    for (const Types& types : all_types()) {
      const Layout at = contiguous({hidden > 10000 ? 2 : hidden > 300 ? 5 : 67, hidden});
      check_call({types, at, at});
      if (!types.weight) check_call({.types = types, .x = at, .y = at, .in_place = true});
    }
  }
}

TEST_CASE("the library norms rows and sums at any address, each tensor at its own") {
  NEEDS_GPU();
  // 49152: all that the registers of a block hold. Longer sums are read twice.
  for (const int hidden :
       {1, 7, 8, 13, 64, 111, 256, 512, 513, 520, 769, 2048, 4096, 4097, 9001, 16385, 49152,
        65533}) {
    const bool is_long = hidden > 9000;
    const int step = (is_long ? 2 : 1) * (is_cpu_device() ? 2 : 1);
    for (int offset = 0; offset < 9; offset += step) {
      for (const Types& types : types_of_library()) {
        const std::int64_t rows = is_long ? 2 : 4;
        NormCall call{
            types, contiguous({rows, hidden}, offset), contiguous({rows, hidden}, offset * 5 % 9)};
        call.weight_offset = offset * 7 % 9;
        call.x.strides[0] += offset * 2 % 9;
        call.y.strides[0] += offset * 4 % 9;
        check_call(call);
        if (types.weight) call.types.weight_bias = 1;
        call.in_place = offset % 3 == 1;
        if (call.in_place) check_call(call);
        if (offset == 0 || offset == 2 || offset == 8) {  // 8: a multiple of 16 bytes
          call.residual = contiguous({rows, hidden}, offset);
          check_call(call);
          call.in_place = true;
          check_call(call);
        }
      }
    }
  }
}

TEST_CASE(
    "the library norms random layouts of two to four dimensions, and sums in them", "[sanitizer]") {
  NEEDS_GPU();
  Draw draw{std::mt19937(20261121)};
  for (int i = 0; i < in_time(800); ++i) {
    NormCall call = random_call(draw);
    if (call.residual && draw(0, 1) == 0) call.residual_dtype = kTypes[draw(0, 2)];
    check_call(call);
  }
}

TEST_CASE("the library adds a residual of any type, beside a weight of any type or none") {
  NEEDS_GPU();
  const std::vector<Types> all = types_of_library();
  // With less than a group of 8 columns and with many, for a warp and for a block, that threads
  // keep and that they read twice.
  for (const int hidden : {1, 7, 8, 64, 111, 512, 520, 769, 4096, 8192, 8193, 20000}) {
    for (const Types& types : all) {
      for (const Dtype residual : kTypes) {
        for (const int offset : {0, 1}) {
          const std::int64_t rows = hidden > 4000 ? 2 : 5;
          NormCall call{
              types, contiguous({rows, hidden}, offset), contiguous({rows, hidden}, offset * 5)};
          call.residual = contiguous({rows, hidden}, offset * 3);
          call.residual_dtype = residual;
          call.weight_offset = offset * 7;
          if (types.weight) call.types.weight_bias = 1;
          call.in_place = offset == 1;
          check_call(call);
        }
      }
    }
  }
}

TEST_CASE("rows are stored in vectors, wherever x and y begin, and of x each takes 24 bytes") {
  NEEDS_GPU();
  if (!can_watch()) SKIP_TEST("this build cannot watch kernels");
  constexpr std::int64_t kRows = 4, kVectors = 500;
  for (const bool is_whole : {true, false}) {
    for (int x_offset = 0; x_offset < 8; ++x_offset) {
      for (int y_offset = 0; y_offset < 8; ++y_offset) {
        CAPTURE(is_whole, x_offset, y_offset);
        const std::int64_t hidden = kVectors * 8 + (is_whole ? 0 : 1);
        const DeviceTensor x(Dtype::bf16, contiguous({kRows, hidden}, x_offset), 12);
        const DeviceTensor y(Dtype::bf16, contiguous({kRows, hidden}, y_offset), 13);
        start_watching({extent("x", x), extent("y", y)});
        REQUIRE(norm(x.view, y.view) == RMSNORM_OK);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
        std::int64_t loaded = 0;    // bytes, in vectors or words of them
        std::int64_t stores = 0;    // of 16 bytes
        std::int64_t elements = 0;  // loaded or stored alone
        for (const LineCount& line : stop_watching().lines) {
          if (line.bytes == 2) elements += line.lanes;
          if (line.bytes > 2 && line.kind == "global load") loaded += line.bytes * line.lanes;
          if (line.bytes == 16 && line.kind == "global store") stores += line.lanes;
        }
        const bool is_aligned = is_whole && x_offset == 0 && y_offset == 0;
        const int times = is_whole && !is_aligned ? 2 : 1;  // that x is read
        constexpr int kEnds = 24;    // elements of a row: the first 8 and the last 16
        constexpr int kStarts = 24;  // and the first 8 of the other warps, for the sum
        CHECK(stores >= kRows * (kVectors - 2));
        CHECK(loaded <= times * kRows * kVectors * (is_aligned ? 16 : 24));
        CHECK(loaded >= times * kRows * (kVectors - 2) * 16);
        // loaded and stored; windows at the ends
        CHECK(elements <= kRows * (2 * kEnds + kStarts + 2 * 8));
        CHECK(take_hazards() == std::vector<std::string>());
      }
    }
  }
}

TEST_CASE("heads with a weight of their own, and dimensions in any order, for rows of any length") {
  NEEDS_GPU();
  const std::vector<Types> all = types_of_library();
  for (const int hidden : {1, 64, 96, 128, 129, 257, 769, 4096, 12288, 40000, 270336}) {
    for (const Types& types : all) {
      if (hidden > 10000 && types.dtype != Dtype::bf16) continue;
      // (batch, heads, tokens, head_dim) in memory, as (batch, tokens, heads, head_dim).
      const std::int64_t step = hidden + 8, batches = hidden > 10000 ? 1 : 2;
      const Layout x{{batches, 2, 3, hidden}, {7 * step, step, 2 * step, 1}, 8};
      for (const bool is_sum : {false, true}) {
        NormCall call{types, x, contiguous(x.shape)};
        call.weight_of_heads = types.weight.has_value();
        if (is_sum) call.residual = contiguous(x.shape);
        check_call(call);
      }
    }
  }
}

TEST_CASE("strides of null are those of a contiguous tensor, and those of a size of 1 are free") {
  NEEDS_GPU();
  DeviceTensor x(Dtype::bf16, contiguous({3, 5, 64}), 5), y(Dtype::bf16, x.layout, 6);
  x.view.strides = y.view.strides = nullptr;
  REQUIRE(norm(x.view, y.view) == RMSNORM_OK);
  check_norm(y, values_of(x));

  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  const DeviceTensor row(Dtype::bf16, {{1, 1, 64}, {-7, kLargest, 1}}, 5);
  const DeviceTensor y_of_row(Dtype::bf16, {{1, 1, 64}, {-kLargest, 1, 1}}, 6);
  REQUIRE(norm(row.view, y_of_row.view) == RMSNORM_OK);
  check_norm(y_of_row, values_of(row));

  const DeviceTensor column(Dtype::bf16, {{4, 1}, {3, 99}}, 5);
  REQUIRE(norm(column.view, column.view) == RMSNORM_OK);
  check_norm(column, values_of(column));
}

TEST_CASE("queries and keys are normed in one launch, as parts of one tensor and in place") {
  NEEDS_GPU();
  constexpr std::int64_t kTokens = 13, kQueries = 6, kKeys = 2, kHeads = 10;  // 2 are the values'
  for (const int head_dim : {33, 64, 128, 256, 769}) {
    for (const Dtype dtype : kTypes) {
      CAPTURE(head_dim, static_cast<int>(dtype));
      const DeviceTensor qkv(dtype, contiguous({kTokens * kHeads, head_dim}), 7);
      const DeviceTensor q_weight(dtype, contiguous({head_dim}), 8);
      const DeviceTensor k_weight(dtype, contiguous({head_dim}), 9);
      const std::vector<std::int64_t> strides = {kHeads * head_dim, head_dim, 1};
      Layout q_at{{kTokens, kQueries, head_dim}, strides, 0};
      Layout k_at{{kTokens, kKeys, head_dim}, strides, kQueries * head_dim};
      const DLTensor q = view_of(qkv.array, q_at), k = view_of(qkv.array, k_at);
      const rmsnorm_status status =
          rmsnorm_forward_pair(&q, &q_weight.view, &q, &k, &k_weight.view, &k, kEps, 1, nullptr);
      INFO(rmsnorm_last_error());
      REQUIRE(status == RMSNORM_OK);

      const auto factor = [&](std::int64_t row, std::int64_t col) {
        return (row % kHeads < kQueries ? q_weight : k_weight).before(0, col) + 1.0;
      };
      const auto norm = norm_of(values_of(qkv), qkv.layout, dtype, factor);
      check_elements(qkv, [&](std::int64_t row, std::int64_t col) -> Allowed {
        const bool is_value = row % kHeads >= kQueries + kKeys;
        return is_value ? Allowed{qkv.before(row, col), 0} : norm(row, col);
      });
      CHECK(take_hazards() == std::vector<std::string>());
    }
  }
}

TEST_CASE("of queries and keys, either may lack a weight, or be empty") {
  NEEDS_GPU();
  const DeviceTensor weight(Dtype::fp32, contiguous({64}), 5);
  for (const std::int64_t offset : {0, 1}) {
    for (const int lacking : {0, 1}) {  // q or k
      for (const int empty : {-1, 0, 1}) {
        CAPTURE(offset, lacking, empty);
        const Layout q_at = contiguous({empty == 0 ? 0 : 5, 2, 64}, offset);
        const Layout k_at = contiguous({empty == 1 ? 0 : 5, 3, 64}, offset);
        const DeviceTensor q(Dtype::bf16, q_at, 1), q_out(Dtype::bf16, q_at, 3);
        const DeviceTensor k(Dtype::bf16, k_at, 2), k_out(Dtype::bf16, k_at, 4);
        const DeviceTensor* const q_weight = lacking == 0 ? nullptr : &weight;
        const DeviceTensor* const k_weight = lacking == 1 ? nullptr : &weight;
        REQUIRE(
            rmsnorm_forward_pair(
                &q.view, q_weight ? &weight.view : nullptr, &q_out.view, &k.view,
                k_weight ? &weight.view : nullptr, &k_out.view, kEps, 0, nullptr) == RMSNORM_OK);
        check_norm(q_out, values_of(q), q_weight);
        check_norm(k_out, values_of(k), k_weight);
      }
    }
  }
}

TEST_CASE("rows may be further apart than 32 bits can say") {
  NEEDS_GPU();
  constexpr std::int64_t kHidden = 64, kFar = (std::int64_t{1} << 31) + 8;  // elements
  char* memory = nullptr;  // not a DeviceArray: nothing fills what is between the rows
  if (cudaMalloc(&memory, 2 * (kFar + kHidden + 1)) != cudaSuccess) {
    cudaGetLastError();
    SKIP_TEST("there is no memory for them");
  }
  const auto copy_rows = [&](void* to, const Layout& to_at, const void* from,
                             const Layout& from_at) {
    for (const int row : {0, 1}) {
      REQUIRE(
          cudaMemcpy(
              static_cast<char*>(to) + 2 * to_at.row(row),
              static_cast<const char*>(from) + 2 * from_at.row(row), kHidden * 2,
              cudaMemcpyDeviceToDevice) == cudaSuccess);
    }
  };
  for (const std::int64_t offset : {0, 1}) {
    for (const bool is_sum : {false, true}) {
      const Layout near_at = contiguous({2, kHidden}, offset);
      Layout far_at{{2, kHidden}, {kFar, 1}, offset};
      const DeviceTensor x(Dtype::bf16, near_at, 18), y(Dtype::bf16, near_at, 19);
      const DeviceTensor residual(Dtype::bf16, near_at, 20), other(Dtype::bf16, near_at, 20);
      const auto call = [&](const DLTensor& from, const DLTensor& residual, const DLTensor& to) {
        return is_sum ? rmsnorm_residual_add(&from, &residual, nullptr, &to, kEps, 0, nullptr)
                      : norm(from, to);
      };
      DLTensor far = view_of(x.array, far_at);
      far.data = memory;
      REQUIRE(call(x.view, residual.view, y.view) == RMSNORM_OK);
      const std::vector<float> expected = y.array.now();
      copy_rows(memory, far_at, x.array.data(), near_at);
      REQUIRE(call(far, other.view, far) == RMSNORM_OK);
      copy_rows(y.array.data(), near_at, memory, far_at);
      CHECK(y.array.now() == expected);
      CHECK(other.array.now() == residual.array.now());
    }
  }
  CHECK(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("of a row that is too long for a GPU's shared memory, less is kept there") {
  constexpr int kVectors = 131072 / 8;
  CHECK(staged_bytes_of_row(kVectors, 226 << 10) == 192 << 10);
  CHECK(staged_bytes_of_row(kVectors, 98 << 10) == 96 << 10);
  CHECK(staged_bytes_of_row(kVectors, 15 << 10) == 0);
}

TEST_CASE("after cudaDeviceReset(), blocks get as much shared memory as before") {
  NEEDS_GPU();
  for (const int vectors : {8750, 32800}) {  // more than 48 KiB for a block of a cluster, or alone
    const Layout row = contiguous({1, 8 * vectors});
    for (int reset = 0; reset < 2; ++reset) {
      CAPTURE(vectors, reset);
      check_call({*types_named("bf16"), row, row});
      CHECK(cudaGetLastError() == cudaSuccess);
      REQUIRE(cudaDeviceReset() == cudaSuccess);
    }
  }
}

TEST_CASE("empty tensors launch nothing and need no memory") {
  NEEDS_GPU();
  constexpr std::int64_t kMany = std::int64_t{1} << 62;  // of nothing
  for (std::vector<std::int64_t> shape : std::vector<std::vector<std::int64_t>>{
           {0, 64}, {4, 0}, {0, 3, 64}, {3, 0, 64}, {kMany, kMany, 0}}) {
    DLTensor x{};
    x.device = {kDLCUDA, 0};
    x.ndim = static_cast<int>(shape.size());
    x.dtype = dl_type(Dtype::bf16);
    x.shape = shape.data();
    const DLTensor y = x;
    CHECK(norm(x, y) == RMSNORM_OK);
    CHECK(rmsnorm_forward_pair(&x, nullptr, &y, &x, nullptr, &y, kEps, 0, nullptr) == RMSNORM_OK);
    CHECK(rmsnorm_residual_add(&x, &y, nullptr, &x, kEps, 0, nullptr) == RMSNORM_OK);
    DLTensor codes = x, scale = x;
    codes.dtype = dl_type(Dtype::e4m3);
    scale.dtype = dl_type(Dtype::fp32);
    scale.ndim -= 1;
    CHECK(
        rmsnorm_forward_fp8(
            &x, nullptr, nullptr, &codes, &scale, nullptr, nullptr, RMSNORM_SCALE_ROW,
            RMSNORM_ROUND_ONCE, kEps, 0, nullptr) == RMSNORM_OK);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
  }
}
