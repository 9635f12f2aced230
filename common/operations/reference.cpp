#include "common/operations/reference.hpp"

namespace rmsnorm {

double reference_row_rstd(const float* row, int hidden, float eps) {
  double sum = 0;
  for (int col = 0; col < hidden; ++col) {
    const double value = row[col];
    sum += value * value;  // exact: 24 + 24 bits fit into 53
  }
  return reference_rstd(sum, hidden, eps);
}

}  // namespace rmsnorm
