// The sum over ranks, a residual add and a norm. As lesson 17 has them, but each rank has a launch
// of its own: flags count on from call to call, and nobody waits for ever.
#include <algorithm>
#include <cstdint>
#include <cuda/atomic>

#include "library/kernels/all_reduce.hpp"
#include "library/kernels/gated_row.cuh"
#include "library/kernels/time_limit.hpp"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

using std::uint64_t;

/// A word that other GPUs, or the host, see.
template <class T>
using Shared = cuda::atomic_ref<T, cuda::thread_scope_system>;

/// A word of which the blocks of one launch know.
template <class T>
using Local = cuda::atomic_ref<T, cuda::thread_scope_device>;

__device__ inline RankHeader& header_of(const AllReduced& op, int rank) {
  return *static_cast<RankHeader*>(op.buffers[rank]);
}

/// A row of a rank's inbox, of op.vectors. Two calls later, its half is filled again: whoever fills
/// it has met all ranks in the call between, and so they have ended this one.
__device__ inline uint4* inbox_row(const AllReduced& op, int rank, uint64_t call, int row) {
  char* const half =
      static_cast<char*>(op.buffers[rank]) + kRankHeaderBytes + call % 2 * op.half_bytes;
  return reinterpret_cast<uint4*>(half) + row * std::int64_t{op.vectors};
}

/// From now on, this rank stores NaN. The first block that calls it says why.
__device__ inline void fail(
    const AllReduced& op, int rank, int peer, uint64_t call, RankFailure::Reason reason) {
  if (Local<unsigned>(header_of(op, rank).failed).exchange(1, cuda::memory_order_relaxed) != 0)
    return;
  RankFailure& failure = op.failures[rank - op.rank];
  failure.peer = peer;
  failure.call = call;
  Shared<unsigned>(failure.reason).store(reason, cuda::memory_order_release);
}

/// A meeting: block b of each rank waits for block b of all. Whether all have come in time.
/// \param number  of the meeting: two of each call, from 1 on
__device__ inline bool meet(const AllReduced& op, int rank, uint64_t call, uint64_t number) {
  constexpr int kShapeBits = 16;
  bool has_failed = false;
  __syncthreads();  // what the block has stored is before its flags
  if (threadIdx.x < op.ranks) {
    const int peer = threadIdx.x;
    const unsigned long long here = number << kShapeBits | op.shape;
    Shared<unsigned long long>(header_of(op, peer).flags[blockIdx.x][rank])
        .store(here, cuda::memory_order_release);
    const Shared<unsigned long long> arrived(header_of(op, rank).flags[blockIdx.x][peer]);
    unsigned long long now = arrived.load(cuda::memory_order_acquire);
    if (now >> kShapeBits < number) {
      TimeLimit limit(op.limit);
      do {
        now = arrived.load(cuda::memory_order_acquire);
      } while (now >> kShapeBits < number && !limit.is_over());
    }
    RankFailure::Reason reason = RankFailure::kNone;
    if (now >> kShapeBits < number) {
      reason = RankFailure::kMissing;
    } else if (now >> kShapeBits == number && now != here) {
      reason = RankFailure::kOtherShape;
    } else if (now >> kShapeBits > number + 2) {  // a peer is one call ahead at most
      reason = RankFailure::kOtherCall;
    }
    has_failed = reason != RankFailure::kNone;
    if (has_failed) fail(op, rank, peer, call, reason);
  }
  return __syncthreads_or(has_failed) == 0;  // and what it loads is behind the flags of all
}

/// A thread's columns of a row: those of vectors threadIdx.x, threadIdx.x + kThreads, ...
template <class T, int kThreads>
struct RankColumns {
  static constexpr int kN = kSize<T>;
  static constexpr int kVectors = 16 / kN;
  float value[kVectors][kN] = {};  // zeros past the row

  __device__ void add(const uint4* row, int vectors) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = threadIdx.x + k * kThreads;
      const uint4 vector = i < vectors ? row[i] : make_uint4(0, 0, 0, 0);
      float more[kN];
      widen_all<T>(vector, more);
#pragma unroll
      for (int e = 0; e < kN; ++e) value[k][e] += more[e];
    }
  }

  /// Rounded to T.
  __device__ void store(uint4* row, int vectors) const {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = threadIdx.x + k * kThreads;
      if (i < vectors) row[i] = narrow_all<T>(value[k]);
    }
  }
};

