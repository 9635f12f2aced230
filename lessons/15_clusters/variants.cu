// Lesson 15 - Clusters, variant
// Changed    partial sums are sent by stores that count their bytes where they arrive.
// Unchanged  a cluster for a row, which stays in registers; the first barrier of the cluster.
// Expect     no second barrier of the cluster, and no fence in front of it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cuda/annotated_ptr>
#include <string>
#include <type_traits>

#include "common/operations/rms_norm.hpp"

namespace {

constexpr int kMaxCluster = 8;  // blocks that share a row
constexpr int kThreads = 512;   // of each of them, at most
constexpr int kVectors = 8;     // of the row, that each thread keeps

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // Hopper
/// Sum over the lanes of a warp. Every lane gets it.
__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

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

/// The barrier's first phase will be over when so many bytes have arrived.
__device__ void expect_bytes(unsigned barrier, int bytes) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(1));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

/// Arrives at the cluster's first barrier, and does not wait for what was stored before.
__device__ void arrive_first() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/// Every block of the cluster has begun, and has initialised its barrier.
__device__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Stores a number in another block, and adds its bytes to those that the barrier there has seen.
__device__ void send(unsigned to, float value, unsigned barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to),
      "f"(value), "r"(barrier)
      : "memory");
}

/// Waits until the barrier's first phase is over.
__device__ void wait_for_bytes(unsigned barrier) {
  for (unsigned done = 0; done == 0;) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier), "r"(0)
        : "memory");
  }
}
#endif

/// Elements of a vector: what 16 bytes hold.
template <class T>
constexpr int kSize = 16 / sizeof(T);

/// Element e of a vector.
template <class T>
__device__ float element(const uint4& vector, int e) {
  if constexpr (std::is_same_v<T, nv_bfloat16>) {  // a float's upper half
    const unsigned two = reinterpret_cast<const unsigned*>(&vector)[e / 2];
    return __uint_as_float(e % 2 == 0 ? two << 16 : two & 0xffff0000);
  } else {
    return static_cast<float>(reinterpret_cast<const T*>(&vector)[e]);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, 2) rms_norm_st_async(
    const uint4* __restrict__ x,       // (rows, vectors)  read once
    const uint4* __restrict__ weight,  // (vectors)        read once a row, or null
    uint4* __restrict__ y,             // (rows, vectors)  written once
    int vectors, int blocks, float eps, float bias) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // unsupported() keeps others away
  __shared__ float partial[kMaxCluster * kThreads / 32];
  __shared__ std::uint64_t arrived;  // counts the bytes that come into partial[]
  const unsigned barrier = shared_address(&arrived);
  const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) expect_bytes(barrier, blocks * warps * int{sizeof(float)});
  arrive_first();

  const std::int64_t row = blockIdx.x / blocks;
  const int rank = blockIdx.x % blocks;
  y += row * vectors;
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + row * vectors, keep);
  const int part = (vectors - 1) / blocks + 1;  // of a block
  const int begin = rank * part + threadIdx.x;
  const int end = min(vectors, (rank + 1) * part);
  const int threads = blockDim.x;
  const auto exists = [&](int k, int i) { return k < kVectors - 1 || i < end; };
  cudaGridDependencySynchronize();
  uint4 v[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = begin + k * threads;
    v[k] = exists(k, i) ? x[i] : make_uint4(0, 0, 0, 0);
  }
  cudaTriggerProgrammaticLaunchCompletion();
  float sum = 0;
#pragma unroll
  for (const uint4& u : v) {
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) sum += element<T>(u, e) * element<T>(u, e);
  }

  sum = warp_sum(sum);
  wait_for_cluster();
  if (lane < blocks) {  // a lane for each block
    const unsigned to = shared_address(&partial[rank * warps + threadIdx.x / 32]);
    send(address_in_block(lane, to), sum, address_in_block(lane, barrier));
  }
  wait_for_bytes(barrier);  // every warp's sum is in this block's partial[]
  sum = 0;
  for (int i = lane; i < blocks * warps; i += 32) sum += partial[i];
  const float rstd = rsqrtf(warp_sum(sum) / (kSize<T> * vectors) + eps);

