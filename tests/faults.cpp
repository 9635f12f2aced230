#include "tests/faults.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

#include "common/contract/types.hpp"
#include "common/tensors/buffer.hpp"

namespace tests {
namespace {

using rmsnorm::Problem;

enum class Damage {
  none,
  nothing_written,
  last_not_written,
  nan_in_the_middle,
  last_row,
  last_column,
  one_before,
  one_after,
  one_before_x,
  one_after_weight,
};

/// How y is computed; by default, right.
struct Recipe {
  bool has_weight = true;
  int weight_shift = 0;     ///< by how many columns the weight is out of step with x
  int row_shift = 0;        ///< from the row of x to the row whose sum is used
  int summed = 0;           ///< columns that are summed beyond the row's end; negative: too few
  int divisor = 0;          ///< added to hidden in the mean
  bool eps_in_mean = true;  ///< inside the root, where it belongs
  bool eps_in_sum = false;  ///< inside the root, but divided by hidden
  bool eps_on_root = false;
  Damage damage = Damage::none;  ///< done to y at the end
};

double rstd_of(const float* row, int hidden, double eps, const Recipe& recipe) {
  double sum = recipe.eps_in_sum ? eps : 0;
  for (int col = 0; col < hidden + recipe.summed; ++col) sum += std::pow(double{row[col]}, 2);
  const double mean = sum / (hidden + recipe.divisor);
  return 1 / (std::sqrt(mean + (recipe.eps_in_mean ? eps : 0)) + (recipe.eps_on_root ? eps : 0));
}

/// Copies the tensors to the host, with one float more before and after y and after x, where the
/// verifier's guards are.
cudaError_t launch(const Problem& p, const Recipe& recipe) {
  if (recipe.damage == Damage::nothing_written || p.rows == 0) return cudaSuccess;
  const std::int64_t size = std::int64_t{p.rows} * p.hidden;
  const std::vector<float> x = rmsnorm::to_host(p.x, size + 1);
  const std::vector<float> weight = rmsnorm::to_host(p.weight, p.hidden);
  std::vector<float> fenced_y = rmsnorm::to_host(p.y - 1, size + 2);
  float* y = fenced_y.data() + 1;

  const float last = y[size - 1];
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const std::int64_t summed_row = (row + recipe.row_shift) % p.rows;
    const double rstd = rstd_of(x.data() + summed_row * p.hidden, p.hidden, p.eps, recipe);
    for (int col = 0; col < p.hidden; ++col) {
      const int weight_col = (col + recipe.weight_shift) % p.hidden;
      const double factor = recipe.has_weight ? weight[weight_col] : 1;
      y[row * p.hidden + col] = static_cast<float>(x[row * p.hidden + col] * rstd * factor);
    }
  }

  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (recipe.damage == Damage::last_not_written) y[size - 1] = last;
  if (recipe.damage == Damage::nan_in_the_middle) y[size / 2] = nan;
  if (recipe.damage == Damage::one_before) y[-1] = 0;
  if (recipe.damage == Damage::one_after) y[size] = 0;
  if (recipe.damage == Damage::last_row) {
    for (int col = 0; col < p.hidden; ++col) y[size - 1 - col] *= 1.01f;
  }
  if (recipe.damage == Damage::last_column) {
    for (int row = 0; row < p.rows; ++row) y[(row + 1) * std::int64_t{p.hidden} - 1] *= 1.01f;
  }
  rmsnorm::from_host(fenced_y, p.y - 1);
  if (recipe.damage == Damage::one_before_x) rmsnorm::from_host({0}, const_cast<float*>(p.x - 1));
  if (recipe.damage == Damage::one_after_weight)
    rmsnorm::from_host({0}, const_cast<float*>(p.weight + p.hidden));
  return cudaSuccess;
}

template <Recipe kRecipe>
cudaError_t launch(const Problem& p, cudaStream_t) {
  return launch(p, kRecipe);
}

rmsnorm::Traffic traffic(int hidden) {
  return {8.0 * hidden, 4.0 * hidden};
}

/// Makes the bound as loose as that of a fast kernel.
int sum_depth(int hidden) {
  return hidden / 8 + 1;
}

cudaError_t launch_turned_down(const Problem& p, cudaStream_t stream) {
  launch_right(p, stream);  // the result is right, and the error still has to be noticed
  return cudaErrorInvalidConfiguration;
}

}  // namespace