/// Rounds a row's sum, adds the residual, which gets that, and stores the norm.
template <class T, int kThreads, bool kWhole>
__device__ void add_and_norm(
    const AllReduced& op, RankColumns<T, kThreads>& sum, T* residuals, T* y, float* partial) {
  constexpr int kN = kSize<T>;
  float squares = 0;
#pragma unroll
  for (int k = 0; k < sum.kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i >= op.vectors) continue;
    float residual[kN];
    widen_all<T>(load_vector<T, kWhole>(residuals, i, op.hidden), residual);
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      float& value = sum.value[k][e];
      value = static_cast<float>(static_cast<T>(value)) + residual[e];
      squares += value * value;
    }
    store_vector<T, kWhole>(residuals, i, op.hidden, sum.value[k]);
  }
  const float mean = row_sum<kThreads>(squares, partial) / op.hidden;
  const float rstd = rsqrtf(mean + op.eps);
#pragma unroll
  for (int k = 0; k < sum.kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i >= op.vectors) continue;
    float factor[kN];
    const auto load = [&](auto of_type) {
      using W = decltype(of_type);
      uint4 of_weight[sizeof(W) / sizeof(T)];
      load_weight<T, W, kWhole>(static_cast<const W*>(op.weight), i, op.hidden, of_weight);
      factors_of<T, W>(of_weight, op.weight_bias, factor);
    };
    if (op.weight_is_fp32) {
      load(float());
    } else {
      load(T());
    }
#pragma unroll
    for (int e = 0; e < kN; ++e) sum.value[k][e] = sum.value[k][e] * rstd * factor[e];
    store_vector<T, kWhole>(y, i, op.hidden, sum.value[k]);
  }
}

/// kWhole: rows of all tensors are vectors at multiples of 16 bytes. (Those of inboxes always are.)
template <class T, int kThreads, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    rms_norm_of_ranks(const __grid_constant__ AllReduced op) {
  __shared__ float partial[32];
  const int rank = op.rank + blockIdx.y;
  const auto [of_x, of_residual, of_y] = op.own[blockIdx.y];
  RankHeader& own = header_of(op, rank);
  const uint64_t call = Local<unsigned long long>(own.call).load(cuda::memory_order_relaxed);
  const bool has_failed = Local<unsigned>(own.failed).load(cuda::memory_order_relaxed) != 0;
  // A rank that has failed stores nothing in its inbox: a late peer may still load from it.
  bool is_met = __syncthreads_or(has_failed) == 0;
  if (is_met) {
    for (int row = blockIdx.x; row < op.rows; row += gridDim.x) {
      const T* const x = reinterpret_cast<const T*>(of_x + row * op.x_stride);
      uint4* const part = inbox_row(op, rank, call, row);
      for (int i = threadIdx.x; i < op.vectors; i += kThreads)
        part[i] = load_vector<T, kWhole>(x, i, op.hidden);
    }
    is_met = meet(op, rank, call, 2 * call + 1);
  }
  const auto sum_of = [&](int row) {
    RankColumns<T, kThreads> sum;
#pragma unroll 4
    for (int r = 0; r < op.ranks; ++r) sum.add(inbox_row(op, r, call, row), op.vectors);
    return sum;  // in the order of ranks, for the bits
  };
  if (is_met && op.is_two_shot) {
    for (int row = blockIdx.x; row < op.rows; row += gridDim.x) {
      const int turn = row / static_cast<int>(gridDim.x);  // by turns, or few blocks would add up
      if ((row + turn) % op.ranks != rank) continue;
      const RankColumns<T, kThreads> sum = sum_of(row);
      // In the place of the parts, which nobody else loads.
      for (int r = 0; r < op.ranks; ++r) sum.store(inbox_row(op, r, call, row), op.vectors);
    }
    is_met = meet(op, rank, call, 2 * call + 2);
  }
  for (int row = blockIdx.x; row < op.rows; row += gridDim.x) {
    T* const residual = reinterpret_cast<T*>(of_residual + row * op.residual_stride);
    T* const y = reinterpret_cast<T*>(of_y + row * op.y_stride);
    if (!is_met) {
      for (int col = threadIdx.x; col < op.hidden; col += kThreads)
        residual[col] = y[col] = static_cast<T>(__uint_as_float(0x7fc00000));  // NaN
      continue;
    }
    RankColumns<T, kThreads> sum;
    if (op.is_two_shot) {
      sum.add(inbox_row(op, rank, call, row), op.vectors);
    } else {
      sum = sum_of(row);
    }
    __syncthreads();  // everybody has read the sums of the row before
    add_and_norm<T, kThreads, kWhole>(op, sum, residual, y, partial);
  }
  // The last block to end counts the call: all have read its number.
  __syncthreads();
  if (threadIdx.x != 0) return;
  const Local<unsigned> ended(own.ended);
  if (ended.fetch_add(1, cuda::memory_order_acq_rel) != gridDim.x - 1) return;
  ended.store(0, cuda::memory_order_relaxed);
  Local<unsigned long long>(own.call).store(call + 1, cuda::memory_order_relaxed);
}

