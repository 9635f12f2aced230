#pragma once
/// \file
/// From what is known when the program runs, types and shapes, to kernels that have it as
/// constants: seven of rms_norm_backward for each of three types.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lessons/13_backward/shape.hpp"

namespace rmsnorm::backward {

/// Calls launch.operator()<T, kSize, kVectors, kWhole>() for this shape.
template <class T, class Launch>
cudaError_t dispatch_shape(const Shape& shape, Launch launch) {
  constexpr int kSize = 16 / sizeof(T);
  constexpr int kMost = kMostVectors;
  const bool is_whole = shape.parts == 1;
  if (shape.size == 1) {
    return is_whole ? launch.template operator()<T, 1, kMost, true>()
                    : launch.template operator()<T, 1, kMost, false>();
  }
  if (!is_whole) return launch.template operator()<T, kSize, kPartVectors, false>();
  switch (shape.vectors) {
    case 1:
      return launch.template operator()<T, kSize, 1, true>();
    case 2:
      return launch.template operator()<T, kSize, 2, true>();
    case 3:
      return launch.template operator()<T, kSize, 3, true>();
    default:
      return launch.template operator()<T, kSize, kMost, true>();
  }
}

/// The same for the type of x. Calls nothing if there are no rows.
template <class Launch>
cudaError_t dispatch(Dtype dtype, const Shape& shape, Launch launch) {
  if (shape.blocks == 0) return cudaSuccess;  // a grid of no blocks is an error
  if (dtype == Dtype::fp32) return dispatch_shape<float>(shape, launch);
  if (dtype == Dtype::fp16) return dispatch_shape<__half>(shape, launch);
  return dispatch_shape<__nv_bfloat16>(shape, launch);
}

}  // namespace rmsnorm::backward
