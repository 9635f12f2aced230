/// \file
/// What a kernel must keep if its input changes in a certain way: every kernel against itself, with
/// no reference that could be wrong in the same way.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
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
#include "tests/operations.hpp"

using namespace rmsnorm;
using tests::same_bits;

namespace {

constexpr float kEps = 0x1p-10f;

using Matrices = std::map<std::string, std::vector<float>>;

/// What an operation reads, on the host.
struct Input {
  int rows;
  int hidden;
  float eps;
  Matrices tensors;  ///< by their names; what is derived is not among them
};

/// Random values, as the harness draws them.
Input draw(const Operation& operation, int rows, int hidden) {
  const Workload workload(operation, {.rows = rows, .hidden = hidden, .seed = 11});
  Input input{rows, hidden, kEps, {}};
  for (const TensorSpec& tensor : operation.tensors) {
    if (tensor.role != Role::input && tensor.role != Role::in_place) continue;
    input.tensors[tensor.name] = workload.tensor(tensor.name).values();
  }
  return input;
}

/// What the kernel makes of it; empty if it does not support it.
Matrices results_of(const Implementation& implementation, const Input& input) {
  const Operation& operation = *implementation.operation;
  const Workload workload(
      operation, {.rows = input.rows, .hidden = input.hidden, .eps = input.eps});
  Problem p = workload.problem();
  if (!implementation.unsupported(p).empty()) return {};
  for (const auto& [name, values] : input.tensors) workload.set(name, values);
  const GuardedTensor workspace = make_workspace(Memory::device, implementation.workspace_bytes(p));
  p.workspace = workspace.data();
  cuda_check(implementation.launch(p, nullptr), implementation.slug);
  cuda_check(cudaDeviceSynchronize(), implementation.slug);
  Matrices results;
  for (const TensorSpec& tensor : operation.tensors) {
    if (is_written(tensor)) results[tensor.name] = workload.tensor(tensor.name).values();
  }
  return results;
}

/// What it makes of y; empty if it does not support it.
std::vector<float> result_of(const Implementation& implementation, const Input& input) {
  return results_of(implementation, input)["y"];
}

/// Calls check(implementation, input, results) for every kernel on shapes with one thread a row and
/// many, one round and several, with tails and without.
template <class Check>
void for_every_kernel(Check&& check) {
  for (const Shape shape :
       {Shape{5, 8}, Shape{37, 128}, Shape{3, 257}, Shape{5, 1000}, Shape{3, 4096},
        Shape{2, 12288}}) {
    for (const Implementation& implementation : tests::gpu_implementations()) {
      const Input input = draw(*implementation.operation, shape.rows, shape.hidden);
      CAPTURE(implementation.slug, shape.rows, shape.hidden);
      const Matrices results = results_of(implementation, input);
      if (!results.empty()) check(implementation, input, results);
    }
  }
}

/// The same for those that have a y, with that alone.
template <class Check>
void for_every_norm(Check&& check) {
  for_every_kernel([&](const Implementation& implementation, const Input& input, Matrices results) {
    if (results.count("y") == 1) check(implementation, input, results["y"]);
  });
}

void scale(std::vector<float>& values, float factor) {
  for (float& value : values) value *= factor;
}

/// The same of x, and of what is added to it.
void scale_rows(Input& input, float factor) {
  for (auto& [name, values] : input.tensors) {
    if (name != "weight") scale(values, factor);
  }
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
  for (auto& [name, values] : input.tensors) values = with_columns(values, order);
  return input;
}

/// A change of the inputs, and what it has to do to y, bit for bit.
struct Law {
  std::string name;
  std::function<void(Input&)> change;
  float factor_of_y = 1;
  float eps = kEps;
};

// x stays far from subnormals and from infinity, so that every rounding is the same, times the
// power of two. The squares' powers are even, and rsqrt halves them.
std::vector<Law> laws() {
  std::vector<Law> all;
  for (const float factor : {0x1p-20f, 0.5f, 2.0f, 0x1p+20f}) {
    const auto of_x = [=](Input& input) { scale_rows(input, factor); };
    all.push_back({"without eps, a power of two as a factor of x changes nothing", of_x, 1, 0});
    all.push_back({"neither does one, and its square as a factor of eps", [=](Input& input) {
                     of_x(input);
                     input.eps *= factor * factor;
                   }});
  }
  for (const float factor : {0x1p-20f, -2.0f, 0x1p+20f}) {
    const auto of_weight = [=](Input& input) { scale(input.tensors["weight"], factor); };
    all.push_back({"a power of two as a factor of the weight is one of y", of_weight, factor});
  }
  const auto other_sign = [](Input& input) { scale_rows(input, -1); };
  all.push_back({"the other sign of x is that of y", other_sign, -1});
  return all;
}

std::vector<int> shuffled(int size) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  return order;
}

