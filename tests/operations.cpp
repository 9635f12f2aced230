#include "tests/operations.hpp"

#include <cfloat>
#include <cmath>
#include <stdexcept>

#include "common/operations/backward.hpp"
#include "common/operations/residual_add.hpp"
#include "common/operations/rms_norm.hpp"
#include "common/tensors/buffer.hpp"
#include "common/tensors/workload.hpp"

namespace tests {
namespace {

using namespace rmsnorm;

std::vector<double> normed(const Numbers& n, const std::vector<double>& x, const Makes& makes) {
  const std::size_t weight_shift = makes("y: the neighbour's weight");
  const bool no_weight = makes("y: the weight forgotten");
  const bool in_sum = makes("y: eps outside the mean");
  const bool on_root = makes("y: eps outside the root");
  const bool in_mean = !makes("y: eps forgotten") && !in_sum && !on_root;
  const int row_shift = makes("y: another row's sum");
  const int divisor = n.hidden + makes("y: divisor hidden + 1");
  const int summed = n.hidden - makes("y: the sum without the last column") +
                     makes("y: the sum with a column too many");
  std::vector<double> y;
  for (int row = 0; row < n.rows; ++row) {
    const std::size_t first = static_cast<std::size_t>((row + row_shift) % n.rows) * n.hidden;
    double sum = in_sum ? n.eps : 0;
    for (int col = 0; col < summed; ++col) sum += std::pow(x[(first + col) % x.size()], 2);
    if (sum > FLT_MAX) sum = INFINITY;  // as fp32 has it
    const double root = std::sqrt(sum / divisor + (in_mean ? n.eps : 0));
    const double rstd = 1 / (root + (on_root ? n.eps : 0));
    for (int col = 0; col < n.hidden; ++col) {
      const double factor = no_weight ? 1 : n.factors[(col + weight_shift) % n.hidden];
      y.push_back(x[std::size_t(row) * n.hidden + col] * rstd * factor);
    }
  }
  return y;
}

Tensors rms_norm(const Numbers& n, const Makes& makes) {
  return {{"y", normed(n, n.tensors.at("x"), makes)}};
}

Tensors residual_add(const Numbers& n, const Makes& makes) {
  const bool is_subtracted = makes("residual: the difference");
  const bool is_kept = makes("residual: as it was");
  std::vector<double> sum = n.tensors.at("x");
  const std::vector<double>& residual = n.tensors.at("residual");
  std::vector<double> stored;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double x = sum[i];
    sum[i] = static_cast<float>(x + residual[i]);  // one rounding, that of fp32
    stored.push_back(is_kept ? residual[i] : is_subtracted ? x - residual[i] : sum[i]);
  }
  return {{"y", normed(n, sum, makes)}, {"residual", stored}};
}

Tensors backward(const Numbers& n, const Makes& makes) {
  const bool adds_mean = makes("dx: adds the mean");
  const bool no_mean = makes("dx: forgets the mean");
  const bool without_dy = makes("dx: has the mean of weight * n");
  const bool no_cube = makes("dx: has rstd where its cube belongs");
  const bool mean_of_x = makes("dx: has the mean of g * x") || no_cube;
  const bool takes_x = makes("dx: takes x for n") || no_cube;
  const int averaged = n.hidden - makes("dx: leaves out the last column of the mean");
  const int divisor = n.hidden + makes("dx: divides by hidden + 1");
  const std::size_t weight_shift = makes("dx: has the next column's weight");
  const bool no_weight = makes("dx: forgets the weight");
  const double scale = makes("dx: has an rstd of its own") ? 1.0001 : 1;
  const bool no_rstd = makes("dweight: forgets rstd");
  const bool is_weighed = makes("dweight: weighs it");
  const int added = n.rows - makes("dweight: leaves out the last row");
  const bool in_bf16 = makes("dweight: adds up in bf16");
  const std::vector<double>& x = n.tensors.at("x");
  const std::vector<double>& dy = n.tensors.at("dy");
  std::vector<double> dx;
  std::vector<double> dweight(n.hidden);
  for (int row = 0; row < n.rows; ++row) {
    const std::size_t first = static_cast<std::size_t>(row) * n.hidden;
    const double rstd = n.tensors.at("rstd")[row] * scale;
    const auto factor = [&](int col) {
      return no_weight ? 1 : n.factors[(col + weight_shift) % n.hidden];
    };
    const auto g = [&](int col) { return dy[first + col] * factor(col); };
    double mean = 0;
    for (int col = 0; col < averaged; ++col) {
      mean += (without_dy ? factor(col) : g(col)) * x[first + col] * (mean_of_x ? 1 : rstd);
    }
    mean *= no_mean ? 0 : adds_mean ? -1.0 / divisor : 1.0 / divisor;
    for (int col = 0; col < n.hidden; ++col) {
      const double n_or_x = x[first + col] * (takes_x ? 1 : rstd);
      dx.push_back(rstd * (g(col) - mean * n_or_x));
      if (row >= added) continue;
      dweight[col] += dy[first + col] * x[first + col] * (no_rstd ? 1 : rstd) *
                      (is_weighed ? n.factors[col] : 1);
      if (in_bf16) dweight[col] = rounded(Dtype::bf16, static_cast<float>(dweight[col]));
    }
  }
  return {{"dx", dx}, {"dweight", dweight}};
}

}  // namespace

