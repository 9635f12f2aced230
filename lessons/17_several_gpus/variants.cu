// Lesson 17 - Several GPUs, variants
// Changed    two_shot: each row's sum is made by one rank. lamport: what is waited for are the
//            numbers. apart: two kernels, one sums, and one normalises what it has stored.
// Unchanged  the sum in the order of ranks, its roundings, and so the bits.
// Expect     two_shot: 2 / N of the bytes between ranks, for a second barrier; lamport: no barrier.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cuda/atomic>
#include <string>
#include <type_traits>

#include "common/operations/all_reduce.hpp"

namespace {

using rmsnorm::AllReduce;
using rmsnorm::kMostRanks;

/// What a rank has. Its workspace has flags, and room for parts and for sums.
struct Rank {
  const uint4* x;   // (rows, layers, vectors)
  uint4* residual;  // (rows, vectors)
  uint4* y;         // (rows, layers, vectors)
  unsigned* flags;  // (blocks, kMostRanks)  the step that a peer's block has come to
  uint4* room;
};

/// What a kernel takes.
struct Ranks {
  Rank rank[kMostRanks];
  const uint4* weight;  // (vectors), or null
  int ranks, layers, rows, vectors;
  float eps, bias;

  __device__ std::int64_t part() const { return std::int64_t{rows} * vectors; }
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
    while (static_cast<int>(arrived.load(cuda::memory_order_acquire) - epoch) < 0) {
    }
  }
  __syncthreads();  // and what the block loads is behind those of all ranks
}

/// A thread's columns of a row: those of vectors threadIdx.x, threadIdx.x + kThreads, ...
template <class T>
struct Columns {
  static constexpr int kSize = 16 / sizeof(T);
  static constexpr int kVectors = 16 / kSize;
  float value[kVectors][kSize] = {};  // zeros past the row

  __device__ void add(int k, const uint4& vector) {
    float more[kSize];
    unpack<T>(vector, more);
#pragma unroll
    for (int j = 0; j < kSize; ++j) value[k][j] += more[j];
  }
};

/// Adds up a row's parts, in the order of ranks, from so many vectors behind each rank's room.
template <class T, int kThreads>
__device__ Columns<T> sum_of_parts(const Ranks& all, std::int64_t first) {
  Columns<T> sum;
#pragma unroll 4
  for (int r = 0; r < all.ranks; ++r) {
#pragma unroll
    for (int k = 0; k < sum.kVectors; ++k) {
      const int i = threadIdx.x + k * kThreads;
      uint4 vector{};
      if (i < all.vectors) vector = all.rank[r].room[first + i];
      sum.add(k, vector);
    }
  }
  return sum;
}

/// Copies the block's rows of x to the rank's room, from so many vectors behind it.
template <int kThreads>
__device__ void show_parts(const Ranks& all, const Rank& own, int layer, std::int64_t first) {
  for (int row = blockIdx.x; row < all.rows; row += gridDim.x) {
    const uint4* x = own.x + (row * std::int64_t{all.layers} + layer) * all.vectors;
    uint4* part = own.room + first + row * std::int64_t{all.vectors};
    for (int i = threadIdx.x; i < all.vectors; i += kThreads) part[i] = x[i];
  }
}

/// Rounds a row's sum, adds the residual, and stores the norm, as the lesson does.
template <class T, class W, int kThreads>
__device__ void norm(const Ranks& all, const Rank& own, int layer, int row, Columns<T> sum) {
  constexpr int kSize = sum.kSize;
  constexpr int kParts = sizeof(W) / sizeof(T);
  uint4* residuals = own.residual + row * std::int64_t{all.vectors};
  float squares = 0;
#pragma unroll
  for (int k = 0; k < sum.kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i >= all.vectors) continue;
    const uint4 before = residuals[i];
    float residual[kSize];
    unpack<T>(before, residual);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      float& value = sum.value[k][j];
      value = static_cast<float>(static_cast<T>(value)) + residual[j];
      squares += value * value;
    }
    residuals[i] = pack<T>(sum.value[k]);
  }
  const float rstd = rsqrtf(block_sum<kThreads>(squares) / (kSize * all.vectors) + all.eps);
  uint4* y = own.y + (row * std::int64_t{all.layers} + layer) * all.vectors;
#pragma unroll
  for (int k = 0; k < sum.kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i >= all.vectors) continue;
    float factor[kSize];
