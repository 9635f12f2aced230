#pragma once
/// \file
/// What the result should be: RMSNorm in fp64.

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>

namespace rmsnorm {

/// 1 / sqrt(eps + mean of squares) of a row of `hidden` columns whose squares add up to `sum`.
///
/// A kernel adds in fp32. Where the sum leaves that range, its result is Inf as IEEE 754 says, and
/// the row becomes 0: the reference says so too, instead of calling it an error.
__host__ __device__ inline double reference_rstd(double sum, int hidden, float eps) {
  if (sum > FLT_MAX) sum = INFINITY;
  return 1 / sqrt(sum / hidden + static_cast<double>(eps));
}

/// rstd of one row of x in host memory.
double reference_row_rstd(const float* row, int hidden, float eps);

}  // namespace rmsnorm
