// Lesson 13 - Backward, foil
// Given      lesson 13's kernel, for dx alone.
// Changed    dweight has a kernel of its own, which loads x and dy again.
// Expect     the time of five tensors instead of three.
#include <cstdint>
#include <cuda/annotated_ptr>

#include "lessons/13_backward/backward.hpp"
#include "lessons/13_backward/dispatch.hpp"
#include "lessons/13_backward/other_kernels.hpp"
#include "lessons/13_backward/row.cuh"

namespace {

using namespace rmsnorm::backward;
using rmsnorm::BackwardProblem;

/// The blocks' shares of dweight: dy * x * rstd, added up over `block_rows` rows. A thread has one
/// vector of columns.
template <class T, int kSize>
__global__ void column_shares(
    const Vector<T, kSize>* x,       // (rows, hidden)    read once, here
    const Vector<T, kSize>* dy,      // (rows, hidden)    read once, here
    const float* __restrict__ rstd,  // (rows)            read once a warp
    float* __restrict__ shares,      // (blocks, hidden)  written once
    int rows, int hidden, int block_rows) {
  const int vectors = hidden / kSize;
  const int vector = blockIdx.x * blockDim.x + threadIdx.x;
  if (vector >= vectors) return;
  const std::int64_t first = blockIdx.y * std::int64_t{block_rows};
  const int end = min(rows - first, std::int64_t{block_rows});
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + first * vectors + vector, keep);
  dy = cuda::associate_access_property(dy + first * vectors + vector, keep);
  float share[kSize] = {};
#pragma unroll 4
  for (int row = 0; row < end; ++row) {
    auto v = x[row * std::int64_t{vectors}];
    auto d = dy[row * std::int64_t{vectors}];
    const float r = rstd[first + row];
#pragma unroll
    for (int e = 0; e < kSize; ++e)
      share[e] += float(element<T>(d, e)) * (float(element<T>(v, e)) * r);
  }
  store_sums(shares + blockIdx.y * std::int64_t{hidden}, vector, share);
}

template <class T, int kSize>
cudaError_t launch_for(const BackwardProblem& p, const Shape& shape, cudaStream_t stream) {
  constexpr int kThreads = 128;
  const dim3 grid(divide_up(p.hidden / kSize, kThreads), shape.blocks);
  column_shares<T, kSize><<<grid, kThreads, 0, stream>>>(
      static_cast<const Vector<T, kSize>*>(p.x), static_cast<const Vector<T, kSize>*>(p.dy), p.rstd,
      shares_of(p), p.rows, p.hidden, shape.block_rows);
  return cudaGetLastError();
}

cudaError_t launch(const BackwardProblem& p, cudaStream_t stream) {
  BackwardProblem of_dx = p;
  of_dx.dweight = nullptr;
  const Shape shape = shape_for(p);
  cudaError_t error = backward(of_dx, stream);
  if (error == cudaSuccess && p.dweight != nullptr) {
    error = dispatch(p.dtype, shape, [&]<class T, int kSize, int, bool>() {
      return launch_for<T, kSize>(p, shape, stream);
    });
  }
  return error == cudaSuccess ? launch_add_shares(p, shape, stream) : error;
}

/// The lesson's, and x, dy and rstd once more.
rmsnorm::Traffic traffic_of_two(const BackwardProblem& p) {
  rmsnorm::Traffic result = traffic(p);
  if (p.dweight == nullptr) return result;
  const Shape shape = shape_for(p);
  const double row = 1.0 * p.hidden * bytes_of(p.dtype);
  result.read += 2 * row + 32.0 * divide_up(p.hidden / shape.size, 32);  // and a sector a warp
  return result;
}

/// A thread adds up all rows of a block, also where the lesson has several places for them.
int column_depth_of_two(const BackwardProblem& p) {
  const Shape shape = shape_for(p);
  const int rows = p.rows < shape.block_rows ? p.rows : shape.block_rows;
  return rows + static_cast<int>(divide_up(shape.blocks, 32)) + 32;
}

const rmsnorm::Registration foil{{
    .slug = "13_backward/two_passes",
    .title = "Backward, two passes",
    .idea = "As 13_backward, but a kernel of its own for dweight loads x and dy again",
    .regime = "backward",
    .backward = {launch, workspace_bytes, nullptr, traffic_of_two, row_depth, column_depth_of_two},
}};

}  // namespace