cudaError_t launch_right(const Problem& p, cudaStream_t) {
  return launch(p, Recipe{});
}

cudaError_t launch_typed(const rmsnorm::TypedProblem& p, cudaStream_t) {
  for (int row = 0; row < p.rows; ++row) {
    std::vector<float> values;
    float sum = 0;
    for (int col = 0; col < p.hidden; ++col) {
      const std::size_t i = std::size_t(row) * p.hidden + col;
      float value = rmsnorm::value_at(p.x, p.dtype, i);
      if (p.residual != nullptr) {
        value += rmsnorm::value_at(p.residual, p.dtype, i);
        rmsnorm::set_bits(p.residual, p.dtype, i, rmsnorm::bits_of(p.dtype, value));
      }
      values.push_back(value);
      sum += value * value;
    }
    const float rstd = 1 / std::sqrt(sum / static_cast<float>(p.hidden) + p.eps);
    for (int col = 0; col < p.hidden; ++col) {
      const float factor = p.weight == nullptr
                               ? 1
                               : rmsnorm::value_at(p.weight, p.weight_dtype, col) + p.weight_bias;
      const float y = values[col] * rstd * factor;
      rmsnorm::set_bits(
          p.y, p.dtype, std::size_t(row) * p.hidden + col, rmsnorm::bits_of(p.dtype, y));
    }
  }
  return cudaSuccess;
}

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = {
      {"the neighbour's weight", launch<Recipe{.weight_shift = 1}>, "row 0, column 0: expected"},
      {"weight forgotten", launch<Recipe{.has_weight = false}>, "row 0, column 0: expected"},
      {"eps forgotten", launch<Recipe{.eps_in_mean = false}>, "expected"},
      {"eps outside the root", launch<Recipe{.eps_in_mean = false, .eps_on_root = true}>,
       "expected"},
      {"eps outside the mean", launch<Recipe{.eps_in_mean = false, .eps_in_sum = true}>,
       "expected"},
      {"divisor hidden + 1", launch<Recipe{.divisor = 1}>, "row 0, column 0: expected"},
      {"sum without the last column", launch<Recipe{.summed = -1}>, "row 0, column 0: expected"},
      {"sum with a column too many", launch<Recipe{.summed = 1}>, "row 0, column 0: expected"},
      {"another row's sum", launch<Recipe{.row_shift = 1}>, "row 0, column 0: expected"},
      {"nothing written", launch<Recipe{.damage = Damage::nothing_written}>,
       "row 0, column 0 was not written"},
      {"last element not written", launch<Recipe{.damage = Damage::last_not_written}>,
       "was not written"},
      {"a NaN written", launch<Recipe{.damage = Damage::nan_in_the_middle}>, "got nan"},
      {"last row wrong", launch<Recipe{.damage = Damage::last_row}>, "column 0: expected"},
      {"last column wrong", launch<Recipe{.damage = Damage::last_column}>, "row 0, column"},
      {"one float written before y", launch<Recipe{.damage = Damage::one_before}>,
       "wrote 1 elements before the start of y"},
      {"one float written after y", launch<Recipe{.damage = Damage::one_after}>,
       "wrote 1 elements after the end of y, the first at y[rows * hidden + 0]"},
      {"one float written before x", launch<Recipe{.damage = Damage::one_before_x}>,
       "changed memory outside y"},
      {"one float written after the weight", launch<Recipe{.damage = Damage::one_after_weight}>,
       "changed memory outside y"},
      {"launch turned down", launch_turned_down, "the launch failed: invalid configuration"},
  };
  return all;
}

rmsnorm::Lesson lesson_with(Launch launch, rmsnorm::Memory memory) {
  return {
      .slug = "00_fake",
      .title = "Fake",
      .idea = "A lesson for the tests",
      .regime = "decode",
      .memory = memory,
      .launch = launch,
      .traffic = traffic,
      .sum_depth = sum_depth};
}

std::vector<float> right_row(
    const std::vector<float>& x, const std::vector<float>& weight, double eps) {
  const int hidden = static_cast<int>(x.size());
  const double rstd = rstd_of(x.data(), hidden, eps, Recipe{});
  std::vector<float> y;
  for (int col = 0; col < hidden; ++col)
    y.push_back(static_cast<float>(x[col] * rstd * weight[col]));
  return y;
}

}  // namespace tests
