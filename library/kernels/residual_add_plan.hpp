#pragma once
/// \file
/// How a residual add is spread over the GPU.

#include <cstdint>
#include <numeric>

#include "library/kernels/mixed.hpp"
#include "library/kernels/residual_add.hpp"

namespace rmsnorm::kernels {

/// How a row is shared.
struct ResidualAddPlan {
  int threads;    ///< of a row: a warp, or whole warps
  int columns;    ///< that each of them keeps in registers; 0: none
  int rows;       ///< of a block
  int width;      ///< columns of a vector
  bool is_mixed;  ///< it has a kernel that knows all types
};

constexpr int kMaxSummingThreads = 1024;  ///< of a block

/// Columns of a vector: 16 bytes, or as many as every row and tensor begins at a multiple of.
inline int width_of(const ResidualAdd& op) {
  const std::uintptr_t bits =
      static_cast<std::uintptr_t>(op.hidden) |
      (address_bits({op.x, op.residual, op.y}) | op.step_bits) / bytes_of(op.dtype) |
      reinterpret_cast<std::uintptr_t>(op.weight) / bytes_of(op.weight_dtype);
  return static_cast<int>(std::gcd(bits, 16 / bytes_of(op.dtype)));
}

/// Has the residual another type than x, the weight one that is neither x's nor fp32, or has not
/// every row the same?
inline bool is_mixed(const ResidualAdd& op) {
  return op.residual_dtype != op.dtype ||
         (op.weight != nullptr && is_odd(op.weight_dtype, op.dtype)) ||
         op.weight_outer_stride != 0 || op.weight_inner_stride != 0;
}

/// The launch of a mixed operation.
inline ResidualAddPlan mixed_plan_for(const ResidualAdd& op) {
  const int threads = mixed_threads(op.hidden);
  const std::uintptr_t bits =
      static_cast<std::uintptr_t>(op.hidden) |
      (address_bits({op.x, op.y}) | op.step_bits) / bytes_of(op.dtype) |
      (address_bits({op.residual}) | op.step_bits) / bytes_of(op.residual_dtype) |
      reinterpret_cast<std::uintptr_t>(op.weight) / bytes_of(op.weight_dtype);
  const std::uintptr_t weight_bits = op.weight_outer_stride | op.weight_inner_stride;
  const bool is_whole = (bits | weight_bits / bytes_of(op.weight_dtype)) % kGroup == 0;
  const int width = is_whole ? kGroup : 1;
  return {threads, kKeptGroups * kGroup, threads == 32 ? 4 : 1, width, true};
}

/// The launch of an operation: the first shape with room for a row.
inline ResidualAddPlan plan_for(const ResidualAdd& op) {
  if (is_mixed(op)) return mixed_plan_for(op);
  ResidualAddPlan plan{32, 16, 4, width_of(op), false};
  if (op.hidden <= plan.threads * plan.columns) return plan;
  plan.rows = 1;
  plan.threads = 128;
  while (plan.threads < kMaxSummingThreads && op.hidden > plan.threads * plan.columns)
    plan.threads *= 2;
  if (op.hidden <= plan.threads * plan.columns) return plan;
  plan.threads = 512;
  plan.columns = 96;
  if (op.hidden <= plan.threads * plan.columns) return plan;
  plan.threads = kMaxSummingThreads;
  plan.columns = 0;
  return plan;
}

}  // namespace rmsnorm::kernels
