#include "common/operations/backward_reference.hpp"

namespace rmsnorm {
namespace {

constexpr double kHalfUlp = 0x1p-24;

}  // namespace

SignedSum reference_mean(const BackwardInputs& inputs, std::size_t row) {
  const std::size_t hidden = inputs.factors.size();
  SignedSum mean;
  for (std::size_t col = 0; col < hidden; ++col) {
    const std::size_t i = row * hidden + col;
    mean.add(row_product(inputs.x[i], inputs.dy[i], inputs.factors[col], inputs.rstd[row]));
  }
  mean.value /= static_cast<double>(hidden);
  mean.size /= static_cast<double>(hidden);
  return mean;
}

SignedSum reference_dweight(const BackwardInputs& inputs, std::size_t col) {
  const std::size_t hidden = inputs.factors.size();
  SignedSum sum;
  for (std::size_t row = 0; row < inputs.rstd.size(); ++row) {
    const std::size_t i = row * hidden + col;
    sum.add(column_product(inputs.x[i], inputs.dy[i], inputs.rstd[row]));
  }
  return sum;
}

double dx_error_bound(int row_depth) {
  return 1.01 * (row_depth + 10) * kHalfUlp;
}

double dweight_error_bound(int column_depth) {
  return 1.01 * (column_depth + 2) * kHalfUlp;
}

}  // namespace rmsnorm
