// Lesson 15 - Clusters, variants
// Changed    x waits in registers, or a second barrier of the cluster waits for the sums.
// Unchanged  all else.
// Expect     less in flight with the first; a longer wait with the second.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cuda/annotated_ptr>
#include <string>
#include <type_traits>

#include "common/operations/rms_norm.hpp"

namespace {

namespace cg = cooperative_groups;

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

/// Sum over the lanes of a warp. Every lane gets it.
__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
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
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
                   address_in_block(rank, shared_address(to))),
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

/// The lesson's kernel, but for where x lies (unless kIsCopied, in registers, and the weight is
/// loaded after the sum), or for how partial sums arrive (unless kIsCounted, by plain stores, and a
/// barrier of the cluster).
template <class T, bool kIsCopied, bool kIsCounted>
__global__ void __launch_bounds__(kClusterThreads, kSmBlocks) rms_norm_clusters_variant(
    const uint4* __restrict__ x,       // (rows, vectors)  read once
    const uint4* __restrict__ weight,  // (vectors)        once a row, or null
    uint4* __restrict__ y,             // (rows, vectors)  written once
    int blocks, int vectors, float eps, float bias) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // unsupported() keeps others away
  __shared__ __align__(128) uint4 staged[kIsCopied ? kClusterThreads * kClusterVectors : 1];
  __shared__ float partial[kMaxCluster * kClusterThreads / 32];
  __shared__ Mbarrier x_arrived, sums_arrived;
  const int rank = blockIdx.x % blocks;  // of the row's blocks
  const int part = part_of(vectors, blocks);
  const int begin = rank * part, mine = min(part, vectors - begin);
  const int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int64_t row = blockIdx.x / blocks;
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + row * vectors + begin, keep);
  y += row * vectors + begin;
  if (threadIdx.x == 0) {
    if (kIsCounted) expect_bytes(&sums_arrived, blocks * warps * int{sizeof(float)});
    if (kIsCopied) expect_bytes(&x_arrived, mine * int{sizeof(uint4)});
  }
  arrive_at_cluster();
  cudaGridDependencySynchronize();
  if (kIsCopied && threadIdx.x == 0) copy_bulk(staged, x, mine * int{sizeof(uint4)}, &x_arrived);
  uint4 v[kIsCopied ? 1 : kClusterVectors], w[kIsCopied ? kClusterVectors : 1];
  const auto load_weight = [&](int i, uint4* to) {
    for (int e = 0; e < kSize<T>; ++e) reinterpret_cast<T*>(to)[e] = static_cast<T>(1.0f);
    if (weight != nullptr && i < mine) *to = weight[begin + i];
  };
#pragma unroll
  for (int k = 0; k < kClusterVectors; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if constexpr (kIsCopied) {
      load_weight(i, &w[k]);
    } else {
      v[k] = i < mine ? x[i] : make_uint4(0, 0, 0, 0);
    }
  }
  wait_for_cluster();  // every block has begun, its barriers are there
  if (kIsCopied) wait_for_bytes(&x_arrived);
  cudaTriggerProgrammaticLaunchCompletion();
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kClusterVectors; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i >= mine) break;
    const uint4& u = kIsCopied ? staged[i] : v[kIsCopied ? 0 : k];
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) sum += element<T>(u, e) * element<T>(u, e);
  }

  sum = warp_sum(sum);
  if (lane < blocks) {  // a lane for each block
    float* const place = &partial[rank * warps + warp];
    if constexpr (kIsCounted) {
      send(place, sum, &sums_arrived, lane);
    } else {
      *cg::this_cluster().map_shared_rank(place, lane) = sum;
    }
  }
  if constexpr (kIsCounted) {
    wait_for_bytes(&sums_arrived);
  } else {
    cg::this_cluster().sync();
  }
  sum = 0;
  for (int i = lane; i < blocks * warps; i += 32) sum += partial[i];
  const float rstd = rsqrtf(warp_sum(sum) / (kSize<T> * vectors) + eps);

