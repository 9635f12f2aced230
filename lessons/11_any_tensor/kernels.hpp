#pragma once
/// \file
/// The kernels of lesson 11. One is compiled for each pair of types and each number of vectors that
/// a plan can name.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lessons/11_any_tensor/any_tensor.hpp"
#include "lessons/11_any_tensor/plan.hpp"

namespace rmsnorm::any_tensor {

/// A kernel. blockDim is (plan.threads, plan.rows), with plan.staged vectors of shared memory for
/// each thread.
using Kernel = void (*)(Operation, Plan);

Kernel aligned_kernel(const Operation& op, const Plan& plan);  ///< for Kind::plain and ::aligned
/// For Kind::longest. In a launch, all tensors have a weight, or none has.
Kernel longest_kernel(const Operation& op, bool has_weight);
Kernel ragged_kernel(const Operation& op, const Plan& plan);  ///< for Kind::ragged

/// Calls function(T(), W()) with the types of x and of the weight.
template <class Function>
auto with_types(const Operation& op, Function function) {
  const bool same = op.weight_dtype == op.dtype;
  if (op.dtype == Dtype::fp32) return function(float(), float());
  if (op.dtype == Dtype::fp16) {
    return same ? function(__half(), __half()) : function(__half(), float());
  }
  return same ? function(__nv_bfloat16(), __nv_bfloat16()) : function(__nv_bfloat16(), float());
}

}  // namespace rmsnorm::any_tensor
