#include <algorithm>
#include <cuda/annotated_ptr>

#include "common/measure/move.hpp"

namespace rmsnorm {
namespace {

constexpr int kThreads = 256;  // of a block
constexpr int kMost = 8;       // vectors that a thread loads, or stores

/// One of a thread's vectors: the block's first, of all vectors that there are from there on.
struct Access {
  uint4* first;
  std::int64_t end;
  int step;  ///< vectors from a block to the next
};

/// What each thread moves. Those that it stores as it has loaded them come first in both.
struct Accesses {
  Access loads[kMost];
  Access stores[kMost];
  int store_count;
  int kept_count;
  cuda::access_property policy;  ///< of loads, in the L2 cache
};

__global__ void nothing() {}

template <int kLoads>
__global__ void move_vectors(const __grid_constant__ Accesses accesses) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
  const auto place = [&](const Access& access) {
    return blockIdx.x * std::int64_t{access.step} + threadIdx.x;
  };
  uint4 v[kLoads == 0 ? 1 : kLoads] = {};
#pragma unroll
  for (int k = 0; k < kLoads; ++k) {
    const std::int64_t i = place(accesses.loads[k]);
    const uint4* const from = accesses.loads[k].first;
    if (i < accesses.loads[k].end) {
      v[k] = cuda::associate_access_property(from, accesses.policy)[i];
    }
  }
  uint4 mixture = v[0];
#pragma unroll
  for (int k = 1; k < kLoads; ++k) {
    mixture.x ^= v[k].x, mixture.y ^= v[k].y, mixture.z ^= v[k].z, mixture.w ^= v[k].w;
  }
#pragma unroll
  for (int k = 0; k < kMost; ++k) {
    if (k >= accesses.store_count) break;
    const std::int64_t i = place(accesses.stores[k]);
    const uint4 stored = k < kLoads && k < accesses.kept_count ? v[k < kLoads ? k : 0] : mixture;
    if (i < accesses.stores[k].end) accesses.stores[k].first[i] = stored;
  }
}

using Kernel = void (*)(Accesses);

template <int kLoads = kMost>
Kernel kernel_for(int loads) {
  if constexpr (kLoads > 0) {
    if (loads < kLoads) return kernel_for<kLoads - 1>(loads);
  }
  return move_vectors<kLoads>;
}

/// Adds what the threads of `blocks` blocks move of a stream; whether there is room for it.
bool add(const Stream& stream, std::int64_t blocks, Access* accesses, int& count) {
  const std::int64_t vectors = stream.bytes / 16;
  const auto each = static_cast<int>((vectors + blocks * kThreads - 1) / (blocks * kThreads));
  if (count + each > kMost) return false;
  for (int k = 0; k < each; ++k) {
    const std::int64_t before = std::int64_t{k} * kThreads;
    accesses[count++] = {
        static_cast<uint4*>(stream.data) + before, vectors - before, each * kThreads};
  }
  return true;
}

/// How so many blocks move all of them; false if a thread would have more than it can.
bool share(const std::vector<Stream>& streams, std::int64_t blocks, Accesses& all, int& loads) {
  all = {}, loads = 0;
  for (const bool are_kept : {true, false}) {
    for (const Stream& stream : streams) {
      if ((stream.is_read && stream.is_written) != are_kept) continue;
      if (stream.is_read && !add(stream, blocks, all.loads, loads)) return false;
      if (stream.is_written && !add(stream, blocks, all.stores, all.store_count)) return false;
    }
    if (are_kept) all.kept_count = all.store_count;
  }
  return true;
}

}  // namespace

cudaError_t launch_nothing() {
  nothing<<<1, 1>>>();
  return cudaGetLastError();
}

std::vector<Way> ways_to_move(const std::vector<Stream>& streams, bool overlaps) {
  const bool are_alike = std::all_of(streams.begin(), streams.end(), [&](const Stream& one) {
    return one.bytes == streams[0].bytes;
  });
  std::vector<Way> ways = {{overlaps, false, false}, {overlaps, false, true}};
  if (!are_alike) ways.insert(ways.end(), {{overlaps, true, false}, {overlaps, true, true}});
  return ways;
}

cudaError_t move_streams(const std::vector<Stream>& streams, const Way& way, cudaStream_t stream) {
  std::int64_t fewest = 0, most = 0;
  for (const Stream& one : streams) {
    const std::int64_t vectors = one.bytes / 16;
    if (vectors == 0) continue;
    fewest = fewest == 0 ? vectors : std::min(fewest, vectors);
    most = std::max(most, vectors);
  }
  if (most == 0) return cudaSuccess;
  // More blocks where a thread would have too many vectors.
  std::int64_t blocks = ((way.is_fine ? most : fewest) - 1) / kThreads + 1;
  Accesses accesses;
  int loads = 0;
  while (!share(streams, blocks, accesses, loads)) {
    if (blocks * kThreads >= most) return cudaErrorInvalidValue;
    blocks *= 2;
  }
  if (way.keeps) accesses.policy = cuda::access_property::persisting();
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = way.overlaps ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel_for(loads), accesses);
}

}  // namespace rmsnorm