#pragma unroll
    for (int j = 0; j < kParts; ++j) {
      if (all.weight == nullptr) break;
      const uint4 w = all.weight[i * kParts + j];
      unpack<W>(w, factor + j * kSize / kParts);
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      sum.value[k][j] *= rstd;
      if (all.weight != nullptr) sum.value[k][j] *= factor[j] + all.bias;
    }
    y[i] = pack<T>(sum.value[k]);
  }
}

/// The rank that adds up a row adds it for all. A second barrier says that its sums are there; so
/// there is no need for a second half: who is behind it has read what is overwritten next.
template <class T, class W, int kThreads>
__global__ void __launch_bounds__(kThreads) two_shot(Ranks all) {
  const int rank = blockIdx.y;
  const Rank& own = all.rank[rank];
  for (int layer = 0; layer < all.layers; ++layer) {
    show_parts<kThreads>(all, own, layer, 0);
    meet(all, rank, 2 * layer + 1);
    for (int row = blockIdx.x; row < all.rows; row += gridDim.x) {
      if (row % all.ranks != rank) continue;
      const std::int64_t first = row * std::int64_t{all.vectors};
      const Columns<T> sum = sum_of_parts<T, kThreads>(all, first);
      for (int r = 0; r < all.ranks; ++r) {
        uint4* sums = all.rank[r].room + all.part() + first;
#pragma unroll
        for (int k = 0; k < sum.kVectors; ++k) {
          const int i = threadIdx.x + k * kThreads;
          if (i < all.vectors) sums[i] = pack<T>(sum.value[k]);
        }
      }
    }
    meet(all, rank, 2 * layer + 2);
    for (int row = blockIdx.x; row < all.rows; row += gridDim.x) {
      const uint4* sums = own.room + all.part() + row * std::int64_t{all.vectors};
      Columns<T> sum;
#pragma unroll
      for (int k = 0; k < sum.kVectors; ++k) {
        const int i = threadIdx.x + k * kThreads;
        uint4 vector{};
        if (i < all.vectors) vector = sums[i];
        sum.add(k, vector);
      }
      norm<T, W, kThreads>(all, own, layer, row, sum);
    }
  }
}

/// Four words that say that nothing has come: -0.0, or two of them. They are compared as integers:
/// as a number, -0.0 is 0.
template <class T>
constexpr unsigned kEmpty = sizeof(T) == 4 ? 0x80000000 : 0x80008000;

/// To memory of any rank, that some rank polls. No order comes with it.
__device__ void tell(uint4* to, const uint4& vector) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(vector.x),
               "r"(vector.y), "r"(vector.z), "r"(vector.w)
               : "memory");
}

__device__ uint4 look(const uint4* from) {
  uint4 vector;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(vector.x), "=r"(vector.y), "=r"(vector.z), "=r"(vector.w)
               : "l"(from)
               : "memory");
  return vector;
}

/// Waits until all four words have come: each comes by itself.
template <class T>
__device__ uint4 wait_for(const uint4* from) {
  for (;;) {
    const uint4 vector = look(from);
    constexpr unsigned kNothing = kEmpty<T>;
    if (vector.x != kNothing && vector.y != kNothing && vector.z != kNothing &&
        vector.w != kNothing)
      return vector;
  }
}

/// No word of it says that nothing has come: what is -0.0 becomes 0.
template <class T>
__device__ uint4 not_empty(uint4 vector) {
  for (unsigned* word : {&vector.x, &vector.y, &vector.z, &vector.w}) {
    if (*word == kEmpty<T>) *word = 0;
  }
  return vector;
}

/// All three buffers are empty before the first layer.
template <class T>
__global__ void make_empty(Ranks all) {
  uint4* const room = all.rank[blockIdx.y].room;
  const std::int64_t end = 3 * all.ranks * all.part();
  for (auto i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < end;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    room[i] = {kEmpty<T>, kEmpty<T>, kEmpty<T>, kEmpty<T>};
  }
}

