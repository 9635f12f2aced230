#pragma once
/// \file
/// From types that are known when the program runs to those of a kernel.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/contract/dtype.hpp"

namespace rmsnorm::kernels {

/// Calls function(T()) with the type of x.
template <class Function>
auto with_type(Dtype dtype, Function function) {
  if (dtype == Dtype::fp32) return function(float());
  if (dtype == Dtype::fp16) return function(__half());
  return function(__nv_bfloat16());
}

/// Calls function(T(), W()) with the types of x and of the weight, which is that of x or fp32.
template <class Function>
auto with_types(Dtype dtype, Dtype weight_dtype, Function function) {
  const bool same = weight_dtype == dtype;
  if (dtype == Dtype::fp32) return function(float(), float());
  if (dtype == Dtype::fp16) {
    return same ? function(__half(), __half()) : function(__half(), float());
  }
  return same ? function(__nv_bfloat16(), __nv_bfloat16()) : function(__nv_bfloat16(), float());
}

}  // namespace rmsnorm::kernels
