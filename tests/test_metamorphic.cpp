/// \file
/// What RMSNorm must keep if its input changes in a certain way: every lesson against itself, with
/// no reference that could be wrong in the same way.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/tensors/buffer.hpp"
#include "common/tensors/workload.hpp"
#include "common/verify/verifier.hpp"
#include "tests/bits.hpp"
#include "tests/gpu_support.hpp"

using namespace rmsnorm;
using tests::gpu_lessons;
using tests::same_bits;

namespace {

/// The input of an RMSNorm, on the host.
struct Input {
  int rows;
  int hidden;
  std::vector<float> x;
  std::vector<float> residual;  ///< for the lessons that want one
  std::vector<float> weight;
  float eps;
};

/// Random values, as the harness draws them.
Input draw(int rows, int hidden) {
  const Workload workload({.rows = rows, .hidden = hidden, .seed = 11, .residual = true});
  const TypedProblem p = workload.typed_problem();
  const auto matrix = [&](const void* data) {
    return to_floats(data, p.dtype, std::size_t(rows) * hidden);
  };
  return {
      rows,    hidden, matrix(p.x), matrix(p.residual), to_floats(p.weight, p.weight_dtype, hidden),
      0x1p-10f};
}

/// What the lesson makes of it; empty if it refuses.
std::vector<float> result_of(const Lesson& lesson, const Input& input) {
  const Workload workload(
      {.rows = input.rows, .hidden = input.hidden, .eps = input.eps, .residual = lesson.residual});
  const TypedProblem p = workload.typed_problem();
  if (!why_refused(lesson, p).empty()) return {};
  workload.set_x(input.x);
  workload.set_residual(input.residual);
  workload.set_weight(input.weight);
  cuda_check(lesson.launch(p, nullptr), lesson.slug);
  cuda_check(cudaDeviceSynchronize(), lesson.slug);
  return to_floats(p.y, p.dtype, input.x.size());
}

/// Calls check(lesson, input, y of input) for every lesson on shapes with one thread a row and
/// many, one round and several, with tails and without.
template <class Check>
void for_every_lesson(Check&& check) {
  for (const Shape shape :
       {Shape{5, 8}, Shape{37, 128}, Shape{3, 257}, Shape{5, 1000}, Shape{3, 4096},
        Shape{2, 12288}}) {
    const Input input = draw(shape.rows, shape.hidden);
    for (const Lesson& lesson : gpu_lessons()) {
      CAPTURE(lesson.slug, shape.rows, shape.hidden);
      const std::vector<float> y = result_of(lesson, input);
      if (!y.empty()) check(lesson, input, y);
    }
  }
}

void scale(std::vector<float>& values, float factor) {
  for (float& value : values) value *= factor;
}

/// The same of x, and of the residual.
void scale_rows(Input& input, float factor) {
  scale(input.x, factor);
  scale(input.residual, factor);
}

/// The rows of a matrix, row i from row order[i].
std::vector<float> with_rows(
    const std::vector<float>& matrix, int hidden, const std::vector<int>& order) {
  std::vector<float> result;
  for (const int row : order) {
    const auto begin = matrix.begin() + std::ptrdiff_t{row} * hidden;
    result.insert(result.end(), begin, begin + hidden);
  }
  return result;
}

/// The columns of a matrix, column i from column order[i].
std::vector<float> with_columns(const std::vector<float>& matrix, const std::vector<int>& order) {
  std::vector<float> result;
  for (std::size_t row = 0; row < matrix.size(); row += order.size()) {
    for (const int col : order) result.push_back(matrix[row + col]);
  }
  return result;
}

Input with_columns(Input input, const std::vector<int>& order) {
  input.x = with_columns(input.x, order);
  input.residual = with_columns(input.residual, order);
  input.weight = with_columns(input.weight, order);
  return input;
}

std::vector<int> shuffled(int size) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  return order;
}

/// The largest relative difference of two results.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    largest = std::max(largest, std::abs(double{a[i]} - b[i]) / std::abs(double{a[i]}));
  }
  return largest;
}

}  // namespace

