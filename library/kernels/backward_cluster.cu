// Both gradients of long rows in one pass over x and dy: the blocks of a cluster share a row, and
// its sums travel while other rows are worked on.
#include <cuda/annotated_ptr>

#include "library/kernels/backward_kernels.hpp"
#include "library/kernels/backward_row.cuh"
#include "library/kernels/cluster.cuh"
#include "library/kernels/launch.hpp"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // no plan for older GPUs has these kernels

/// What a thread keeps of a row, as it was loaded.
struct Loaded {
  uint4 x[kPartVectors], dy[kPartVectors];
  float rstd;
};

#endif

/// n = x * rstd, g = dy * weight. The blocks of a cluster have one row at a time, a part each, and
/// all clusters together have neighbouring ones. Heads are as in backward.cu.
template <class T, Variant kVariant>
__global__ void __launch_bounds__(kMaxBlock, 1) rms_norm_backward_cluster(
    const __grid_constant__ Backward op,          // the tensors
    const __grid_constant__ BackwardPlan plan) {  // how blocks share them
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  constexpr int kSize = 16 / sizeof(T), kVectors = kPartVectors;
  constexpr bool kPlain = kVariant == Variant::plain;
  const int rank = blockIdx.x, blocks = gridDim.x;  // of the cluster
  const int vectors = op.hidden / kSize;
  const auto vector = [=](int k) {
    return static_cast<int>(threadIdx.x + (k + rank * kVectors) * blockDim.x);
  };
  const int rows = op.rows, step = gridDim.y;
  const auto find_row = [&](const Rows& tensor, const Further& further, int row) {
    const Place place = place_of<false>(row, rows, kPlain ? rows : op.inner);
    return kPlain ? find<uint4>(tensor, place)
                  : find_any<uint4>(tensor, further, place, plan.period, blockIdx.z);
  };

  wait_for_inputs();
  float factor[kVectors][kSize] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (vector(k) >= vectors) continue;
    load_factors<T, !kPlain>(factor[k], op, blockIdx.z * plan.weight_head, vector(k));
  }
  const auto load = [&](Loaded& to, int row) {  // zeros where nothing is
    to = Loaded{};
    if (row >= rows) return;
    to.rstd = op.rstd[kPlain ? row : row * std::int64_t{gridDim.z} + blockIdx.z];
    const auto keep = cuda::access_property::persisting();  // = evict_last
    const uint4* const dy = find_row(op.dy, plan.dy_further, row);
    const auto from_x = cuda::associate_access_property(find_row(op.x, plan.x_further, row), keep);
    const auto from_dy = cuda::associate_access_property(dy, keep);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (vector(k) >= vectors) continue;
      to.x[k] = from_x[vector(k)];
      if constexpr (!kPlain) {
        if (plan.dy_is_expanded) {
          to.dy[k] = repeated<uint4, T, kSize>(*reinterpret_cast<const T*>(dy));
          continue;
        }
      }
      to.dy[k] = from_dy[vector(k)];
    }
  };

  float column[kVectors][kSize] = {};  // of dweight, from this cluster's rows
  const auto add = [&](Loaded& of) {   // returns the thread's part of the row's sum
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kVectors * kSize; ++i) {
      const int k = i / kSize, e = i % kSize;
      const float d = float(element<T>(of.dy[k], e));
      const float n = float(element<T>(of.x[k], e)) * of.rstd;
      sum += d * factor[k][e] * n;
      column[k][e] += d * n;
    }
    return sum;
  };

  // The sums of every warp of the cluster, of a row and of the next one. Nobody sends the sums of a
  // third before all have sent those of the second, and so have read those of the first.
  __shared__ float partial[2][kCluster * kMaxBlock / 32];
  __shared__ Mbarrier sums_are_there[2];
  const int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned bytes = blocks * warps * sizeof(float);
  if (threadIdx.x == 0) {
    for (auto& barrier : sums_are_there) init(&barrier), expect(&barrier, bytes);
    show_barriers();
  }
  arrive_at_cluster();
  const auto send = [&](float sum, int turn) {
    sum = group_sum(sum, 32);
    float* const place = &partial[turn % 2][rank * warps + warp];
    __syncwarp();  // every lane has read the sums of the row before
    if (lane < blocks) store_in_block(place, sum, &sums_are_there[turn % 2], lane);
  };
  const auto receive = [&](int turn) {
    Mbarrier* const barrier = &sums_are_there[turn % 2];
    wait_for_blocks(barrier, turn / 2 % 2);        // every warp's sum is in partial[turn % 2]
    if (threadIdx.x == 0) expect(barrier, bytes);  // of the row after the next
    return reduce_partial(partial[turn % 2], blocks * warps, Sum());
  };

  Loaded now, next, last;
  const int first = blockIdx.y;
  load(now, first);
  load(next, first + step);
  wait_for_cluster();  // every block has begun: its barriers are there
  send(add(now), 0);
  int turn = 0;
  for (int row = first; row < rows; row += step) {
    load(last, row + 2 * step);
    const float sum = add(next);
    const float mean = receive(turn) * plan.inverse;
    send(sum, ++turn);  // it is on its way while dx is stored
    uint4* const dx = find_row(op.dx, plan.dx_further, row);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      uint4 out;
#pragma unroll
      for (int e = 0; e < kSize; ++e) {
        const float g = float(element<T>(now.dy[k], e)) * factor[k][e];
        const float n = float(element<T>(now.x[k], e)) * now.rstd;
        element<T>(out, e) = T(now.rstd * (g - n * mean));
      }
      if (vector(k) < vectors) dx[vector(k)] = out;
    }
    now = next;
    next = last;
  }
  receive(turn);  // the last sums, of no row: now nobody sends any more, and a block may leave
  let_next_begin();
  if (plan.sums == nullptr) return;  // nobody wants dweight

  const unsigned line = kPlain ? blockIdx.y : blockIdx.y * gridDim.z + blockIdx.z;
  float4* const sums = reinterpret_cast<float4*>(plan.sums + line * std::int64_t{op.hidden});
#pragma unroll
  for (int i = 0; i < kVectors * kSize; i += 4) {
    const int k = i / kSize, e = i % kSize;
    if (vector(k) >= vectors) continue;
    sums[(vector(k) * kSize + e) / 4] =
        make_float4(column[k][e], column[k][e + 1], column[k][e + 2], column[k][e + 3]);
  }
#endif
}

}  // namespace

BackwardKernel cluster_kernel(const NestedBackward& op, bool are_plain) {
  return with_type(op.dtype, [&](auto x) -> BackwardKernel {
    using T = decltype(x);
    return are_plain ? rms_norm_backward_cluster<T, Variant::plain>
                     : rms_norm_backward_cluster<T, Variant::any>;
  });
}

}  // namespace rmsnorm::kernels