/// Every rank stores its part at all ranks, each of which waits for the numbers themselves. In
/// layer n buffer n % 3 fills. Buffer (n + 1) % 3 may fill, as a rank can be one layer ahead. What
/// remains is that of the layer before, which is emptied.
template <class T, class W, int kThreads>
__global__ void __launch_bounds__(kThreads) lamport(Ranks all) {
  const int rank = blockIdx.y;
  const Rank& own = all.rank[rank];
  const uint4 nothing = {kEmpty<T>, kEmpty<T>, kEmpty<T>, kEmpty<T>};
  for (int layer = 0; layer < all.layers; ++layer) {
    const std::int64_t now = layer % 3 * all.ranks * all.part();
    const std::int64_t before = (layer + 2) % 3 * all.ranks * all.part();
    // Emptied is what a thread has, before others hear from it again; and before it fills theirs,
    // it has heard from them.
    __threadfence_system();
    for (int row = blockIdx.x; row < all.rows; row += gridDim.x) {
      const uint4* x = own.x + (row * std::int64_t{all.layers} + layer) * all.vectors;
      const std::int64_t first = row * std::int64_t{all.vectors};
      for (int i = threadIdx.x; i < all.vectors; i += kThreads) {
        const uint4 vector = not_empty<T>(x[i]);
        for (int r = 0; r < all.ranks; ++r) {
          tell(all.rank[r].room + now + rank * all.part() + first + i, vector);
          tell(own.room + before + r * all.part() + first + i, nothing);
        }
      }
    }
    for (int row = blockIdx.x; row < all.rows; row += gridDim.x) {
      const uint4* parts = own.room + now + row * std::int64_t{all.vectors};
      Columns<T> sum;
      for (int r = 0; r < all.ranks; ++r) {
#pragma unroll
        for (int k = 0; k < sum.kVectors; ++k) {
          const int i = threadIdx.x + k * kThreads;
          if (i < all.vectors) sum.add(k, wait_for<T>(parts + r * all.part() + i));
        }
      }
      norm<T, W, kThreads>(all, own, layer, row, sum);
    }
  }
}

/// The lesson's protocol, of one layer alone, in another kernel than the lesson's.
template <class T, class W, int kThreads>
__global__ void __launch_bounds__(kThreads) one_shot(Ranks all, int layer) {
  const int rank = blockIdx.y;
  const Rank& own = all.rank[rank];
  const std::int64_t half = layer % 2 * all.part();
  show_parts<kThreads>(all, own, layer, half);
  meet(all, rank, layer + 1);
  for (int row = blockIdx.x; row < all.rows; row += gridDim.x) {
    const std::int64_t first = row * std::int64_t{all.vectors};
    norm<T, W, kThreads>(all, own, layer, row, sum_of_parts<T, kThreads>(all, half + first));
  }
}

/// The first of two kernels: the sum of one layer's parts, rounded, to the rank's own memory.
template <class T, int kThreads>
__global__ void __launch_bounds__(kThreads) sum_alone(Ranks all, int layer) {
  const int rank = blockIdx.y;
  const Rank& own = all.rank[rank];
  const std::int64_t half = layer % 2 * all.part();
  show_parts<kThreads>(all, own, layer, half);
  meet(all, rank, layer + 1);
  for (int row = blockIdx.x; row < all.rows; row += gridDim.x) {
    const std::int64_t first = row * std::int64_t{all.vectors};
    const Columns<T> sum = sum_of_parts<T, kThreads>(all, half + first);
#pragma unroll
    for (int k = 0; k < sum.kVectors; ++k) {
      const int i = threadIdx.x + k * kThreads;
      if (i < all.vectors) own.room[2 * all.part() + first + i] = pack<T>(sum.value[k]);
    }
  }
}

/// And the second: lesson 13's work, of a row a block.
template <class T, class W, int kThreads>
__global__ void __launch_bounds__(kThreads) norm_alone(Ranks all, int layer) {
  const Rank& own = all.rank[blockIdx.y];
  const int row = blockIdx.x;
  Columns<T> sum;
#pragma unroll
  for (int k = 0; k < sum.kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    uint4 vector{};
    if (i < all.vectors) vector = own.room[2 * all.part() + row * std::int64_t{all.vectors} + i];
    sum.add(k, vector);
  }
  norm<T, W, kThreads>(all, own, layer, row, sum);
}

enum Protocol { kTwoShot, kLamport, kByLayer, kApart };

/// What a protocol launches: a kernel for all layers, or one or two for each.
struct Kernels {
  void (*whole)(Ranks) = nullptr;
  void (*sum)(Ranks, int) = nullptr;
  void (*norm)(Ranks, int) = nullptr;
  void (*before)(Ranks) = nullptr;
  int threads = 0;
};

constexpr int kMaxHidden = 512 * 16;

