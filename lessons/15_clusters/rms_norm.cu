// Lesson 15 - Clusters
// Changed    a long row is shared by up to 8 blocks, a cluster, which send each other partial sums.
// Unchanged  lesson 12, for rows of up to 16384 columns.
// Expect     room for rows of 512 KiB; no more speed where a row fits an SM.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cuda/annotated_ptr>
#include <type_traits>

#include "common/operations/rms_norm.hpp"

namespace {

namespace cg = cooperative_groups;

/// Sum over the kThreads threads of a row. Every thread gets it.
template <int kThreads>
__device__ float row_sum(float value) {
  for (int distance = kThreads < 32 ? kThreads / 2 : 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  if constexpr (kThreads > 32) {
    __shared__ float partial[kThreads / 32];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();  // every warp's sum is in partial[]
    value = row_sum<32>(threadIdx.x % 32 < kThreads / 32 ? partial[threadIdx.x % 32] : 0);
  }
  return value;
}

/// A vector of ones.
template <class T>
__device__ uint4 ones() {
  uint4 vector;
  for (int e = 0; e < 16 / int{sizeof(T)}; ++e) {
    reinterpret_cast<T*>(&vector)[e] = static_cast<T>(1.0f);
  }
  return vector;
}

/// Waits until the kernel before this one in the stream has ended and what it wrote can be seen.
__device__ void wait_for_inputs() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // Hopper
  cudaGridDependencySynchronize();
#endif
}

/// Lets the grid of the next kernel in the stream be set up, if its launch allows it.
__device__ void let_next_begin() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// Threads that an SM is to hold. Of its 65536 registers, each of 1536 can have 40, of 1280 48, of
/// 1024 64. Turing has no room for more than 1024.
template <class W, int kVectors>
constexpr int threads_on_sm() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if (kVectors <= 2) return sizeof(W) == 2 ? 1536 : 1280;
#endif
  return 1024;
}

/// Elements of a vector: what 16 bytes hold.
template <class T>
constexpr int kSize = 16 / sizeof(T);

/// Element e of a vector. To widen it is its first use: a load that is to
/// be in flight with others must stay raw, a uint4, until all are out.
template <class T>
__device__ float element(const uint4& vector, int e) {
  if constexpr (std::is_same_v<T, nv_bfloat16>) {  // a float's upper half
    const unsigned two = reinterpret_cast<const unsigned*>(&vector)[e / 2];
    return __uint_as_float(e % 2 == 0 ? two << 16 : two & 0xffff0000);
  } else {
    return static_cast<float>(reinterpret_cast<const T*>(&vector)[e]);
  }
}

/// Threads of a block, if kThreads share a row.
template <int kThreads>
constexpr int kBlock = kThreads <= 32 ? 128 : kThreads;

/// Arrives at the cluster's first barrier. It hands nothing on: nothing is written yet.
__device__ void arrive_first() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

constexpr int kMaxCluster = 8;        // blocks that share a row, on every GPU with clusters
constexpr int kClusterThreads = 512;  // of each of them, at most
constexpr int kClusterVectors = 8;    // of the row, that each thread keeps

// [cluster_sum]
/// Sum over the threads of a cluster, which all have called arrive_first().
/// Every thread gets it.
__device__ float cluster_sum(float value) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // Hopper
  __shared__ float partial[kMaxCluster * kClusterThreads / 32];
  const auto cluster = cg::this_cluster();
  const int warps = blockDim.x / 32, blocks = cluster.num_blocks();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  value = row_sum<32>(value);
  cluster.barrier_wait();  // every block has begun: its partial[] is there
  if (lane < blocks) {     // a lane for each block
    const int place = cluster.block_rank() * warps + warp;
    *cluster.map_shared_rank(&partial[place], lane) = value;
  }
  cluster.sync();  // every warp's sum is in every block's partial[]
  value = 0;
  for (int i = lane; i < blocks * warps; i += 32) value += partial[i];
  return row_sum<32>(value);
#else
  return value;  // unsupported() keeps long rows away
#endif
}
// [cluster_sum]

