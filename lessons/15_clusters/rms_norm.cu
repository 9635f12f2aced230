// Lesson 15 - Clusters
// Changed    a long row is shared by up to 8 blocks, a cluster: copies that count their bytes bring
//            it to their shared memory, stores that count theirs send each other's partial sums.
// Unchanged  lesson 12, for rows of up to 16384 columns.
// Expect     the speed of a copy for rows of up to 256 KiB.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cuda/annotated_ptr>
#include <type_traits>

#include "common/operations/rms_norm.hpp"

namespace {

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

template <class T, class W, int kThreads, int kVectors>
__global__ void __launch_bounds__(  // most threads, fewest blocks per SM
    kBlock<kThreads>, threads_on_sm<W, kVectors>() / kBlock<kThreads>)
    rms_norm_one_block(
        const uint4* __restrict__ x,       // (rows, vectors)  read once
        const uint4* __restrict__ weight,  // (vectors of W)   once a warp
        uint4* __restrict__ y,             // (rows, vectors)  written once
        int rows, int vectors, float eps, float bias) {
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  y += row * vectors;  // in 64 bits: rows * hidden can exceed 2^31
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + row * vectors, keep);
  const int end = row < rows ? vectors : 0;  // a place behind them idles
  const int end_of_weight = weight == nullptr ? 0 : end;
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
      const int i = threadIdx.x + k * kThreads;
      load_weight(i < end, i, w[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    v[k] = i < end ? x[i] : make_uint4(0, 0, 0, 0);  // nothing to the sum
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
  sum = row_sum<kThreads>(sum);
  const float rstd = rsqrtf(sum / (kSize<T> * vectors) + eps);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    uint4* const factors = w[kEarly ? k : 0];
    if (!kEarly) load_weight(i < end_of_weight, i, factors);
    uint4 result;
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      const uint4& part = factors[e / kSize<W>];
      const float factor = element<W>(part, e % kSize<W>) + bias;
      const float value = element<T>(v[k], e) * rstd * factor;
      reinterpret_cast<T*>(&result)[e] = static_cast<T>(value);  // rounded
    }
    if (i < end) y[i] = result;
  }
}

/// A barrier in shared memory, which counts the bytes that have arrived.
using Mbarrier = std::uint64_t;

constexpr int kMaxCluster = 8;        // blocks that share a row, on every GPU with clusters
constexpr int kClusterThreads = 512;  // of each of them, at most
constexpr int kClusterVectors = 4;    // of the row, for each thread

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900  // it only has to compile
constexpr int kSmBlocks = 1;
#else
constexpr int kSmBlocks = 3;  // for which an SM is to have registers
#endif

/// Vectors of each block of a row but the last: whole lines of 128 bytes, so that no two blocks
/// share a sector.
__host__ __device__ constexpr int part_of(int vectors, int blocks) {
  constexpr int kLine = 8;  // vectors
  return ((vectors - 1) / (blocks * kLine) + 1) * kLine;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // Hopper
/// An address in shared memory as PTX wants it.
__device__ unsigned shared_address(const void* address) {
  return static_cast<unsigned>(__cvta_generic_to_shared(address));
}

/// What has this address in the running block, in block `rank` of the cluster.
__device__ unsigned address_in_block(int rank, unsigned own) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(own), "r"(rank));
  return remote;
}

/// Makes a barrier that one thread arrives at: this one, which says how many bytes will come.
__device__ void expect_bytes(Mbarrier* barrier, int bytes) {
  const unsigned address = shared_address(barrier);
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(address) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");  // for all who add to it
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(address), "r"(bytes)
               : "memory");
}

/// Waits until the barrier has counted all of them.
__device__ void wait_for_bytes(const Mbarrier* barrier) {
  for (unsigned done = 0; done == 0;) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; "
        "selp.b32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(barrier))
        : "memory");
  }
}

/// Begins to copy to shared memory; the barrier counts the bytes. Like the loads of lesson 9, it
/// asks the L2 cache to keep them rather than others.
__device__ void copy_bulk(void* to, const void* from, int bytes, Mbarrier* barrier) {
  std::uint64_t keep;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(keep));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(keep)
      : "memory");
}

/// Stores a number in block `rank` of the cluster; the barrier there counts its 4 bytes.
__device__ void send(float* to, float value, Mbarrier* barrier, int rank) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 "
      "[%0], %1, [%2];" ::"r"(address_in_block(rank, shared_address(to))),
      "f"(value), "r"(address_in_block(rank, shared_address(barrier)))
      : "memory");
}

