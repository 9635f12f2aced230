// Lesson 17 - Several GPUs
// Changed    x is a part: ranks exchange theirs through each other's memory, and norm their sum.
// Unchanged  lesson 13: the residual is added and normalised in registers.
// Expect     one barrier between ranks a layer; a rank loads the parts of all others, and no more.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cuda/atomic>
#include <string>
#include <type_traits>

#include "common/operations/all_reduce.hpp"

namespace {

using rmsnorm::kMostRanks;

/// What a rank has, and where in its workspace others find its parts and tell it that they are
/// there.
struct Rank {
  const uint4* x;   // (rows, layers, vectors)
  uint4* residual;  // (rows, vectors)
  uint4* y;         // (rows, layers, vectors)
  uint4* inbox;     // (2, rows, vectors)  its parts of this layer and of the one before
  unsigned* flags;  // (blocks, kMostRanks)  the layer that a peer's block has come to
};

/// What a kernel takes.
struct Ranks {
  Rank rank[kMostRanks];
  const uint4* weight;  // (vectors), or null
  int ranks, layers, rows, vectors;
  float eps, bias;
};

/// The columns of a vector, in fp32. A bf16 is the upper half of a float.
template <class T>
__device__ void unpack(uint4 vector, float* column) {
  const unsigned words[] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      column[i] = __uint_as_float(words[i]);
    } else if constexpr (std::is_same_v<T, half>) {
      const float2 pair = __half22float2(reinterpret_cast<const half2&>(words[i]));
      column[2 * i] = pair.x;
      column[2 * i + 1] = pair.y;
    } else {
      column[2 * i] = __uint_as_float(words[i] << 16);
      column[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000);
    }
  }
}

/// A vector of numbers, each rounded to the nearest of the type.
template <class T>
__device__ uint4 pack(const float* number) {
  uint4 vector;
#pragma unroll
  for (int i = 0; i < 16 / sizeof(T); ++i) {
    reinterpret_cast<T*>(&vector)[i] = static_cast<T>(number[i]);
  }
  return vector;
}

