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

std::vector<double> normed(const Numbers& n, const std::vector<double>& x) {
  std::vector<double> y;
  for (int row = 0; row < n.rows; ++row) {
    const std::size_t first = static_cast<std::size_t>(row) * n.hidden;
    double sum = 0;
    for (int col = 0; col < n.hidden; ++col) sum += std::pow(x[first + col], 2);
    if (sum > FLT_MAX) sum = INFINITY;  // as fp32 has it
    const double root = std::sqrt(sum / n.hidden + n.eps);
    for (int col = 0; col < n.hidden; ++col) y.push_back(x[first + col] / root * n.factors[col]);
  }
  return y;
}

Tensors rms_norm(const Numbers& n) {
  return {{"y", normed(n, n.tensors.at("x"))}};
}

Tensors residual_add(const Numbers& n) {
  std::vector<double> sum = n.tensors.at("x");
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] = static_cast<float>(sum[i] + n.tensors.at("residual")[i]);  // one rounding, of fp32
  }
  return {{"y", normed(n, sum)}, {"residual", sum}};
}

Tensors backward(const Numbers& n) {
  const std::vector<double>& x = n.tensors.at("x");
  const std::vector<double>& dy = n.tensors.at("dy");
  std::vector<double> dx;
  std::vector<double> dweight(n.hidden);
  for (int row = 0; row < n.rows; ++row) {
    const std::size_t first = static_cast<std::size_t>(row) * n.hidden;
    const double rstd = n.tensors.at("rstd")[row];
    const auto g = [&](int col) { return dy[first + col] * n.factors[col]; };
    double mean = 0;
    for (int col = 0; col < n.hidden; ++col) mean += g(col) * x[first + col] * rstd / n.hidden;
    for (int col = 0; col < n.hidden; ++col) {
      const double normed = x[first + col] * rstd;
      dx.push_back(rstd * (g(col) + n.sign_of_mean * mean * normed));
      dweight[col] += dy[first + col] * normed;
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

Tensors solve(const Operation& operation, const Numbers& numbers) {
  const std::string name = operation.name;
  if (name == "rms_norm") return rms_norm(numbers);
  if (name == "residual_add") return residual_add(numbers);
  if (name == "backward") return backward(numbers);
  throw std::logic_error("tests/operations.cpp does not know " + name);
}

void store_solution(const Operation& operation, const Problem& p) {
  const Types types = types_of(p);
  for (const auto& [name, values] : solve(operation, numbers_of(operation, p))) {
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
