#include <algorithm>
#include <cmath>
#include <vector>

#include "common/measure/benchmark.hpp"
#include "common/measure/roofline.hpp"
#include "common/tensors/buffer.hpp"

namespace rmsnorm {
namespace {

constexpr int kThreads = 256;

/// Row y of the grid makes copy y. Its first thread also copies the up to seven pairs of bytes that
/// do not fill a vector.
__global__ void copy_float4(Copy first, Copy second) {
  const Copy copy = blockIdx.y == 0 ? first : second;
  const std::int64_t vectors = copy.bytes / 16;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < vectors) static_cast<float4*>(copy.to)[i] = static_cast<const float4*>(copy.from)[i];
  if (i == 0) {
    for (std::int64_t tail = vectors * 8; tail < copy.bytes / 2; ++tail) {
      static_cast<std::uint16_t*>(copy.to)[tail] =
          static_cast<const std::uint16_t*>(copy.from)[tail];
    }
  }
}

__global__ void nothing() {}

/// A matrix and the one that it is copied to, by their numbers; of pieces, the first.
struct Pair {
  std::size_t from;
  std::size_t to;
  std::int64_t bytes;  ///< as many as both have on average, but no more than there are
  bool has_room;       ///< whether `to` is another, and has so many
};

std::vector<Pair> pairs_of(const Operation& operation, const WorkloadSpec& spec) {
  std::vector<std::size_t> from;
  std::vector<std::size_t> to;
  for (std::size_t i = 0; i < operation.tensors.size(); ++i) {
    if (!is_matrix(operation.tensors[i])) continue;
    if (is_read(operation.tensors[i])) from.push_back(i);
    if (is_written(operation.tensors[i])) to.push_back(i);
  }
  const Sizes sizes = sizes_of(operation, spec);
  const auto bytes_in = [&](std::size_t i) {
    const TensorSpec& tensor = operation.tensors[i];
    return static_cast<std::int64_t>(size_of(tensor, sizes)) / pieces_of(tensor, sizes) *
           bytes_of(dtype_of(tensor, spec.types));
  };
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
    const std::int64_t there = bytes_in(from[i]);
    const std::int64_t room = bytes_in(to[i]);
    const std::int64_t bytes = std::min(there, (there + room) / 4 * 2);
    pairs.push_back({from[i], to[i], bytes, bytes <= room && from[i] != to[i]});
  }
  return pairs;
}

/// What is to be copied of a set. What has no room goes to `spare` instead.
std::vector<Copy> copies_of(const Workload& workload, int set, std::byte* spare) {
  const Problem p = workload.problem(set);
  std::vector<Copy> copies;
  for (const Pair& pair : pairs_of(workload.operation(), workload.spec())) {
    void* const to = pair.has_room ? p.tensors[pair.to] : spare;
    copies.push_back({p.tensors[pair.from], to, pair.bytes});
  }
  return copies;
}

/// Bytes for what has no room of its own, in a set.
std::size_t room_in_set(const Operation& operation, const WorkloadSpec& spec) {
  std::size_t room = 0;
  for (const Pair& pair : pairs_of(operation, spec)) {
    if (!pair.has_room) room = (static_cast<std::size_t>(pair.bytes) + 15) / 16 * 16;
  }
  return room;
}

cudaError_t copy_with_runtime(const std::vector<Copy>& copies, cudaStream_t stream) {
  for (const Copy& copy : copies) {
    const cudaError_t error =
        cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDeviceToDevice, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t launch_nothing() {
  nothing<<<1, 1>>>();
  return cudaGetLastError();
}

cudaError_t copy_with_kernel(const Copy& first, const Copy& second, cudaStream_t stream) {
  const std::int64_t most = std::max(first.bytes, second.bytes);
  if (most == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(most / 16 / kThreads + 1), second.bytes > 0 ? 2 : 1);
  copy_float4<<<grid, kThreads, 0, stream>>>(first, second);
  return cudaGetLastError();
}

std::size_t room_for_copy(const Operation& operation, const WorkloadSpec& spec) {
  return room_in_set(operation, spec) * spec.sets;
}

CopyRate measure_copy(const Workload& workload, Cache cache, double min_seconds) {
  double bytes = 0;
  for (const Copy& copy : copies_of(workload, 0, nullptr)) {
    bytes += 2.0 * static_cast<double>(copy.bytes);
  }
  const std::size_t room = room_in_set(workload.operation(), workload.spec());
  const Buffer spare(Memory::device, room_for_copy(workload.operation(), workload.spec()));
  const auto copies_in = [&](int set) {
    return copies_of(workload, set, spare.data() + set * room);
  };
  const auto with_kernel = [&](int set, cudaStream_t stream) {
    const std::vector<Copy> copies = copies_in(set);
    return copy_with_kernel(copies[0], copies.size() > 1 ? copies[1] : Copy{}, stream);
  };
  const auto with_runtime = [&](int set, cudaStream_t stream) {
    return copy_with_runtime(copies_in(set), stream);
  };
  const int sets = workload.spec().sets;
  const Timing kernel = time_launch(with_kernel, cache, sets, min_seconds);
  const Timing runtime = time_launch(with_runtime, cache, sets, min_seconds);
  const Timing& best = kernel.median_us < runtime.median_us ? kernel : runtime;
  return {gbps(bytes, best.median_us), best.disturbed};
}

}  // namespace rmsnorm
