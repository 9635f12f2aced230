#pragma once
/// \file
/// What the backward pass should give, in fp64, and how far rounding can take a kernel from it.

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/verify/element_check.hpp"

namespace rmsnorm {

/// A backward pass's inputs, as they are in their types, in host memory.
struct BackwardInputs {
  std::vector<float> x;         ///< (rows, hidden)
  std::vector<float> dy;        ///< (rows, hidden)
  std::vector<float> rstd;      ///< (rows)
  std::vector<double> factors;  ///< (hidden)  weight + weight_bias, or ones
};

/// A sum of products, and that of their sizes. Where they differ, products cancel each other, and
/// with them go digits: an error is in proportion to the sizes, not to the sum.
struct SignedSum {
  double value = 0;  ///< the sum
  double size = 0;   ///< of the products without their signs

  __host__ __device__ void add(double product) {  ///< one more product
    value += product;
    size += std::fabs(product);
  }
};

/// g * n, of which a row has the mean; with the inputs that dx's element has.
__host__ __device__ inline double row_product(double x, double dy, double factor, double rstd) {
  return dy * factor * (x * rstd);
}

/// dy * n, of which a column has the sum: an element of dweight.
__host__ __device__ inline double column_product(double x, double dy, double rstd) {
  return dy * (x * rstd);
}

/// The element of dx, and the sizes of the two terms that it is the difference of, for a row whose
/// products g * n have this mean.
__host__ __device__ inline SignedSum reference_dx(
    double x, double dy, double factor, double rstd, SignedSum mean) {
  SignedSum dx;
  dx.add(rstd * (dy * factor));
  dx.value -= rstd * (x * rstd * mean.value);
  dx.size += std::fabs(rstd * (x * rstd)) * mean.size;
  return dx;
}

/// The mean of a row's products.
SignedSum reference_mean(const BackwardInputs& inputs, std::size_t row);

/// One element of dweight.
SignedSum reference_dweight(const BackwardInputs& inputs, std::size_t col);

/// How far fp32 arithmetic can take an element of dx, as a part of reference_dx().size.
///
/// Let u = 2^-24, half an ulp of 1: one rounded operation is off by at most u, relatively. Sums are
/// off in proportion to the sizes of what is added, since products of either sign cancel. With
/// A = mean of |g * n|, and the terms of dx as |g| and |n| A, rstd apart:
///
///     weight + bias, times dy: g                            2 u  of |g|
///     x * rstd: n                                           1 u
///     g * n, and row_depth additions                        row_depth + 4 u  of A
///     hidden as a float, the division by it                 2 u
///         so the mean, for a kernel that has it             row_depth + 6 u  of A
///     n * mean                                              row_depth + 8 u  of |n| A
///     g - n * mean, times rstd                              2 u  of both
///
/// which makes row_depth + 10 of the one term, and less of the other. That is to first order; one
/// per cent is added for the products of the errors.
double dx_error_bound(int row_depth);

/// The same of an element of dweight, as a part of reference_dweight().size: x * rstd, times dy,
/// and column_depth additions.
double dweight_error_bound(int column_depth);

// Products next to zero have fewer than 24 bits (subnormals): each is off by up to 2^-150, whatever
// its size. What follows multiplies that, or adds it up.

/// Compares an element of dx. `bound` is dx_error_bound.
__host__ __device__ inline ElementCheck check_dx(
    float got, double x, double dy, double factor, double rstd, SignedSum mean, double bound,
    Dtype dtype) {
  const SignedSum dx = reference_dx(x, dy, factor, rstd, mean);
  const double subnormal = 0x1p-148 * (1 + rstd * (1 + std::fabs(x * rstd) + mean.size));
  return check_value(got, dx.value, bound * dx.size + subnormal, dx.size, dtype);
}

/// Compares an element of dweight. `bound` is dweight_error_bound.
__host__ __device__ inline ElementCheck check_dweight(
    float got, SignedSum dweight, std::int64_t rows, double bound, Dtype dtype) {
  const double subnormal = 0x1p-148 * (1 + static_cast<double>(rows));
  return check_value(got, dweight.value, bound * dweight.size + subnormal, dweight.size, dtype);
}

}  // namespace rmsnorm