template <Protocol protocol, class T, class W, int kThreads>
Kernels kernels() {
  if constexpr (protocol == kTwoShot)
    return {.whole = two_shot<T, W, kThreads>, .threads = kThreads};
  if constexpr (protocol == kLamport) {
    return {.whole = lamport<T, W, kThreads>, .before = make_empty<T>, .threads = kThreads};
  }
  if constexpr (protocol == kByLayer) return {.sum = one_shot<T, W, kThreads>, .threads = kThreads};
  return {.sum = sum_alone<T, kThreads>, .norm = norm_alone<T, W, kThreads>, .threads = kThreads};
}

template <Protocol protocol, class T, class W>
Kernels kernels_for(int hidden) {
  if (hidden <= 32 * 16) return kernels<protocol, T, W, 32>();
  if (hidden <= 128 * 16) return kernels<protocol, T, W, 128>();
  if (hidden <= 256 * 16) return kernels<protocol, T, W, 256>();
  return kernels<protocol, T, W, 512>();
}

/// The same for the problem's types.
template <Protocol protocol>
Kernels kernels_for(const AllReduce& p) {
  const bool of_fp32 = p.weight_dtype == rmsnorm::Dtype::fp32;
  if (p.dtype == rmsnorm::Dtype::fp32) return kernels_for<protocol, float, float>(p.hidden);
  if (p.dtype == rmsnorm::Dtype::fp16 && of_fp32)
    return kernels_for<protocol, half, float>(p.hidden);
  if (p.dtype == rmsnorm::Dtype::fp16) return kernels_for<protocol, half, half>(p.hidden);
  if (of_fp32) return kernels_for<protocol, nv_bfloat16, float>(p.hidden);
  return kernels_for<protocol, nv_bfloat16, nv_bfloat16>(p.hidden);
}

constexpr int kMostBlocks = 512;  // of a rank
constexpr std::size_t kFlagBytes = sizeof(unsigned) * kMostRanks * kMostBlocks;
constexpr std::int64_t kMostBytes = 64 << 20;

/// Bytes of a rank's parts in one layer.
std::int64_t bytes_of_part(const AllReduce& p) {
  return std::int64_t{bytes_of(p.dtype)} * p.rows * p.hidden;
}

template <Protocol protocol>
std::string unsupported(const AllReduce& p) {
  const auto address = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data); };
  std::uintptr_t tensors = address(p.weight);
  for (const auto& rank : p.rank) {
    tensors |= address(rank.x) | address(rank.residual) | address(rank.y);
  }
  const std::int64_t most = protocol == kLamport ? kMostBytes / p.ranks : kMostBytes;
  if (tensors % 16 != 0 || p.hidden * std::int64_t{bytes_of(p.dtype)} % 16 != 0 ||
      p.hidden > kMaxHidden || bytes_of_part(p) > most) {
    return "17_several_gpus needs in this variant tensors and rows that begin at a multiple of 16 "
           "bytes, at most 8192 columns, and parts of at most 64 MiB, lamport those of all ranks";
  }
  return "";
}

/// Room for so many parts, behind the flags.
template <Protocol protocol>
std::size_t workspace_bytes(const AllReduce& p) {
  const int parts = protocol == kLamport ? 3 * p.ranks : protocol == kApart ? 3 : 2;
  return kFlagBytes + static_cast<std::size_t>(parts * bytes_of_part(p));
}

/// The problem as the kernels take it.
Ranks ranks_of(const AllReduce& p) {
  Ranks all{};
  for (int rank = 0; rank < p.ranks; ++rank) {
    const AllReduce::Rank& from = p.rank[rank];
    auto* const flags = static_cast<unsigned*>(from.workspace);
    all.rank[rank] = {
        static_cast<const uint4*>(from.x), static_cast<uint4*>(from.residual),
        static_cast<uint4*>(from.y), flags,
        reinterpret_cast<uint4*>(flags + kFlagBytes / sizeof(unsigned))};
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

/// So many blocks a rank that all of them are on the GPU at the same time.
template <class Kernel>
cudaError_t find_blocks(Kernel kernel, int threads, const AllReduce& p, int* blocks) {
  int device = 0, processors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, 0);
  }
  *blocks = std::min({kMostBlocks, p.rows, std::max(1, *blocks * processors / p.ranks)});
  return error;
}

template <class... Arguments>
cudaError_t launch_together(
    void (*kernel)(Arguments...), int threads, const AllReduce& p, cudaStream_t stream,
    Arguments... arguments) {
  int blocks = 0;
  const cudaError_t error = find_blocks(kernel, threads, p, &blocks);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks, p.ranks);
  config.blockDim = threads;
  config.stream = stream;
  config.attrs = &together;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <Protocol protocol>