// [kernel]
template <class T, class W, int kThreads, int kVectors, bool kIsCluster>
__global__ void __launch_bounds__(  // most threads, fewest blocks per SM
    kBlock<kThreads>, threads_on_sm<W, kVectors>() / kBlock<kThreads>)
    rms_norm_clusters(
        const uint4* __restrict__ x,       // (rows, vectors)  read once
        const uint4* __restrict__ weight,  // (vectors of W)   once a warp
        uint4* __restrict__ y,             // (rows, vectors)  written once
        int rows, int vectors, int cluster, float eps, float bias) {
  if constexpr (kIsCluster) arrive_first();
  const int blocks = kIsCluster ? cluster : 1;  // that share a row
  const int group = blockIdx.x / blocks;        // this block's, in the grid
  const auto row = group * std::int64_t{blockDim.y} + threadIdx.y;
  y += row * vectors;  // in 64 bits: rows * hidden can exceed 2^31
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + row * vectors, keep);
  const int rank = blockIdx.x % blocks;
  const int part = (vectors - 1) / blocks + 1;  // of a block
  const int begin = rank * part + threadIdx.x;
  const int end = row < rows ? min(vectors, (rank + 1) * part) : 0;
  const int threads = kIsCluster ? blockDim.x : kThreads;
  // In a cluster, only the last vector of a thread may be missing. To ask
  // for each of them takes more registers than there are.
  const auto exists = [&](int k, int i) {
    if (kIsCluster && k < kVectors - 1) return true;
    return i < end;
  };
  constexpr int kParts = sizeof(W) / sizeof(T);    // of weight, for one of x
  constexpr bool kEarly = kVectors * kParts <= 4;  // else registers run short
  uint4 v[kVectors], w[kEarly ? kVectors : 1][kParts];
  const auto load_weight = [&](bool is_there, int i, uint4* to) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (is_there) to[part] = weight[i * kParts + part];
    }
  };
#pragma unroll
  for (auto& factors : w) {
#pragma unroll
    for (uint4& part : factors) part = ones<W>();  // where there is no weight
  }
  wait_for_inputs();  // nothing that a kernel may have written is read above
  // The branch keeps these loads here. Without it, the compiler moves them
  // behind the first use of x, to save registers.
  if (kEarly && weight != nullptr) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = begin + k * threads;
      load_weight(exists(k, i), i, w[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = begin + k * threads;
    v[k] = exists(k, i) ? x[i] : make_uint4(0, 0, 0, 0);
  }
  let_next_begin();  // it waits for this kernel's end before it reads
  float sum = 0;
#pragma unroll
  for (const uint4& u : v) {
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      sum += element<T>(u, e) * element<T>(u, e);
    }
  }
  sum = kIsCluster ? cluster_sum(sum) : row_sum<kThreads>(sum);
  const float rstd = rsqrtf(sum / (kSize<T> * vectors) + eps);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = begin + k * threads;
    uint4* const factors = w[kEarly ? k : 0];
    if (!kEarly && weight != nullptr) load_weight(exists(k, i), i, factors);
    uint4 result;
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      const uint4& part = factors[e / kSize<W>];
      const float factor = element<W>(part, e % kSize<W>) + bias;
      const float value = element<T>(v[k], e) * rstd * factor;
      reinterpret_cast<T*>(&result)[e] = static_cast<T>(value);  // rounded
    }
    if (exists(k, i)) y[i] = result;
  }
}
// [kernel]

/// How rows are spread over threads, and the kernel for that.
struct Shape {
  int threads, rows, columns;  // of a row, of a block, of a thread
  void (*kernel)(const uint4*, const uint4*, uint4*, int, int, int, float, float);
  bool is_cluster = false;  // as many blocks share a row as it takes
};
template <class T, class W, int kThreads, int kColumns>
constexpr Shape kShape = {
    kThreads, kBlock<kThreads> / kThreads, kColumns,
    rms_norm_clusters<T, W, kThreads, kColumns / kSize<T>, false>};
template <class T, class W>
constexpr Shape kClusterShape = {
    kClusterThreads, 1, kClusterVectors* kSize<T>,
    rms_norm_clusters<T, W, kClusterThreads, kClusterVectors, true>, true};

/// The first with room for a row is taken, or the last.
template <class T, class W>
constexpr Shape kShapes[] = {kShape<T, W, 8, 16>,   kShape<T, W, 16, 16>,  kShape<T, W, 32, 16>,
                             kShape<T, W, 32, 32>,  kShape<T, W, 128, 16>, kShape<T, W, 256, 16>,
                             kShape<T, W, 512, 16>, kShape<T, W, 512, 32>, kClusterShape<T, W>};