#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = begin + k * threads;
    if (!exists(k, i)) break;
    uint4 w, result;
    if (weight != nullptr) w = weight[i];
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      const float factor = weight == nullptr ? 1 : element<T>(w, e);
      const float value = element<T>(v[k], e) * rstd * (factor + bias);
      reinterpret_cast<T*>(&result)[e] = static_cast<T>(value);
    }
    y[i] = result;
  }
#endif
}

using Kernel = void (*)(const uint4*, const uint4*, uint4*, int, int, float, float);
Kernel kernel_for(rmsnorm::Dtype dtype) {
  if (dtype == rmsnorm::Dtype::fp16) return rms_norm_st_async<half>;
  if (dtype == rmsnorm::Dtype::bf16) return rms_norm_st_async<nv_bfloat16>;
  return rms_norm_st_async<float>;
}

/// How a row is spread over blocks, as few as have room for it, and threads, as few as leave none
/// without its first 7 vectors.
struct Shape {
  int vectors;  // of the row
  int blocks = (vectors - 1) / (kThreads * kVectors) + 1;
  int threads = ((vectors - 1) / (blocks * kVectors) / 32 + 1) * 32;
};

Shape shape_for(const rmsnorm::TypedRmsNorm& p) {
  return {p.hidden / (16 / bytes_of(p.dtype))};
}

std::string unsupported(const rmsnorm::TypedRmsNorm& p) {
  const auto bytes = reinterpret_cast<std::uintptr_t>(p.x) |
                     reinterpret_cast<std::uintptr_t>(p.weight) |
                     reinterpret_cast<std::uintptr_t>(p.y) |
                     std::uintptr_t{p.hidden * std::size_t(bytes_of(p.dtype))};
  if (bytes % 16 != 0) {
    return "15_clusters with st.async needs rows of whole 16-byte vectors at 16-byte addresses: "
           "a 16-byte load needs a 16-byte address, in every row";
  }
  if (p.weight != nullptr && p.weight_dtype != p.dtype) {
    return "15_clusters with st.async has no kernel for a weight of another type than that of x";
  }
  const Shape shape = shape_for(p);
  if (shape.blocks > kMaxCluster) {
    return "15_clusters with st.async has room for rows of 512 KiB: 8 blocks of 512 threads keep 8 "
           "vectors each";
  }
  if (shape.blocks < 2) {
    return "15_clusters with st.async has no kernel for rows of up to 64 KiB: they need no cluster";
  }
  int device = 0, major = 0;
  if (cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
      major >= 9) {
    return "";
  }
  return "15_clusters with st.async shares a row among the blocks of a cluster: GPUs before Hopper "
         "have "
         "no clusters";
}

cudaError_t launch(const rmsnorm::TypedRmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const Shape shape = shape_for(p);
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = shape.blocks;
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(p.rows) * shape.blocks);
  config.blockDim = dim3(shape.threads);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  return cudaLaunchKernelEx(
      &config, kernel_for(p.dtype), static_cast<const uint4*>(p.x),
      static_cast<const uint4*>(p.weight), static_cast<uint4*>(p.y), shape.vectors, shape.blocks,
      p.eps, p.weight_bias);
}

/// x, the weight and y once a row.
rmsnorm::Traffic traffic(const rmsnorm::TypedRmsNorm& p) {
  const double row = 1.0 * bytes_of(p.dtype) * p.hidden;
  return {.read = row + (p.weight == nullptr ? 0 : row), .written = row};
}

/// A thread's columns one by one, the shuffles of a warp, at most 4 sums of a lane, shuffles again.
int sum_depth(const rmsnorm::TypedRmsNorm& p) {
  return std::min(p.hidden, kVectors * 16 / bytes_of(p.dtype)) + 5 + 4 + 5;
}

const rmsnorm::Registration<rmsnorm::TypedRmsNorm> variant{{
    .slug = "15_clusters/st_async",
    .title = "Clusters: stores that count",
    .idea = "Partial sums come with their bytes counted, and no second barrier is needed",
    .regime = "wide",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
