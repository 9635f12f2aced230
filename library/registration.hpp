#pragma once
/// \file
/// What the registrations of the library's kernels share.

#include <algorithm>
#include <cstdint>

#include "common/contract/lesson.hpp"
#include "library/kernels/forward_plan.hpp"
#include "library/kernels/rows.hpp"

namespace rmsnorm {

/// Rows of `hidden` elements without a gap between them.
inline kernels::Rows contiguous(const void* data, int hidden, Dtype dtype) {
  return {const_cast<void*>(data), 0, std::int64_t{bytes_of(dtype)} * hidden};
}

/// The additions of a vector's squares, those of a thread's vectors and edges, of a warp, of the
/// warps and of a cluster's blocks, of which no more than hidden add something; and one for
/// 1 / hidden, which is rounded before it is a factor.
template <class Op, class Plan>
int depth_of_forward(const Op& p, const Plan& plan) {
  const int size = 16 / bytes_of(p.dtype);
  const int threads = plan.cluster * plan.threads;
  const int most = size + p.hidden / size / threads + 1 + 30 / threads + 1 + 5 + plan.cluster + 5;
  return std::min(p.hidden, most) + 1;
}

}  // namespace rmsnorm
