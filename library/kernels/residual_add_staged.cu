// Rows that are no vectors of 16 bytes, of any length or at any address: they are copied to shared
// memory and back in such vectors, but for their ends. In between, each thread has the columns that
// it would have of whole vectors, in that order.
#include <cstdint>
#include <cuda/annotated_ptr>

#include "library/kernels/residual_add_kernels.hpp"
#include "library/kernels/residual_add_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

constexpr int kBytes = 16;  // of a vector

/// A row in global memory and its place in shared memory, as far behind a boundary of 16 bytes: so
/// both have the same vectors, of which the first and the last may be others', too.
template <class T>
struct Staged {
  T* row;
  T* staged;
  int before, end;  ///< bytes from the first vector to the row's begin and end

  __device__ Staged(T* data, char* buffer, int hidden) : row(data) {
    before = static_cast<int>(reinterpret_cast<std::uintptr_t>(data) % kBytes);
    end = before + hidden * static_cast<int>(sizeof(T));
    staged = reinterpret_cast<T*>(buffer + before);
  }

  /// Calls whole(to, from) for each vector that is the row's own, and ends(column) for the columns
  /// of others. Threads share them.
  template <class Whole, class Ends>
  __device__ void each(int threads, const Whole& whole, const Ends& ends) const {
    const int first = before == 0 ? 0 : 1, last = end / kBytes;  // of those that are its own
#pragma unroll 4
    for (int i = first + threadIdx.x; i < last; i += threads) whole(i);
    const int of_first = first == 0 ? 0 : (kBytes - before) / static_cast<int>(sizeof(T));
    const int hidden = (end - before) / static_cast<int>(sizeof(T));
    const int begin_of_last = max(of_first, (last * kBytes - before) / static_cast<int>(sizeof(T)));
    for (int col = threadIdx.x; col < min(of_first, hidden); col += threads) ends(col);
    for (int col = begin_of_last + threadIdx.x; col < hidden; col += threads) ends(col);
  }

  /// What all threads load is in shared memory, once they have met.
  template <class Policy>
  __device__ void load(int threads, const Policy& policy) const {
    const auto* from = cuda::associate_access_property(
        reinterpret_cast<const uint4*>(reinterpret_cast<const char*>(row) - before), policy);
    auto* const to = reinterpret_cast<uint4*>(reinterpret_cast<char*>(staged) - before);
    each(
        threads, [&](int i) { to[i] = from[i]; }, [&](int col) { staged[col] = row[col]; });
  }

  /// The way back.
  __device__ void store(int threads) const {
    auto* const to = reinterpret_cast<uint4*>(reinterpret_cast<char*>(row) - before);
    const auto* from = reinterpret_cast<const uint4*>(reinterpret_cast<char*>(staged) - before);
    each(
        threads, [&](int i) { to[i] = from[i]; }, [&](int col) { row[col] = staged[col]; });
  }
};

/// A row has op.threads threads, and each of these up to kColumns columns: vectors of op.pieces.
template <class T, class W, int kColumns>
__global__ void __launch_bounds__(kMaxSummingThreads)
    rms_norm_residual_add_staged(const __grid_constant__ ResidualAdd op) {
  extern __shared__ __align__(16) uint4 staged_rows[];
  const Place place{blockIdx.y, blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y};
  const int threads = op.threads;
  const int hidden = place.inner < op.inner ? op.hidden : 0;
  const bool is_warp = threads <= 32;
  const auto meet = [&] { is_warp ? __syncwarp() : __syncthreads(); };
  const int room = staged_row_bytes(op.hidden * static_cast<int>(sizeof(T)));
  char* const buffer = reinterpret_cast<char*>(staged_rows) + 2 * room * threadIdx.y;
  const Staged<T> x(find<T>(op.x, place), buffer, hidden);
  const Staged<T> residual(find<T>(op.residual, place), buffer + room, hidden);
  const Staged<T> y(find<T>(op.y, place), buffer, hidden);  // in x's place
  const auto* weight = static_cast<const W*>(op.weight);
  if (weight != nullptr) {
    const Rows weights{
        const_cast<void*>(op.weight), op.weight_outer_stride, op.weight_inner_stride};
    weight = find<const W>(weights, place);
  }
  const auto policy = op.is_large ? cuda::access_property(cuda::access_property::persisting())
                                  : cuda::access_property();
  wait_for_inputs();
  x.load(threads, policy);
  residual.load(threads, policy);
  let_next_begin();
  meet();  // the row is there

  const int shift = __ffs(op.pieces) - 1;
  const auto column = [&](int k) {
    const int vector = threadIdx.x + (k >> shift) * threads;
    return (vector << shift) + (k & (op.pieces - 1));
  };
  float sum[kColumns];  // of x and the residual
  float squares = 0;
#pragma unroll
  for (int k = 0; k < kColumns; ++k) {
    const int col = column(k);
    sum[k] = 0;
    if (col >= hidden) continue;
    sum[k] = static_cast<float>(x.staged[col]) + static_cast<float>(residual.staged[col]);
    squares += sum[k] * sum[k];
    residual.staged[col] = static_cast<T>(sum[k]);
  }
  __shared__ float partial[32];
  const float total = is_warp ? group_sum(squares, threads) : row_sum<0>(squares, partial, threads);
  const float rstd = rsqrtf(total * op.inverse + op.eps), bias = op.weight_bias;
  if (is_warp) __syncwarp();  // all lanes have what they need of x
#pragma unroll
  for (int k = 0; k < kColumns; ++k) {
    const int col = column(k);
    if (col >= hidden) continue;
    float factor = 1;
    if (weight != nullptr) factor = static_cast<float>(weight[col]) + bias;
    y.staged[col] = static_cast<T>(sum[k] * rstd * factor);  // the sum is not rounded, in the norm
  }
  meet();  // the results are there
  residual.store(threads);
  y.store(threads);
}

}  // namespace

ResidualAddKernel residual_add_staged_kernel(const ResidualAdd& op, const ResidualAddPlan& plan) {
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) -> ResidualAddKernel {
    using T = decltype(x);
    using W = decltype(weight);
    return op.hidden <= 8 * plan.threads ? rms_norm_residual_add_staged<T, W, 8>
                                         : rms_norm_residual_add_staged<T, W, 16>;
  });
}

}  // namespace rmsnorm::kernels