/// Arrives at the cluster's barrier. It hands nothing on.
__device__ void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/// Waits until all threads of the cluster have arrived there.
__device__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// [cluster_sum]
/// Sum over the threads of a cluster, in which all blocks have begun. Every
/// thread gets it.
__device__ float cluster_sum(
    float value, int blocks, int rank,
    float* partial,       // for all warps of the cluster
    Mbarrier* arrived) {  // counts what they send
  const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
  value = row_sum<32>(value);
  if (lane < blocks) {  // a lane for each block
    const int place = rank * warps + threadIdx.x / 32;
    send(&partial[place], value, arrived, lane);
  }
  wait_for_bytes(arrived);  // every warp's sum is in this block's partial[]
  value = 0;
  for (int i = lane; i < blocks * warps; i += 32) value += partial[i];
  return row_sum<32>(value);
}
// [cluster_sum]
#endif

// [kernel]
template <class T, class W>
__global__ void __launch_bounds__(  // fewer with more registers
    kClusterThreads, sizeof(W) == sizeof(T) ? kSmBlocks : kSmBlocks / 2 + 1)
    rms_norm_clusters(
        const uint4* __restrict__ x,       // (rows, vectors)  read once
        const uint4* __restrict__ weight,  // (vectors of W)   once a row
        uint4* __restrict__ y,             // (rows, vectors)  written once
        int blocks, int vectors, float eps, float bias) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  // 32 KiB
  __shared__ __align__(128) uint4 staged[kClusterThreads * kClusterVectors];
  __shared__ float partial[kMaxCluster * kClusterThreads / 32];
  __shared__ Mbarrier x_arrived, sums_arrived;
  const int rank = blockIdx.x % blocks;  // of the row's blocks
  const int part = part_of(vectors, blocks);
  const int begin = rank * part, mine = min(part, vectors - begin);
  const std::int64_t row = blockIdx.x / blocks;
  x += row * vectors + begin;
  y += row * vectors + begin;
  if (threadIdx.x == 0) {
    const int sums = blocks * blockDim.x / 32;
    expect_bytes(&sums_arrived, sums * int{sizeof(float)});
    expect_bytes(&x_arrived, mine * int{sizeof(uint4)});
  }
  arrive_at_cluster();
  wait_for_inputs();  // nothing that a kernel may have written is read above
  if (threadIdx.x == 0) {
    copy_bulk(staged, x, mine * int{sizeof(uint4)}, &x_arrived);
  }
  constexpr int kParts = sizeof(W) / sizeof(T);  // of weight, for one of x
  uint4 w[kClusterVectors][kParts];
#pragma unroll
  for (int k = 0; k < kClusterVectors; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      w[k][p] = ones<W>();
      if (weight == nullptr || i >= mine) continue;
      w[k][p] = weight[(begin + i) * kParts + p];
    }
  }
  wait_for_cluster();  // every block has begun, its barriers are there
  wait_for_bytes(&x_arrived);
  let_next_begin();  // it waits for this kernel's end before it reads
  float sum = 0;
  for (int i = threadIdx.x; i < mine; i += blockDim.x) {
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      sum += element<T>(staged[i], e) * element<T>(staged[i], e);
    }
  }
  sum = cluster_sum(sum, blocks, rank, partial, &sums_arrived);
  const float rstd = rsqrtf(sum / (kSize<T> * vectors) + eps);
#pragma unroll
  for (int k = 0; k < kClusterVectors; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i >= mine) break;
    uint4 result;
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      const uint4& factors = w[k][e / kSize<W>];
      const float factor = element<W>(factors, e % kSize<W>) + bias;
      const float value = element<T>(staged[i], e) * rstd * factor;
      reinterpret_cast<T*>(&result)[e] = static_cast<T>(value);  // rounded
    }
    y[i] = result;
  }
#endif
}
// [kernel]

/// How rows are spread over threads, and the kernel for that.
struct Shape {
  int threads, rows, columns;  // of a row, of a block, of a thread
  void (*kernel)(const uint4*, const uint4*, uint4*, int, int, float, float);
  bool is_cluster = false;  // as many blocks share a row as it takes
};
template <class T, class W, int kThreads, int kColumns>
constexpr Shape kShape = {
    kThreads, kBlock<kThreads> / kThreads, kColumns,
    rms_norm_one_block<T, W, kThreads, kColumns / kSize<T>>};
template <class T, class W>
constexpr Shape kClusterShape = {
    kClusterThreads, 1, kClusterVectors* kSize<T>, rms_norm_clusters<T, W>, true};

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

/// Threads of a row in each of its blocks: whole warps.
int threads_for(const rmsnorm::TypedRmsNorm& p, const Shape& shape) {
  if (!shape.is_cluster) return shape.threads;
  const int part = part_of(p.hidden / (16 / bytes_of(p.dtype)), blocks_for(p, shape));
  return ((part - 1) / (32 * kClusterVectors) + 1) * 32;
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
    return "15_clusters has room for rows of 256 KiB: 8 blocks have 32 KiB of shared memory for x";
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
      static_cast<uint4*>(p.y), shape.is_cluster ? blocks : p.rows,
      p.hidden / (16 / bytes_of(p.dtype)), p.eps, p.weight_bias);
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
    .idea = "Up to 8 blocks share a long row: copies and stores that count their bytes",
    .regime = "wide",
    .starts_from = "12_launch_overlap",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
