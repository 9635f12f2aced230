#pragma once
/// \file
/// How the kernels for mixed types share a row. They are simple, and know any type of the weight
/// and of the residual.

#include <cuda_runtime.h>

#include <algorithm>

#include "common/contract/dtype.hpp"

namespace rmsnorm::kernels {

/// Are these the types of a weight and x that only the kernels for mixed types know? The weight has
/// 16 bits, and x another type.
__host__ __device__ constexpr bool is_odd(Dtype weight_dtype, Dtype dtype) {
  return weight_dtype != dtype && weight_dtype != Dtype::fp32;
}

constexpr int kGroup = 8;              ///< neighbouring columns that move together: 16 bytes or 32
constexpr int kKeptGroups = 2;         ///< of each thread, in registers; of others, x is read twice
constexpr int kMaxMixedThreads = 512;  ///< of a block

/// The threads of a row: a warp, with kMixedRows rows to a block, or whole warps, a block's. This
/// follows from the number of columns alone, and so does the order in which squares are added.
constexpr int mixed_threads(int hidden) {
  const int groups = (hidden - 1) / kGroup + 1;
  if (groups <= 32 * kKeptGroups) return 32;
  const int warps = (groups - 1) / (32 * kKeptGroups) + 1;
  return std::clamp(warps * 32, 128, kMaxMixedThreads);
}

}  // namespace rmsnorm::kernels