/// Sum over the kThreads threads of a block. Every thread gets it.
template <int kThreads>
__device__ float block_sum(float value) {
  __shared__ float partial[kThreads / 32];
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  __syncthreads();  // everybody has read the sums of the row before
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();  // every warp's sum is in partial[]
  value = threadIdx.x % 32 < kThreads / 32 ? partial[threadIdx.x % 32] : 0;
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

// [kernel]
/// The barrier between ranks: block b of each waits for block b of all.
__device__ void meet(const Ranks& all, int rank, unsigned epoch) {
  using Flag = cuda::atomic_ref<unsigned, cuda::thread_scope_system>;
  __syncthreads();  // what the block has stored is before its flags
  if (threadIdx.x < all.ranks) {
    const int peer = threadIdx.x;
    const int mine = blockIdx.x * kMostRanks + rank;
    const int theirs = blockIdx.x * kMostRanks + peer;
    Flag(all.rank[peer].flags[mine]).store(epoch, cuda::memory_order_release);
    const Flag arrived(all.rank[rank].flags[theirs]);
    unsigned now;
    do {
      now = arrived.load(cuda::memory_order_acquire);
    } while (static_cast<int>(now - epoch) < 0);
  }
  __syncthreads();  // and what the block loads is behind those of all ranks
}

template <class T, class W, int kThreads>
__global__ void __launch_bounds__(kThreads) sum_and_norm(Ranks all) {
  constexpr int kSize = 16 / sizeof(T);          // columns of a vector
  constexpr int kParts = sizeof(W) / sizeof(T);  // of weight, for one of x
  const int rank = blockIdx.y;
  const int vectors = all.vectors;
  const Rank& own = all.rank[rank];
  constexpr int kVectors = 16 / kSize;  // of a thread
  for (int layer = 0; layer < all.layers; ++layer) {
    // Others may still load parts of the layer before, from the other half.
    const auto half = std::int64_t{layer % 2} * all.rows * vectors;
    for (int row = blockIdx.x; row < all.rows; row += gridDim.x) {
      const std::int64_t line = row * std::int64_t{all.layers} + layer;
      const uint4* x = own.x + line * vectors;
      uint4* part = own.inbox + half + row * std::int64_t{vectors};
      for (int i = threadIdx.x; i < vectors; i += kThreads) part[i] = x[i];
    }
    meet(all, rank, layer + 1);
    for (int row = blockIdx.x; row < all.rows; row += gridDim.x) {
      const std::int64_t line = row * std::int64_t{all.layers} + layer;
      const std::int64_t first = row * std::int64_t{vectors};
      float value[kVectors][kSize] = {};  // zeros past the row
#pragma unroll 4
      for (int r = 0; r < all.ranks; ++r) {  // in this order, for the bits
        const uint4* part = all.rank[r].inbox + half + first;
#pragma unroll
        for (int k = 0; k < kVectors; ++k) {
          const int i = threadIdx.x + k * kThreads;
          uint4 vector{};
          if (i < vectors) vector = part[i];
          float more[kSize];
          unpack<T>(vector, more);
          for (int j = 0; j < kSize; ++j) value[k][j] += more[j];
        }
      }
      float squares = 0;
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        const int i = threadIdx.x + k * kThreads;
        if (i >= vectors) continue;
        const uint4 before = own.residual[first + i];
        float residual[kSize];
        unpack<T>(before, residual);
        for (int j = 0; j < kSize; ++j) {
          float& v = value[k][j];
          v = static_cast<float>(static_cast<T>(v)) + residual[j];
          squares += v * v;
        }
        own.residual[first + i] = pack<T>(value[k]);
      }
      const float mean = block_sum<kThreads>(squares) / (kSize * vectors);
      const float rstd = rsqrtf(mean + all.eps);
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        const int i = threadIdx.x + k * kThreads;
        if (i >= vectors) continue;
        float factor[kSize];
        for (int j = 0; j < kParts; ++j) {
          if (all.weight == nullptr) break;
          const uint4 w = all.weight[i * kParts + j];
          unpack<W>(w, factor + j * kSize / kParts);
        }
        for (int j = 0; j < kSize; ++j) {
          float& v = value[k][j];
          v *= rstd;
          if (all.weight != nullptr) v *= factor[j] + all.bias;
        }
        own.y[line * vectors + i] = pack<T>(value[k]);
      }
    }
  }
}
// [kernel]

/// A kernel and its block: 16 columns a thread.
struct Shape {
  decltype(&sum_and_norm<float, float, 128>) kernel;
  int threads;
};
constexpr int kMaxHidden = 512 * 16;

template <class T, class W>
Shape shape_for(int hidden) {
  if (hidden <= 32 * 16) return {sum_and_norm<T, W, 32>, 32};
  if (hidden <= 128 * 16) return {sum_and_norm<T, W, 128>, 128};
  if (hidden <= 256 * 16) return {sum_and_norm<T, W, 256>, 256};
  return {sum_and_norm<T, W, 512>, 512};
}

/// The same for the problem's types.
Shape shape_for(const rmsnorm::AllReduce& p) {
  const bool of_fp32 = p.weight_dtype == rmsnorm::Dtype::fp32;
  if (p.dtype == rmsnorm::Dtype::fp32) return shape_for<float, float>(p.hidden);
  if (p.dtype == rmsnorm::Dtype::fp16 && of_fp32) return shape_for<half, float>(p.hidden);
  if (p.dtype == rmsnorm::Dtype::fp16) return shape_for<half, half>(p.hidden);
  if (of_fp32) return shape_for<nv_bfloat16, float>(p.hidden);
  return shape_for<nv_bfloat16, nv_bfloat16>(p.hidden);
}

constexpr int kMostBlocks = 512;  // of a rank
constexpr std::size_t kFlagBytes = sizeof(unsigned) * kMostRanks * kMostBlocks;
constexpr std::int64_t kMostBytes = 64 << 20;

/// Bytes of a rank's parts in one layer.
std::int64_t bytes_of_part(const rmsnorm::AllReduce& p) {
  return std::int64_t{bytes_of(p.dtype)} * p.rows * p.hidden;
}