const std::vector<const Operation*>& operations() {
  static const std::vector<const Operation*> all = {
      &operation_of<RmsNorm>(), &operation_of<ResidualAdd>(), &operation_of<Backward>()};
  return all;
}

Numbers numbers_of(const Operation& operation, const Problem& p) {
  Numbers n{p.rows, p.hidden, p.eps, std::vector<double>(p.hidden, 1), {}};
  const Types types = types_of(p);
  for (std::size_t i = 0; i < operation.tensors.size(); ++i) {
    const TensorSpec& tensor = operation.tensors[i];
    if (!is_read(tensor) || !is_there(tensor, types)) continue;
    const std::vector<float> values =
        to_floats(p.tensors[i], dtype_of(tensor, types), size_of(tensor, p));
    n.tensors[tensor.name].assign(values.begin(), values.end());
  }
  if (!p.has_weight) return n;
  n.factors = n.tensors.at("weight");
  for (double& factor : n.factors) factor += p.weight_bias;
  return n;
}

Tensors solve(const Operation& operation, const Numbers& numbers, const Makes& makes) {
  const std::string name = operation.name;
  if (name == "rms_norm") return rms_norm(numbers, makes);
  if (name == "residual_add") return residual_add(numbers, makes);
  if (name == "backward") return backward(numbers, makes);
  throw std::logic_error("tests/operations.cpp does not know " + name);
}

std::vector<std::string> mistakes_in(const Operation& operation) {
  Numbers nothing{0, 0, 0, {}, {}};
  for (const TensorSpec& tensor : operation.tensors) nothing.tensors[tensor.name] = {};
  std::vector<std::string> mistakes;
  solve(operation, nothing, [&](const char* mistake) {
    mistakes.emplace_back(mistake);
    return false;
  });
  return mistakes;
}

void store_solution(const Operation& operation, const Problem& p, const Makes& makes) {
  const Types types = types_of(p);
  for (const auto& [name, values] : solve(operation, numbers_of(operation, p), makes)) {
    const int i = operation.index_of(name);
    const std::vector<float> stored(values.begin(), values.end());
    if (p.tensors[i] == nullptr) continue;
    from_floats(stored, p.tensors[i], dtype_of(operation.tensors[i], types));
  }
}

Problem problem_of(int rows, int hidden, const Types& types) {
  return problem_without_tensors(
      operation_of<RmsNorm>(), {.rows = rows, .hidden = hidden, .types = types});
}

}  // namespace tests
