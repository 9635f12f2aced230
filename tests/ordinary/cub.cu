/// \file
/// CUB's operations of a block and of a warp.

#include <cub/cub.cuh>
#include <cuda/functional>

#include "tests/ordinary/block_sum.cuh"
#include "tests/ordinary/cases.hpp"

namespace tests {
namespace {

constexpr int kHidden = Rows::kHidden;

/// A block of 64 threads with 4 elements each.
template <
    cub::BlockLoadAlgorithm kLoad, cub::BlockStoreAlgorithm kStore,
    cub::BlockReduceAlgorithm kReduce>
__global__ void whole_row(const float* x, float* y) {
  using Load = cub::BlockLoad<float, 64, 4, kLoad>;
  using Store = cub::BlockStore<float, 64, 4, kStore>;
  using Reduce = cub::BlockReduce<float, 64, kReduce>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
    typename Reduce::TempStorage reduce;
  } storage;
  __shared__ float rstd;
  float values[4], squares[4];
  Load(storage.load).Load(x + blockIdx.x * kHidden, values);
  for (int i = 0; i < 4; ++i) squares[i] = values[i] * values[i];
  __syncthreads();  // the storage is used again
  const float sum = Reduce(storage.reduce).Sum(squares);
  if (threadIdx.x == 0) rstd = rstd_of(sum);
  __syncthreads();
  for (float& value : values) value *= rstd;
  Store(storage.store).Store(y + blockIdx.x * kHidden, values, kHidden);
}

/// The last inclusive sum is the whole, up to the order of additions; 2-D blocks of 250 threads, of
/// which not all have a partner.
__global__ void scans(const float* x, float* y) {
  using Scan = cub::BlockScan<float, 50, cub::BLOCK_SCAN_WARP_SCANS, 5>;
  using Reduce = cub::BlockReduce<float, 50, cub::BLOCK_REDUCE_RAKING, 5>;
  using WarpScan = cub::WarpScan<int>;
  __shared__ typename Scan::TempStorage scan;
  __shared__ typename Reduce::TempStorage reduce;
  __shared__ typename WarpScan::TempStorage warps[8];
  __shared__ float rstd;
  const int t = static_cast<int>(threadIdx.y * 50 + threadIdx.x);
  float values[2] = {x[blockIdx.x * kHidden + t], 0};
  if (t + 250 < kHidden) values[1] = x[blockIdx.x * kHidden + t + 250];
  float before[2] = {values[0] * values[0], values[1] * values[1]};
  float sum = 0;
  float inclusive = 0;
  Scan(scan).InclusiveSum(before[0] + before[1], inclusive, sum);
  __syncthreads();
  Scan(scan).ExclusiveSum(before, before);
  const float most = Reduce(reduce).Reduce(inclusive, cuda::maximum<>(), 250);
  int rank = -1;
  if (t < 224) WarpScan(warps[t / 32]).ExclusiveSum(1, rank);  // whole warps
  const bool is_whole = fabsf(most - sum) <= 1e-5f * sum && before[0] == 0 && rank == 0;
  if (t == 0) rstd = is_whole ? rstd_of(sum) : 0;
  __syncthreads();
  const bool is_right = (t >= 224 || rank == t % 32) && before[1] <= sum * 1.001f;
  for (int i = t; i < kHidden; i += 250) {
    y[blockIdx.x * kHidden + i] = is_right ? values[i / 250] * rstd : 0;
  }
}

/// Two numbers at once, each with an operator of its own. It is code of
/// lessons/05_cub_warp_reduce/README.md.
struct SumAndLargest {
  float sum, largest;
};
struct Combine {
  __device__ SumAndLargest operator()(SumAndLargest a, SumAndLargest b) const {
    return {a.sum + b.sum, fmaxf(a.largest, b.largest)};
  }
};

/// A warp a row.
__global__ void pairs(const float* x, float* y) {
  using WarpReduce = cub::WarpReduce<SumAndLargest>;
  const int warp = threadIdx.x / 32;  // 0
  __shared__ WarpReduce::TempStorage storage[1];
  __shared__ SumAndLargest of_row;
  x += blockIdx.x * kHidden;
  y += blockIdx.x * kHidden;
  SumAndLargest own = {0, 0};
  for (int i = threadIdx.x; i < kHidden; i += 32) own = Combine{}(own, {x[i] * x[i], fabsf(x[i])});
  own = WarpReduce(storage[warp]).Reduce(own, Combine{});
  if (threadIdx.x == 0) of_row = own;
  __syncwarp();
  bool is_there = false, is_largest = true;
  for (int i = threadIdx.x; i < kHidden; i += 32) {
    is_there |= fabsf(x[i]) == of_row.largest;
    is_largest &= fabsf(x[i]) <= of_row.largest;
  }
  const bool is_right = __any_sync(0xffffffff, is_there) && __all_sync(0xffffffff, is_largest);
  for (int i = threadIdx.x; i < kHidden; i += 32) y[i] = is_right ? x[i] * rstd_of(of_row.sum) : 0;
}

template <cub::BlockLoadAlgorithm kLoad, cub::BlockStoreAlgorithm kStore>
void launch(Rows rows) {
  whole_row<kLoad, kStore, cub::BLOCK_REDUCE_RAKING><<<Rows::kRows, 64>>>(rows.x, rows.y);
}

}  // namespace

std::vector<Ordinary> cub_kernels() {
  using namespace cub;
  return {
      {"blocked", launch<BLOCK_LOAD_DIRECT, BLOCK_STORE_DIRECT>},
      {"striped", launch<BLOCK_LOAD_STRIPED, BLOCK_STORE_STRIPED>},
      {"vectorised, then by way of shared memory",
       launch<BLOCK_LOAD_VECTORIZE, BLOCK_STORE_TRANSPOSE>},
      {"by way of shared memory, then vectorised",
       launch<BLOCK_LOAD_TRANSPOSE, BLOCK_STORE_VECTORIZE>},
      {"by way of a warp's shared memory",
       launch<BLOCK_LOAD_WARP_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE>},
      {"scans, and blocks that end in a part of a warp",
       [](Rows rows) { scans<<<Rows::kRows, dim3(50, 5)>>>(rows.x, rows.y); }},
      {"a reduction of a struct, by an operator of one's own",
       [](Rows rows) { pairs<<<Rows::kRows, 32>>>(rows.x, rows.y); }},
  };
}

}  // namespace tests
