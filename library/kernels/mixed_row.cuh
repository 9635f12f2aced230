#pragma once
/// \file
/// What the kernels for mixed types do with a row: groups of columns as fp32 numbers, whatever the
/// types are. kWhole: all groups are vectors. Otherwise elements are loaded and stored one by one.

#include "common/contract/dtype.hpp"
#include "library/kernels/mixed.hpp"
#include "library/kernels/residual_add_row.cuh"
#include "library/kernels/row.cuh"

namespace rmsnorm::kernels {

/// The columns of a group.
struct Group {
  float number[kGroup];
};

/// Group i of a row: zeros behind its end.
template <bool kWhole, class T>
__device__ Group load_group(const T* row, int i, int hidden) {
  Group group;
  if constexpr (kWhole) {
    const Vector<T, kGroup> v = reinterpret_cast<const Vector<T, kGroup>*>(row)[i];
#pragma unroll
    for (int j = 0; j < kGroup; ++j) group.number[j] = element(v, j);
  } else {
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      const int col = i * kGroup + j;
      group.number[j] = col < hidden ? static_cast<float>(row[col]) : 0;
    }
  }
  return group;
}

/// The same of a weight of any type, with its bias; ones where there is none.
template <bool kWhole>
__device__ Group load_factors(const void* weight, Dtype dtype, int i, int hidden, float bias) {
  Group group;
  if (weight == nullptr) {
#pragma unroll
    for (float& factor : group.number) factor = 1;
    return group;
  }
  if (dtype == Dtype::fp32) {
    group = load_group<kWhole>(static_cast<const float*>(weight), i, hidden);
  } else if (dtype == Dtype::fp16) {
    group = load_group<kWhole>(static_cast<const __half*>(weight), i, hidden);
  } else {
    group = load_group<kWhole>(static_cast<const __nv_bfloat16*>(weight), i, hidden);
  }
#pragma unroll
  for (float& factor : group.number) factor += bias;
  return group;
}

/// Stores group i of a row, each number rounded to the nearest.
template <bool kWhole, class T>
__device__ void store_group(T* row, int i, int hidden, const Group& group) {
  if constexpr (kWhole) {
    reinterpret_cast<Vector<T, kGroup>*>(row)[i] = rounded<T, kGroup>(group.number);
  } else {
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      const int col = i * kGroup + j;
      if (col < hidden) row[col] = static_cast<T>(group.number[j]);
    }
  }
}

/// The sum of a group's squares.
__device__ inline float squares(const Group& group) {
  float sum = 0;
#pragma unroll
  for (const float number : group.number) sum += number * number;
  return sum;
}

/// A group times rstd times its factors.
__device__ inline Group scaled(const Group& group, float rstd, const Group& factors) {
  Group result;
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    result.number[j] = group.number[j] * rstd * factors.number[j];
  }
  return result;
}

}  // namespace rmsnorm::kernels