double bound_of(const Implementation& implementation, const Input& input) {
  const Problem p = tests::problem_of(input.rows, input.hidden);
  return implementation.operation->error_bound(p, implementation.sum_depth(p));
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

TEST_CASE("factors of the inputs are factors of y or change no bit of it") {
  NEEDS_GPU();
  for_every_norm([](const Implementation& implementation, const Input& input, const auto& y) {
    Input scaled = input;
    scale_rows(scaled, 0.5f);
    CHECK_FALSE(same_bits(result_of(implementation, scaled), y));  // eps has an effect
    for (const Law& law : laws()) {
      Input plain = input;
      plain.eps = law.eps;
      std::vector<float> expected = law.eps == kEps ? y : result_of(implementation, plain);
      scale(expected, law.factor_of_y);
      law.change(plain);
      CAPTURE(law.name, law.factor_of_y);
      CHECK(same_bits(result_of(implementation, plain), expected));
    }
  });
}

TEST_CASE("rows in another order are the rows of the results in that order bit for bit") {
  NEEDS_GPU();
  for_every_kernel([](const Implementation& implementation, Input input, const Matrices& results) {
    const std::vector<int> order = shuffled(input.rows);
    for (auto& [name, values] : input.tensors) {
      if (name != "weight") values = with_rows(values, input.hidden, order);
    }
    Matrices others = results_of(implementation, input);
    for (const auto& [name, values] : results) {
      if (name == "dweight") continue;  // a sum over the rows, in another order
      CAPTURE(name);
      CHECK(same_bits(others[name], with_rows(values, input.hidden, order)));
    }
  });
}

TEST_CASE("a power of two as a factor of dy is a factor of the gradients bit for bit") {
  NEEDS_GPU();
  for_every_kernel([](const Implementation& implementation, Input input, const Matrices& results) {
    if (input.tensors.count("dy") == 0) return;
    for (const float factor : {0x1p-20f, -2.0f, 0x1p+20f}) {
      Input scaled = input;
      scale(scaled.tensors["dy"], factor);
      Matrices others = results_of(implementation, scaled);
      for (auto [name, values] : results) {
        scale(values, factor);
        CAPTURE(name, factor);
        CHECK(same_bits(others[name], values));
      }
    }
  });
  SUCCEED("there may be no kernel with a dy");
}

TEST_CASE("columns of x and the weight in another order are those of y within twice the bound") {
  NEEDS_GPU();
  for_every_norm(
      [](const Implementation& implementation, const Input& input, const std::vector<float>& y) {
        const std::vector<int> order = shuffled(input.hidden);
        const std::vector<float> other = result_of(implementation, with_columns(input, order));
        const double bound = bound_of(implementation, input);
        CHECK(difference(with_columns(y, order), other) <= 2 * bound);
      });
}

// A tree adds a + b or b + a, and these are the same: columns may swap places with those whose sum
// they meet as a whole. Four columns are a vector, or lanes 0 to 3 of 8; a thread that adds up a
// row alone has no tree.
TEST_CASE("neighbouring vectors of four columns that swap places change no bit in a tree") {
  NEEDS_GPU();
  int checked = 0;
  for_every_norm([&](const Implementation& implementation, const Input& input,
                     const std::vector<float>& y) {
    const Problem p = tests::problem_of(input.rows, input.hidden);
    const bool has_tree = implementation.sum_depth(p).row < input.hidden;
    if (!has_tree || input.hidden % 8 != 0) return;
    // There, a lane goes on with the sum that its neighbour has begun.
    if (implementation.slug == std::string("11_unaligned_rows")) return;
    std::vector<int> order(input.hidden);
    for (int col = 0; col < input.hidden; ++col) order[col] = col ^ 4;
    CHECK(same_bits(result_of(implementation, with_columns(input, order)), with_columns(y, order)));
    ++checked;
  });
  CHECK(checked >= 20);
}

TEST_CASE("a row of x affects no other row of y") {
  NEEDS_GPU();
  for_every_norm([](const Implementation& implementation, Input input, std::vector<float> y) {
    const auto last_row = std::ptrdiff_t{input.rows - 1} * input.hidden;
    std::vector<float>& x = input.tensors["x"];
    std::fill(x.begin() + last_row, x.end(), 100.0f);
    std::vector<float> other = result_of(implementation, input);
    y.resize(last_row);
    other.resize(last_row);
    CHECK(same_bits(other, y));
  });
}