std::string unsupported(const rmsnorm::AllReduce& p) {
  const auto address = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data); };
  std::uintptr_t tensors = address(p.weight);
  for (const auto& rank : p.rank) {
    tensors |= address(rank.x) | address(rank.residual) | address(rank.y);
  }
  if (tensors % 16 != 0 || p.hidden * std::int64_t{bytes_of(p.dtype)} % 16 != 0) {
    return "17_several_gpus needs tensors and rows that begin at a multiple of 16 bytes: "
           "a 16-byte load needs a 16-byte address";
  }
  if (p.hidden > kMaxHidden) {
    return "17_several_gpus has room for 8192 columns: 512 threads have 16 each";
  }
  if (bytes_of_part(p) > kMostBytes) {
    return "17_several_gpus exchanges at most 64 MiB a rank and layer: each byte goes to every "
           "peer";
  }
  return "";
}

/// Two halves for parts, behind the flags.
std::size_t workspace_bytes(const rmsnorm::AllReduce& p) {
  return kFlagBytes + static_cast<std::size_t>(2 * bytes_of_part(p));
}

/// The problem as the kernel takes it.
Ranks ranks_of(const rmsnorm::AllReduce& p) {
  Ranks all{};
  for (int rank = 0; rank < p.ranks; ++rank) {
    const rmsnorm::AllReduce::Rank& from = p.rank[rank];
    auto* const flags = static_cast<unsigned*>(from.workspace);
    all.rank[rank] = {
        static_cast<const uint4*>(from.x), static_cast<uint4*>(from.residual),
        static_cast<uint4*>(from.y),
        reinterpret_cast<uint4*>(flags + kFlagBytes / sizeof(unsigned)), flags};
  }
  all.weight = static_cast<const uint4*>(p.weight);
  all.ranks = p.ranks;
  all.layers = p.layers;
  all.rows = p.rows;
  all.vectors = p.hidden / (16 / bytes_of(p.dtype));
  all.eps = p.eps;
  all.bias = p.weight_bias;
  return all;
}

cudaError_t launch(const rmsnorm::AllReduce& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const Shape shape = shape_for(p);
  int device = 0, processors = 0, blocks = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, shape.kernel, shape.threads, 0);
  }
  for (int rank = 0; rank < p.ranks && error == cudaSuccess; ++rank) {
    error = cudaMemsetAsync(p.rank[rank].workspace, 0, kFlagBytes, stream);
  }
  if (error != cudaSuccess) return error;
  // A block that waits keeps its place: all ranks' blocks have to be on the GPU at the same time,
  // which a cooperative launch makes sure of.
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  const int most = std::min(kMostBlocks, std::max(1, blocks * processors / p.ranks));
  config.gridDim = dim3(std::min(p.rows, most), p.ranks);
  config.blockDim = shape.threads;
  config.stream = stream;
  config.attrs = &together;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, shape.kernel, ranks_of(p));
}

/// For each layer, a rank loads x, its own part and the residual, and the weight; it stores its
/// part, the residual and y. Of its peers it loads their parts.
rmsnorm::Traffic traffic(const rmsnorm::AllReduce& p) {
  const double row = bytes_of(p.dtype) * static_cast<double>(p.hidden);
  const double factor = p.weight == nullptr ? 0 : bytes_of(p.weight_dtype);  // bytes of one
  const int loads = bytes_of(p.weight_dtype) / bytes_of(p.dtype);
  const double lines = static_cast<double>(p.ranks) * p.layers;
  return {
      .read = lines * (3 * row + factor * p.hidden * loads),
      .written = lines * 3 * row,
      .from_peers = lines * (p.ranks - 1) * row};
}

/// A thread's columns one by one, then the additions of at most two warps' shuffles.
int sum_depth(const rmsnorm::AllReduce& p) {
  return std::min(p.hidden, 16) + 5 + 5;
}

const rmsnorm::Registration<rmsnorm::AllReduce> lesson{{
    .slug = "17_several_gpus",
    .title = "Several GPUs",
    .idea = "Ranks exchange parts of a sum through each other's memory, with one barrier a layer",
    .regime = "decode",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
    .workspace_bytes = workspace_bytes,
}};

}  // namespace
