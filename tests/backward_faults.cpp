#include "tests/backward_faults.hpp"

#include <cstddef>

#include "common/contract/types.hpp"
#include "common/tensors/buffer.hpp"
#include "tests/faults.hpp"

namespace tests {
namespace {

using rmsnorm::BackwardProblem;

/// How the gradients are computed; by default, right.
struct Recipe {
  double mean_sign = 1;          ///< dx = rstd * (g - n * mean); 0: rstd * g
  bool mean_of_x = false;        ///< of g * x, not of g * n
  bool mean_times_x = false;     ///< dx = rstd * (g - x * mean)
  bool mean_without_dy = false;  ///< of weight * n
  int divisor = 0;               ///< added to hidden in the mean
  int columns_left_out = 0;      ///< of the mean, at the end
  int weight_shift = 0;          ///< by how many columns the weight is out of step with dy
  bool has_weight = true;
  bool has_bias = true;
  bool has_rstd = true;  ///< in dweight
  bool weighted_dweight = false;
  int rows_left_out = 0;      ///< of dweight, at the end
  bool sums_in_bf16 = false;  ///< of dweight
  double scale = 1;           ///< of rstd
};

cudaError_t launch(const BackwardProblem& p, const Recipe& recipe) {
  const std::size_t hidden = p.hidden;
  const std::size_t size = p.rows * hidden;
  const std::vector<float> x = rmsnorm::to_floats(p.x, p.dtype, size);
  const std::vector<float> dy = rmsnorm::to_floats(p.dy, p.dtype, size);
  const std::vector<float> rstd = rmsnorm::to_host(p.rstd, p.rows);
  std::vector<float> weight(hidden, 1);
  if (p.weight != nullptr) weight = rmsnorm::to_floats(p.weight, p.weight_dtype, hidden);
  const auto factor = [&](std::size_t col) {
    if (p.weight == nullptr || !recipe.has_weight) return 1.0;
    return weight[(col + recipe.weight_shift) % hidden] +
           (recipe.has_bias ? double{p.weight_bias} : 0.0);
  };

  std::vector<float> dx(size);
  std::vector<double> sums(hidden);
  for (int row = 0; row < p.rows; ++row) {
    const double r = rstd[row] * recipe.scale;
    const auto n = [&](std::size_t col) { return x[row * hidden + col] * r; };
    const auto g = [&](std::size_t col) { return dy[row * hidden + col] * factor(col); };
    double mean = 0;
    for (std::size_t col = 0; col < hidden - recipe.columns_left_out; ++col) {
      const double a = recipe.mean_without_dy ? factor(col) : g(col);
      mean += a * (recipe.mean_of_x ? x[row * hidden + col] : n(col));
    }
    mean /= p.hidden + recipe.divisor;
    mean *= recipe.mean_sign;
    for (std::size_t col = 0; col < hidden; ++col) {
      const double projected = mean * (recipe.mean_times_x ? x[row * hidden + col] : n(col));
      dx[row * hidden + col] = static_cast<float>(r * (g(col) - projected));
      if (row >= p.rows - recipe.rows_left_out) continue;
      sums[col] += dy[row * hidden + col] * (recipe.has_rstd ? n(col) : x[row * hidden + col]) *
                   (recipe.weighted_dweight ? factor(col) : 1);
      if (!recipe.sums_in_bf16) continue;
      sums[col] = rmsnorm::rounded(rmsnorm::Dtype::bf16, static_cast<float>(sums[col]));
    }
  }
  rmsnorm::from_floats(dx, p.dx, p.dtype);
  if (p.dweight != nullptr) {
    rmsnorm::from_floats({sums.begin(), sums.end()}, p.dweight, p.weight_dtype);
  }
  return cudaSuccess;
}

template <auto recipe>
cudaError_t launch_with(const BackwardProblem& p, cudaStream_t) {
  return launch(p, recipe);
}

/// The bits of the first element of a 4-byte tensor, changed a little.
void nudge(void* data) {
  std::vector<float> first = rmsnorm::to_host(static_cast<float*>(data), 1);
  first[0] *= 1 + 0x1p-23f;
  rmsnorm::from_host(first, static_cast<float*>(data));
}

}  // namespace

rmsnorm::Lesson backward_lesson(BackwardLaunch launch, rmsnorm::Memory memory) {
  rmsnorm::Lesson lesson = lesson_with(nullptr, memory);
  lesson.backward = {
      .launch = launch,
      .workspace_bytes = [](const BackwardProblem&) { return std::size_t{8}; },
      .traffic = [](const BackwardProblem&) { return rmsnorm::Traffic{}; },
      .row_depth = [](const BackwardProblem& p) { return p.hidden; },
      .column_depth = [](const BackwardProblem& p) { return p.rows; }};
  return lesson;
}

cudaError_t launch_right_backward(const BackwardProblem& p, cudaStream_t) {
  return launch(p, {});
}

std::vector<BackwardFault> backward_faults() {
  return {
      {"forgets the mean", launch_with<Recipe{.mean_sign = 0}>, "dx's row 0, column 0: expected"},
      {"adds the mean", launch_with<Recipe{.mean_sign = -1}>, "dx's row 0, column 0: expected"},
      {"has rstd where its cube belongs",
       launch_with<Recipe{.mean_of_x = true, .mean_times_x = true}>, "dx's row 0, column 0"},
      {"takes x for n", launch_with<Recipe{.mean_times_x = true}>, "dx's row 0, column 0"},
      {"leaves out the last column of the mean", launch_with<Recipe{.columns_left_out = 1}>,
       "dx's row "},
      {"has the next column's weight", launch_with<Recipe{.weight_shift = 1}>,
       "dx's row 0, column 0"},
      {"has the mean of g * x", launch_with<Recipe{.mean_of_x = true}>, "dx's row 0, column 0"},
      {"has the mean of weight * n", launch_with<Recipe{.mean_without_dy = true}>, "dx's row "},
      {"divides by hidden + 1", launch_with<Recipe{.divisor = 1}>, "dx's row "},
      {"forgets the weight", launch_with<Recipe{.has_weight = false}>, "dx's row 0, column 0"},
      {"has an rstd of its own", launch_with<Recipe{.scale = 1.0001}>, "dx's row 0, column 0"},
      {"forgets rstd in dweight", launch_with<Recipe{.has_rstd = false}>, "dweight's column 0"},
      {"weighs dweight", launch_with<Recipe{.weighted_dweight = true}>, "dweight's column 0"},
      {"leaves out the last row of dweight", launch_with<Recipe{.rows_left_out = 1}>,
       "dweight's column "},
      {"adds up dweight in bf16", launch_with<Recipe{.sums_in_bf16 = true}>, "dweight's column "},
      {"writes nothing", [](const BackwardProblem&, cudaStream_t) { return cudaSuccess; },
       "dx's row 0, column 0 was not written"},
      {"does not write dweight",
       [](const BackwardProblem& p, cudaStream_t) {
         BackwardProblem without = p;
         without.dweight = nullptr;
         return launch(without, {});
       },
       "dweight's column 0 was not written"},
      {"changes rstd",
       [](const BackwardProblem& p, cudaStream_t) {
         nudge(const_cast<float*>(p.rstd));
         return launch(p, {});
       },
       "changed memory outside dx and dweight"},
      {"changes dy",
       [](const BackwardProblem& p, cudaStream_t) {
         nudge(const_cast<void*>(p.dy));
         return launch(p, {});
       },
       "changed memory outside dx and dweight"},
      {"writes behind dweight",
       [](const BackwardProblem& p, cudaStream_t) {
         rmsnorm::from_host({1}, static_cast<float*>(p.dweight) + p.hidden);
         return launch(p, {});
       },
       "wrote 1 elements after the end of dweight, the first at dweight[hidden + 0]"},
      {"writes behind the workspace",
       [](const BackwardProblem& p, cudaStream_t) {
         rmsnorm::from_host({1}, static_cast<float*>(p.workspace) + 2);
         return launch(p, {});
       },
       "wrote 1 elements after the end of the workspace"},
      {"gives other bits each time",
       [](const BackwardProblem& p, cudaStream_t) {
         static int launches = 0;
         launch(p, {});
         if (++launches % 2 == 0) nudge(p.dweight);
         return cudaSuccess;
       },
       "the second launch left other bits in dx or dweight than the first"},
  };
}

}  // namespace tests