cudaError_t launch(const AllReduce& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const Kernels kernels = kernels_for<protocol>(p);
  const Ranks all = ranks_of(p);
  cudaError_t error = cudaSuccess;
  const bool has_flags = protocol != kLamport;
  for (int rank = 0; rank < p.ranks && has_flags && error == cudaSuccess; ++rank) {
    error = cudaMemsetAsync(p.rank[rank].workspace, 0, kFlagBytes, stream);
  }
  if (kernels.before != nullptr) {
    kernels.before<<<dim3(64, p.ranks), 256, 0, stream>>>(all);
    error = cudaGetLastError();
  }
  if (error != cudaSuccess) return error;
  if (kernels.whole != nullptr) {
    return launch_together(kernels.whole, kernels.threads, p, stream, all);
  }
  for (int layer = 0; layer < p.layers; ++layer) {
    error = launch_together(kernels.sum, kernels.threads, p, stream, all, layer);
    if (error != cudaSuccess) return error;
    if (kernels.norm == nullptr) continue;
    kernels.norm<<<dim3(p.rows, p.ranks), kernels.threads, 0, stream>>>(all, layer);
  }
  return cudaGetLastError();
}

/// Of a layer: all ranks load x, the residual and the weight, and store the residual and y.
/// two_shot: they store their parts, load a part of their own for each sum and store the sum; then
/// all load it. lamport: they store a part and empty others, and once all three buffers; what they
/// wait for is no traffic that can be told before. by_layer: as the lesson. apart: so, and the
/// sum is stored and loaded.
template <Protocol protocol>
rmsnorm::Traffic traffic(const AllReduce& p) {
  const double row = bytes_of(p.dtype) * static_cast<double>(p.hidden);
  const double factor = p.weight == nullptr ? 0 : bytes_of(p.weight_dtype);  // bytes of one
  const int loads = bytes_of(p.weight_dtype) / bytes_of(p.dtype);
  const double ranks = p.ranks, peers = p.ranks - 1;
  rmsnorm::Traffic all{
      .read = ranks * (2 * row + factor * p.hidden * loads), .written = ranks * 2 * row};
  if (protocol == kTwoShot) {
    all.read += (1 + ranks) * row;
    all.written += (ranks + 1) * row;
    all.from_peers = all.to_peers = peers * row;
  } else if (protocol == kLamport) {
    all.written += ranks * (1 + ranks) * row;
    all.to_peers = ranks * peers * row;
  } else {
    const int times = protocol == kApart ? 2 : 1;
    all.read += ranks * times * row;
    all.written += ranks * times * row;
    all.from_peers = ranks * peers * row;
  }
  for (double* bytes : {&all.read, &all.written, &all.from_peers, &all.to_peers}) {
    *bytes *= p.layers;
  }
  if (protocol == kLamport) all.written += ranks * 3 * ranks * row;
  return all;
}

/// A thread's columns one by one, then the additions of at most two warps' shuffles.
int sum_depth(const AllReduce& p) {
  return std::min(p.hidden, 16) + 5 + 5;
}

template <Protocol protocol>
rmsnorm::Lesson<AllReduce> variant(const char* slug, const char* title, const char* idea) {
  return {
      .slug = slug,
      .title = title,
      .idea = idea,
      .regime = "decode",
      .launch = launch<protocol>,
      .unsupported = unsupported<protocol>,
      .traffic = traffic<protocol>,
      .sum_depth = sum_depth,
      .workspace_bytes = workspace_bytes<protocol>};
}

const rmsnorm::Registration<AllReduce> of_two_shot{variant<kTwoShot>(
    "17_several_gpus/two_shot", "Several GPUs: two-shot",
    "One rank adds up a row for all, and a second barrier says that the sum is there")};
const rmsnorm::Registration<AllReduce> of_lamport{variant<kLamport>(
    "17_several_gpus/lamport", "Several GPUs: Lamport",
    "The numbers are their own flags: no barrier between ranks")};
const rmsnorm::Registration<AllReduce> of_by_layer{variant<kByLayer>(
    "17_several_gpus/by_layer", "Several GPUs: a launch for each layer",
    "A kernel like the lesson's, launched once for each layer, as in a model")};
const rmsnorm::Registration<AllReduce> of_apart{variant<kApart>(
    "17_several_gpus/apart", "Several GPUs: two kernels",
    "One kernel sums, and the next one normalises what has been stored")};

}  // namespace
