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

/// Calls check(implementation, input, results) for every kernel on shapes with one thread a row and
/// many, one round and several, with tails and without. Kernels that choose a scale keep other
/// things.
template <class Check>
void for_every_kernel(Check&& check) {
  for (const Shape shape :
       {Shape{5, 8}, Shape{37, 128}, Shape{3, 257}, Shape{5, 1000}, Shape{3, 4096},
        Shape{2, 12288}}) {
    for (const Implementation& implementation : tests::gpu_implementations()) {
      const auto& all = tests::operations();
      if (std::find(all.begin(), all.end(), implementation.operation) == all.end()) continue;
      const Input input = draw(*implementation.operation, shape.rows, shape.hidden);
      CAPTURE(implementation.slug, shape.rows, shape.hidden);
      const Matrices results = results_of(implementation, input);
      if (!results.empty()) check(implementation, input, results);
    }
  }
}

bool is_backward(const Input& input) {
  return input.tensors.count("dy") > 0;
}

void scale(std::vector<float>& values, float factor) {
  for (float& value : values) value *= factor;
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

std::vector<int> shuffled(int size) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  return order;
}

/// A change of the inputs, and what it has to do to the results, bit for bit.
struct Law {
  std::string name;
  std::function<void(Input&)> change;
  std::function<void(Matrices&)> expect;
  float eps = kEps;
};

// x stays far from subnormals and from infinity, so that every rounding is the same, times the
// power of two. The squares' powers are even, and rsqrt halves them.
std::vector<Law> laws_for(const Input& input) {
  std::vector<Law> laws;
  for (const float factor : {0x1p-20f, -1.0f, 0.5f, -2.0f, 0x1p+20f}) {
    if (is_backward(input)) {
      laws.push_back(
          {"a factor of dy is one of the gradients",
           [=](Input& changed) { scale(changed.tensors["dy"], factor); },
           [=](Matrices& results) {
             for (auto& [name, values] : results) scale(values, factor);
           }});
      continue;
    }
    laws.push_back(
        {"a factor of the weight is one of y",
         [=](Input& changed) { scale(changed.tensors["weight"], factor); },
         [=](Matrices& results) { scale(results["y"], factor); }});
    const auto of_rows = [=](Input& changed) {
      for (auto& [name, values] : changed.tensors) {
        if (name != "weight") scale(values, factor);
      }
    };
    const auto sign_alone = [=](Matrices& results) {
      scale(results["y"], std::copysign(1.0f, factor));
      scale(results["residual"], factor);
    };
    laws.push_back({"without eps, y has the sign of a factor of x alone", of_rows, sign_alone, 0});
    const auto of_rows_and_eps = [=](Input& changed) {
      of_rows(changed);
      changed.eps *= factor * factor;
    };
    laws.push_back({"and so with its square as a factor of eps", of_rows_and_eps, sign_alone});
  }
  const std::vector<int> order = shuffled(input.rows);
  const auto reorder = [=, hidden = input.hidden](Matrices& matrices) {
    for (auto& [name, values] : matrices) {
      const bool has_rows = name != "weight" && name != "dweight";
      if (has_rows) values = with_rows(values, hidden, order);
    }
    matrices.erase("dweight");  // a sum over the rows, in another order
  };
  laws.push_back(
      {"rows in another order are the rows of the results in that order",
       [=](Input& changed) { reorder(changed.tensors); }, reorder});
  return laws;
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

TEST_CASE("factors of two and rows in another order change what they have to, bit for bit") {
  NEEDS_GPU();
  for_every_kernel([](const Implementation& implementation, const Input& input, Matrices results) {
    for (const Law& law : laws_for(input)) {
      Input changed = input;
      changed.eps = law.eps;
      Matrices expected = law.eps == kEps ? results : results_of(implementation, changed);
      law.change(changed);
      law.expect(expected);
      Matrices others = results_of(implementation, changed);
      for (const auto& [name, values] : expected) {
        CAPTURE(law.name, name);
        CHECK(same_bits(others[name], values));
      }
    }
    if (is_backward(input)) return;
    Input scaled = input;
    for (auto& [name, values] : scaled.tensors) scale(values, 0.5f);
    scale(scaled.tensors["weight"], 2);
    CHECK_FALSE(
        same_bits(results_of(implementation, scaled)["y"], results["y"]));  // eps: an effect
  });
}

// A tree adds a + b or b + a, and these are the same: columns may swap places with those whose sum
// they meet as a whole. Four columns are a vector, or lanes 0 to 3 of 8; a thread that adds up a
// row alone has no tree.
TEST_CASE("columns in another order are those of y, bit for bit if vectors swap in a tree") {
  NEEDS_GPU();
  int checked = 0;
  for_every_kernel([&](const Implementation& implementation, const Input& input, Matrices results) {
    if (is_backward(input)) return;
    const auto y_with = [&](const std::vector<int>& order) {
      Input changed = input;
      for (auto& [name, values] : changed.tensors) values = with_columns(values, order);
      return results_of(implementation, changed)["y"];
    };
    const std::vector<int> order = shuffled(input.hidden);
    const Problem p = tests::problem_of(input.rows, input.hidden);
    const double bound = implementation.operation->error_bound(p, implementation.sum_depth(p));
    CHECK(difference(with_columns(results["y"], order), y_with(order)) <= 2 * bound);

    const bool has_tree = implementation.sum_depth(p).row < input.hidden;
    if (!has_tree || input.hidden % 8 != 0) return;
    // There, a lane goes on with the sum that its neighbour has begun.
    if (implementation.slug == std::string("11_unaligned_rows")) return;
    std::vector<int> swapped(input.hidden);
    for (int col = 0; col < input.hidden; ++col) swapped[col] = col ^ 4;
    CHECK(same_bits(y_with(swapped), with_columns(results["y"], swapped)));
    ++checked;
  });
  CHECK(checked >= 20);
}
