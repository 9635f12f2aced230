// The sum over ranks without flags, in fp32: each rank stores its part at all of them, which wait
// for the numbers themselves (Lamport). Edits of it are the ways in which that goes wrong.
#include <cstdint>

#include "tests/operations/all_reduce_residual_add/norm_in_fp32.cuh"

namespace {

constexpr unsigned kEmpty = 0x80000000;  // -0.0: nothing has come

__device__ void tell(float* to, unsigned word) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(word) : "memory");
}
__device__ unsigned look(const float* from) {
  unsigned word;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}
__device__ bool is_empty(unsigned word) {
  return word == kEmpty;
}
/// What says that nothing has come becomes 0.
__device__ unsigned not_empty(unsigned word) {
  return is_empty(word) ? 0 : word;
}

/// Where rank `to` gets what rank `from` has in a layer: in turn, there are three buffers.
__device__ float* inbox_of(const AllReduce& p, int to, int from, int row, int layer) {
  const std::int64_t lines = (std::int64_t{layer % 3} * p.ranks + from) * p.rows + row;
  return static_cast<float*>(p.rank[to].workspace) + lines * p.hidden;
}

__global__ void make_empty(AllReduce p) {
  auto* words = static_cast<unsigned*>(p.rank[blockIdx.y].workspace);
  const std::int64_t end = std::int64_t{3} * p.ranks * p.rows * p.hidden;
  for (std::int64_t i = threadIdx.x; i < end; i += kThreads) words[i] = kEmpty;
}

__global__ void lamport(AllReduce p) {
  const int rank = blockIdx.y;
  for (int layer = 0; layer < p.layers; ++layer) {
    __threadfence_system();
    for (int row = blockIdx.x; row < p.rows; row += gridDim.x) {
      const float* x = x_of(p, rank, row, layer);
      for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
        const unsigned word = not_empty(__float_as_uint(x[col]));
        for (int r = 0; r < p.ranks; ++r) tell(inbox_of(p, r, rank, row, layer) + col, word);
        for (int r = 0; r < p.ranks; ++r) {
          tell(inbox_of(p, rank, r, row, layer + 2) + col, kEmpty);
        }
      }
    }
    for (int row = blockIdx.x; row < p.rows; row += gridDim.x) {
      norm(p, rank, row, layer, [&](int col) {
        float sum = 0;
        for (int r = 0; r < p.ranks; ++r) {
          const float* from = inbox_of(p, rank, r, row, layer) + col;
          unsigned word = look(from);
          while (is_empty(word)) word = look(from);
          sum += __uint_as_float(word);
        }
        return sum;
      });
    }
  }
}

cudaError_t launch(const AllReduce& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  make_empty<<<dim3(1, p.ranks), kThreads, 0, stream>>>(p);
  AllReduce problem = p;
  void* arguments[] = {&problem};
  return cudaLaunchCooperativeKernel(
      lamport, dim3(kBlocks, p.ranks), kThreads, arguments, 0, stream);
}

/// Of each rank: three buffers of the parts of all.
std::size_t workspace_bytes(const AllReduce& p) {
  const auto lines = static_cast<std::size_t>(p.ranks) * static_cast<std::size_t>(p.rows);
  return 3 * sizeof(float) * lines * static_cast<std::size_t>(p.hidden);
}

/// A line reads x, the weight, and the residual twice; it writes y and the residual. What ranks
/// tell and wait for word by word is no traffic. Before the first layer, three buffers are emptied.
rmsnorm::Traffic traffic(const AllReduce& p) {
  const double row = sizeof(float) * static_cast<double>(p.hidden);
  const double lines = static_cast<double>(p.ranks) * p.layers;
  return {
      .read = lines * (p.weight == nullptr ? 3 : 4) * row,
      .written = (lines * 2 + 3 * p.ranks * p.ranks) * row};
}

const rmsnorm::Registration<AllReduce> lesson{{
    .slug = "all_reduce_residual_add",
    .title = "Sum over ranks without flags",
    .idea = "The numbers are their own flags",
    .regime = "decode",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
    .workspace_bytes = workspace_bytes,
}};

}  // namespace