#pragma unroll
  for (int k = 0; k < kClusterVectors; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i >= mine) break;
    const uint4& u = kIsCopied ? staged[i] : v[kIsCopied ? 0 : k];
    uint4& factors = w[kIsCopied ? k : 0];
    if (!kIsCopied) load_weight(i, &factors);
    uint4 result;
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      const float value = element<T>(u, e) * rstd * (element<T>(factors, e) + bias);
      reinterpret_cast<T*>(&result)[e] = static_cast<T>(value);
    }
    y[i] = result;
  }
#endif
}

using Kernel = void (*)(const uint4*, const uint4*, uint4*, int, int, float, float);

template <bool kIsCopied, bool kIsCounted>
Kernel kernel_for(rmsnorm::Dtype dtype) {
  if (dtype == rmsnorm::Dtype::fp16) return rms_norm_clusters_variant<half, kIsCopied, kIsCounted>;
  if (dtype == rmsnorm::Dtype::bf16)
    return rms_norm_clusters_variant<nv_bfloat16, kIsCopied, kIsCounted>;
  return rms_norm_clusters_variant<float, kIsCopied, kIsCounted>;
}

/// How a row is spread over blocks, as few as have room for it, and their threads: whole warps.
struct Shape {
  int vectors;  // of the row
  int blocks = (vectors - 1) / (kClusterThreads * kClusterVectors) + 1;
  int threads = ((part_of(vectors, blocks) - 1) / (32 * kClusterVectors) + 1) * 32;
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
    return "15_clusters needs rows of whole 16-byte vectors at 16-byte addresses: "
           "a 16-byte load needs a 16-byte address, in every row";
  }
  if (p.weight != nullptr && p.weight_dtype != p.dtype) {
    return "15_clusters has no kernel for a weight of another type than that of x";
  }
  const Shape shape = shape_for(p);
  if (shape.blocks > kMaxCluster) {
    return "15_clusters has room for rows of 256 KiB: 8 blocks keep 32 KiB "
           "each";
  }
  if (p.hidden <= 16384) {
    return "15_clusters has no kernel for rows of up to 16384 columns: they need no "
           "cluster";
  }
  int device = 0, major = 0;
  if (cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
      major >= 9) {
    return "";
  }
  return "15_clusters shares a row among the blocks of a cluster: GPUs before Hopper have no "
         "clusters";
}

template <bool kIsCopied, bool kIsCounted>
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
      &config, kernel_for<kIsCopied, kIsCounted>(p.dtype), static_cast<const uint4*>(p.x),
      static_cast<const uint4*>(p.weight), static_cast<uint4*>(p.y), shape.blocks, shape.vectors,
      p.eps, p.weight_bias);
}

/// x, the weight and y once a row.
rmsnorm::Traffic traffic(const rmsnorm::TypedRmsNorm& p) {
  const double row = 1.0 * bytes_of(p.dtype) * p.hidden;
  return {.read = row + (p.weight == nullptr ? 0 : row), .written = row};
}

/// A thread's columns one by one, the shuffles of a warp, at most 4 sums of a lane, shuffles again.
int sum_depth(const rmsnorm::TypedRmsNorm& p) {
  return std::min(p.hidden, kClusterVectors * 16 / bytes_of(p.dtype)) + 5 + 4 + 5;
}

const rmsnorm::Registration<rmsnorm::TypedRmsNorm> registers{{
    .slug = "15_clusters/registers",
    .title = "Clusters: x in registers",
    .idea = "Each thread loads its part of x itself, to registers, as in lesson 12",
    .regime = "wide",
    .launch = launch<false, true>,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

const rmsnorm::Registration<rmsnorm::TypedRmsNorm> cluster_sync{{
    .slug = "15_clusters/cluster_sync",
    .title = "Clusters: a second barrier",
    .idea = "Partial sums are stored by plain stores, and waited for at a barrier of the cluster",
    .regime = "wide",
    .launch = launch<true, false>,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