const Shape& shape_for(const rmsnorm::TypedRmsNorm& p) {
  const bool fp32_weight = p.weight_dtype == rmsnorm::Dtype::fp32;
  const Shape* shape = kShapes<float, float>;
  if (p.dtype == rmsnorm::Dtype::fp16) {
    shape = fp32_weight ? kShapes<half, float> : kShapes<half, half>;
  } else if (p.dtype == rmsnorm::Dtype::bf16) {
    shape = fp32_weight ? kShapes<nv_bfloat16, float> : kShapes<nv_bfloat16, nv_bfloat16>;
  }
  while (!shape->is_cluster && shape->threads * shape->columns < p.hidden) ++shape;
  return *shape;
}

/// Blocks that share a row, as few as have room for it; 1 if it is short.
int blocks_for(const rmsnorm::TypedRmsNorm& p, const Shape& shape) {
  return shape.is_cluster ? (p.hidden - 1) / (shape.threads * shape.columns) + 1 : 1;
}

/// Threads of a row in each of its blocks. In a cluster they are so few that all vectors of a
/// thread exist but the last, and whole warps.
int threads_for(const rmsnorm::TypedRmsNorm& p, const Shape& shape) {
  const int part = shape.columns * blocks_for(p, shape);  // of a row, with a thread in each block
  return shape.is_cluster ? ((p.hidden - 1) / part / 32 + 1) * 32 : shape.threads;
}

cudaError_t find_major(int* major) {  // of the current device's compute capability
  int device = 0;
  const cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  return cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, device);
}

std::string unsupported(const rmsnorm::TypedRmsNorm& p) {
  const auto bytes = reinterpret_cast<std::uintptr_t>(p.x) |
                     reinterpret_cast<std::uintptr_t>(p.weight) |
                     reinterpret_cast<std::uintptr_t>(p.y) |
                     std::uintptr_t{p.hidden * std::size_t(bytes_of(p.dtype))};
  if (bytes % 16 != 0) {
    return "15_clusters needs rows of whole 16-byte vectors at 16-byte addresses: "
           "a 16-byte load needs a 16-byte address, in every row";
  }
  const Shape& shape = shape_for(p);
  if (!shape.is_cluster) return "";
  if (blocks_for(p, shape) > kMaxCluster) {
    return "15_clusters has room for rows of 512 KiB: 8 blocks of 512 threads keep 8 vectors each";
  }
  int major = 0;
  if (find_major(&major) == cudaSuccess && major >= 9) return "";
  return "15_clusters shares rows of more than 16384 columns among the blocks of a cluster: "
         "GPUs before Hopper have no clusters";
}

cudaError_t launch(const rmsnorm::TypedRmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  int major = 0;
  const cudaError_t error = find_major(&major);
  if (error != cudaSuccess) return error;

  const Shape& shape = shape_for(p);
  const int blocks = blocks_for(p, shape);
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = blocks;
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(((p.rows - 1) / shape.rows + 1) * unsigned(blocks));
  config.blockDim = dim3(threads_for(p, shape), shape.rows);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = major < 9 ? 0 : shape.is_cluster ? 2 : 1;
  return cudaLaunchKernelEx(
      &config, shape.kernel, static_cast<const uint4*>(p.x), static_cast<const uint4*>(p.weight),
      static_cast<uint4*>(p.y), p.rows, p.hidden / (16 / bytes_of(p.dtype)), blocks, p.eps,
      p.weight_bias);
}

/// x and y once, the weight once a warp. A weight of 4 bytes for an x of 2 is two loads: each of
/// them touches all sectors of both.
rmsnorm::Traffic traffic(const rmsnorm::TypedRmsNorm& p) {
  const double row = 1.0 * bytes_of(p.dtype) * p.hidden;
  const double parts = 1.0 * bytes_of(p.weight_dtype) / bytes_of(p.dtype);
  const double rows_of_warp = std::max(1.0, 32.0 / shape_for(p).threads);
  const double weight = p.weight == nullptr ? 0 : row * parts * parts / rows_of_warp;
  return {.read = row + weight, .written = row};
}

/// A thread's columns one by one, then the additions of at most two warps' shuffles. Between the
/// two, a lane of a cluster adds up at most 4 of the warps' sums.
int sum_depth(const rmsnorm::TypedRmsNorm& p) {
  const Shape& shape = shape_for(p);
  return std::min(p.hidden, shape.columns) + 5 + (shape.is_cluster ? 4 : 0) + 5;
}

const rmsnorm::Registration<rmsnorm::TypedRmsNorm> lesson{{
    .slug = "15_clusters",
    .title = "Clusters",
    .idea = "Up to 8 blocks share a long row, and send each other partial sums",
    .regime = "wide",
    .starts_from = "12_launch_overlap",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
