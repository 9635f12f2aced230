#pragma once
/// \file
/// How lesson 12 spreads an operation over the GPU, and what that costs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>

#include "lessons/12_residual_add/residual_add.hpp"

namespace rmsnorm::residual_add {

/// How a row is shared.
struct Plan {
  int threads;  ///< of a row: a warp, or whole warps
  int columns;  ///< that each of them keeps
  int rows;     ///< of a block
  int width;    ///< columns of a vector
};

/// A problem of the harness.
inline Operation operation_of(const TypedProblem& p) {
  const Rows x{const_cast<void*>(p.x), p.hidden};
  return {x,       {p.residual, p.hidden}, {p.y, p.hidden}, p.weight,     p.rows, p.hidden,
          p.dtype, p.weight_dtype,         p.eps,           p.weight_bias};
}

/// Columns of a vector: 16 bytes, or as many as every row and tensor begins at a multiple of.
inline int width_of(const Operation& op) {
  std::size_t last_bits = op.hidden;
  for (const Rows& rows : {op.x, op.residual, op.y}) {
    last_bits |= reinterpret_cast<std::size_t>(rows.data) / bytes_of(op.dtype) | rows.stride;
  }
  last_bits |= reinterpret_cast<std::size_t>(op.weight) / bytes_of(op.weight_dtype);
  return static_cast<int>(std::gcd(last_bits, 16 / bytes_of(op.dtype)));
}

/// The launch of an operation: the first shape with room for a row.
inline Plan plan_for(const Operation& op) {
  Plan plan{32, 16, 4, width_of(op)};
  if (op.hidden <= plan.threads * plan.columns) return plan;
  plan.rows = 1;
  plan.threads = 128;
  while (plan.threads < 1024 && op.hidden > plan.threads * plan.columns) plan.threads *= 2;
  if (op.hidden <= plan.threads * plan.columns) return plan;
  plan.threads = 512;
  plan.columns = 96;
  return plan;
}

/// Threads of a block, if a row has kThreads.
template <int kThreads>
constexpr int kBlock = kThreads > 32 ? kThreads : 128;

/// The threads that an SM is to hold: 1280 have 48 registers each. Turing has room for no more than
/// 1024.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kThreadsOnSm = 1024;
#else
constexpr int kThreadsOnSm = 1280;
#endif

/// The blocks that an SM is to hold.
template <int kThreads, int kColumns>
constexpr int kOnSm = kColumns > 16 ? 1 : kThreadsOnSm / kBlock<kThreads>;

/// A kernel.
using Kernel = void (*)(Operation);

/// The kernel for the operation's types and its plan.
Kernel kernel_for(const Operation& op, const Plan& plan);

/// Launches a problem of the harness.
inline cudaError_t launch(const TypedProblem& p, cudaStream_t stream) {
  return launch(operation_of(p), stream);
}

/// Why the lesson cannot do a problem, or "".
inline std::string refuses(const TypedProblem& p) {
  if (p.residual == nullptr) return "12_residual_add needs a residual: it adds x to it";
  if (p.hidden <= kMostColumns) return "";
  return "12_residual_add has room for 49152 columns: 512 threads have 128 registers each";
}

/// x, the residual and the weight once; a vector of 32 bytes is two loads, both of all sectors. The
/// residual and y are written.
inline Traffic traffic(const TypedProblem& p) {
  const double row = bytes_of(p.dtype) * static_cast<double>(p.hidden);
  const double factor = p.weight == nullptr ? 0 : bytes_of(p.weight_dtype);  // bytes of one
  const int loads = factor * width_of(operation_of(p)) == 32 ? 2 : 1;
  return {.read = 2 * row + factor * p.hidden * loads, .written = 2 * row};
}

/// A thread's columns one by one, then the additions of at most two warps' shuffles.
inline int sum_depth(const TypedProblem& p) {
  return std::min(p.hidden, plan_for(operation_of(p)).columns) + 5 + 5;
}

}  // namespace rmsnorm::residual_add