/// A kernel and its block: 16 columns a thread.
struct RankShape {
  void (*kernel)(AllReduced);
  int threads;
};

template <class T, bool kWhole>
RankShape shape_for(int hidden) {
  if (hidden <= 32 * 16) return {rms_norm_of_ranks<T, 32, kWhole>, 32};
  if (hidden <= 128 * 16) return {rms_norm_of_ranks<T, 128, kWhole>, 128};
  if (hidden <= 256 * 16) return {rms_norm_of_ranks<T, 256, kWhole>, 256};
  if (hidden <= 512 * 16) return {rms_norm_of_ranks<T, 512, kWhole>, 512};
  return {rms_norm_of_ranks<T, 1024, kWhole>, 1024};
}

}  // namespace

cudaError_t launch(const AllReduced& given, cudaStream_t stream) {
  AllReduced op = given;
  op.vectors = static_cast<int>(inbox_bytes(1, op.hidden, op.dtype) / 16);
  if (op.weight == nullptr) op.weight_is_fp32 = false;
  const auto bits_of = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data); };
  std::uintptr_t bits = bits_of(op.weight) | op.x_stride | op.residual_stride | op.y_stride |
                        op.hidden * bytes_of(op.dtype);
  for (int i = 0; i < op.launched_ranks; ++i)
    bits |= bits_of(op.own[i].x) | bits_of(op.own[i].residual) | bits_of(op.own[i].y);
  const RankShape shape = with_type(op.dtype, [&](auto x) {
    using T = decltype(x);
    return bits % 16 == 0 ? shape_for<T, true>(op.hidden) : shape_for<T, false>(op.hidden);
  });
  // Without a row, one block meets the others': they may have some, by mistake.
  int blocks = std::clamp(op.rows, 1, op.most_blocks);
  const cudaDeviceProp* device = nullptr;
  cudaError_t error = properties_of_device(&device);
  if (error != cudaSuccess) return error;
  if (blocks * op.launched_ranks > device->multiProcessorCount) {
    int of_sm = 0;
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, shape.kernel, shape.threads, 0);
    if (error != cudaSuccess) return error;
    const int most = of_sm * device->multiProcessorCount / op.launched_ranks;
    blocks = std::clamp(most, 1, blocks);
  }
  for (const int number :
       {op.rows, op.hidden, 2 * static_cast<int>(op.dtype) + op.is_two_shot, op.ranks, blocks,
        static_cast<int>(op.half_bytes / 16)})
    op.shape = (op.shape ^ static_cast<unsigned>(number)) * 0x9e3779b1;
  op.shape >>= 16;
  // A block that waits keeps its place: all of them have to be on the GPU at the same time, which a
  // cooperative launch makes sure of.
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks, op.launched_ranks);
  config.blockDim = shape.threads;
  config.stream = stream;
  config.attrs = &together;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, shape.kernel, op);
}

}  // namespace rmsnorm::kernels