// x stays far from subnormals and from infinity, so that every rounding is the same, times the
// power of two. The squares' powers are even, and rsqrt halves them.
TEST_CASE("without eps a power of two as a factor of x changes no bit of y") {
  NEEDS_GPU();
  for_every_lesson([](const Lesson& lesson, Input input, const std::vector<float>&) {
    input.eps = 0;
    const std::vector<float> y = result_of(lesson, input);
    for (const float factor : {0x1p-20f, 0.5f, 2.0f, 0x1p+20f}) {
      Input scaled = input;
      scale_rows(scaled, factor);
      CAPTURE(factor);
      CHECK(same_bits(result_of(lesson, scaled), y));
    }
  });
}

TEST_CASE("a power of two as a factor of x and its square as that of eps change no bit of y") {
  NEEDS_GPU();
  for_every_lesson([](const Lesson& lesson, Input input, const std::vector<float>& y) {
    for (const float factor : {0x1p-20f, 0.5f, 2.0f, 0x1p+20f}) {
      Input scaled = input;
      scale_rows(scaled, factor);
      CAPTURE(factor);
      CHECK_FALSE(same_bits(result_of(lesson, scaled), y));  // eps has an effect ...
      scaled.eps *= factor * factor;
      CHECK(same_bits(result_of(lesson, scaled), y));  // ... and of the right size
    }
  });
}

TEST_CASE("the rows of x in another order are the rows of y in that order bit for bit") {
  NEEDS_GPU();
  for_every_lesson([](const Lesson& lesson, Input input, const std::vector<float>& y) {
    const std::vector<int> order = shuffled(input.rows);
    input.x = with_rows(input.x, input.hidden, order);
    input.residual = with_rows(input.residual, input.hidden, order);
    CHECK(same_bits(result_of(lesson, input), with_rows(y, input.hidden, order)));
  });
}

TEST_CASE("columns of x and the weight in another order are those of y within twice the bound") {
  NEEDS_GPU();
  for_every_lesson([](const Lesson& lesson, const Input& input, const std::vector<float>& y) {
    const std::vector<int> order = shuffled(input.hidden);
    const std::vector<float> other = result_of(lesson, with_columns(input, order));
    const double bound = relative_error_bound(lesson.sum_depth(input.hidden));
    CHECK(difference(with_columns(y, order), other) <= 2 * bound);
  });
}

// A tree adds a + b or b + a, and these are the same: columns may swap places with those whose sum
// they meet as a whole. Four columns are a vector, or lanes 0 to 3 of 8; a thread that adds up a
// row alone has no tree.
TEST_CASE("neighbouring vectors of four columns that swap places change no bit in a tree") {
  NEEDS_GPU();
  int checked = 0;
  for_every_lesson([&](const Lesson& lesson, const Input& input, const std::vector<float>& y) {
    const bool has_tree = lesson.sum_depth(input.hidden) < input.hidden;
    if (!has_tree || input.hidden % 8 != 0) return;
    std::vector<int> order(input.hidden);
    for (int col = 0; col < input.hidden; ++col) order[col] = col ^ 4;
    CHECK(same_bits(result_of(lesson, with_columns(input, order)), with_columns(y, order)));
    ++checked;
  });
  CHECK(checked >= 20);
}

TEST_CASE("the other sign of x is the other sign of y and no other bit") {
  NEEDS_GPU();
  for_every_lesson([](const Lesson& lesson, Input input, std::vector<float> y) {
    scale_rows(input, -1);
    scale(y, -1);
    CHECK(same_bits(result_of(lesson, input), y));
  });
}

TEST_CASE("a power of two as a factor of the weight is a factor of y bit for bit") {
  NEEDS_GPU();
  for_every_lesson([](const Lesson& lesson, const Input& input, const std::vector<float>& y) {
    for (const float factor : {0x1p-20f, -2.0f, 0x1p+20f}) {
      Input scaled = input;
      scale(scaled.weight, factor);
      std::vector<float> expected = y;
      scale(expected, factor);
      CAPTURE(factor);
      CHECK(same_bits(result_of(lesson, scaled), expected));
    }
  });
}

TEST_CASE("a row of x affects no other row of y") {
  NEEDS_GPU();
  for_every_lesson([](const Lesson& lesson, Input input, std::vector<float> y) {
    const auto last_row = std::ptrdiff_t{input.rows - 1} * input.hidden;
    std::fill(input.x.begin() + last_row, input.x.end(), 100.0f);
    std::vector<float> other = result_of(lesson, input);
    y.resize(last_row);
    other.resize(last_row);
    CHECK(same_bits(other, y));
  });
}
