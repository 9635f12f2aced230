/// \file
/// Two threads touch the same shared memory, and no barrier is between them.

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

constexpr unsigned kAll = 0xffffffff;

__global__ void all_write_one(const float*, float* y, bool correct) {
  __shared__ float last;
  if (!correct || threadIdx.x == 0) last = threadIdx.x;  // <-- write one
  __syncthreads();
  y[threadIdx.x] = last;
}

__global__ void read_neighbour(const float* x, float* y, bool correct) {
  __shared__ float staged[96];
  const int t = threadIdx.x;
  staged[t] = x[t];  // <-- neighbour written
  if (correct) __syncthreads();
  y[t] = staged[(t + 1) % 96];  // <-- neighbour read
}

/// The same the other way round: the reader comes later.
__global__ void read_back(const float* x, float* y, bool correct) {
  extern __shared__ float row[];
  const int t = threadIdx.x;
  row[t] = x[t];  // <-- back written
  if (correct) __syncthreads();
  if (t > 0) y[t] = row[t - 1];  // <-- back read
}

/// Every row is right by itself; only a second one overwrites what others still read.
template <int kThreads>
__global__ void reverse_rows(const float* x, float* y, bool correct) {
  __shared__ float scratch[kThreads];
  const int t = threadIdx.x;
  for (int row = 0; row < 3; ++row) {
    scratch[t] = x[row * kThreads + t];  // <-- rows written
    __syncthreads();
    y[row * kThreads + t] = scratch[kThreads - 1 - t];  // <-- rows read
    if (correct) __syncthreads();
  }
}

__device__ float& slot(float* of_thread, int t) {
  return of_thread[t];
}

__global__ void tree_2d(const float* x, float* y, bool correct) {
  __shared__ float partial[64];
  const int t = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  slot(partial, t) = x[t];
  __syncthreads();
  for (int stride = 32; stride > 0; stride /= 2) {
    if (t < stride) partial[t] += slot(partial, t + stride);  // <-- tree
    if (correct) __syncthreads();
  }
  __syncthreads();
  y[t] = partial[0];
}

/// A shuffle brings the lanes together, but orders no memory.
__global__ void shuffle_between(const float* x, float* y, bool correct) {
  __shared__ float staged[32];
  const int lane = threadIdx.x;
  staged[lane] = x[lane];  // <-- shuffle written
  const float sum = __shfl_xor_sync(kAll, x[lane], 1);
  if (correct) __syncwarp();
  y[lane] = sum + staged[lane ^ 1];  // <-- shuffle read
}

__global__ void vote_between(const float* x, float* y, bool correct) {
  __shared__ int found;
  if (threadIdx.x == 7) found = 1;  // <-- vote written
  const unsigned votes = __ballot_sync(kAll, x[threadIdx.x] > 0);
  if (correct) __syncwarp();
  if (threadIdx.x == 20) y[0] = static_cast<float>(votes) + found;  // <-- vote read
}

/// The masks are the same; who reads from whom is not.
__global__ void quarter_warps(const float* x, float* y, bool correct) {
  __shared__ float staged[64];
  const int t = threadIdx.x;
  const unsigned quarter = 0xffu << (t % 32 / 8 * 8);
  staged[t] = x[t];  // <-- quarter written
  __syncwarp(quarter);
  y[t] = staged[t ^ (correct ? 4 : 12)];  // <-- quarter read
}

/// Lane 0 waits for lane 1, and lane 1 for lane 2: so 0 is behind 2, if they wait in this order.
__global__ void chain(const float*, float* y, bool correct) {
  __shared__ float value;
  const int lane = threadIdx.x;
  if (lane == 2) value = 1;  // <-- chain written
  if (correct) {
    if (lane == 1 || lane == 2) __syncwarp(0b110);
    if (lane == 0 || lane == 1) __syncwarp(0b011);
  } else {
    if (lane == 0 || lane == 1) __syncwarp(0b011);
    if (lane == 1 || lane == 2) __syncwarp(0b110);
  }
  if (lane == 0) y[0] = value;  // <-- chain read
}

__global__ void warps_apart(const float* x, float* y, bool correct) {
  __shared__ float of_warp[3];
  const int t = threadIdx.x;
  if (t % 32 == 0) of_warp[t / 32] = x[t];  // <-- apart written
  correct ? __syncthreads() : __syncwarp();
  if (t == 95) y[0] = of_warp[0] + of_warp[1] + of_warp[2];  // <-- apart read
}

__global__ void bytes_of_a_word(const float*, float* y, bool correct) {
  __shared__ unsigned char flags[64];
  const int t = threadIdx.x;
  flags[correct ? t : t / 2] = static_cast<unsigned char>(t);  // <-- bytes
  flags[correct ? t : 63 - t / 2] = static_cast<unsigned char>(t);
  __syncthreads();
  y[t] = flags[correct ? t : 0];
}

__global__ void halves_of_a_word(const float*, float* y, bool correct) {
  __shared__ short halves[66];
  const int t = threadIdx.x;
  halves[t] = static_cast<short>(t);        // <-- halves written
  if (!correct && t == 65) halves[64] = 0;  // <-- halves overwritten
  __syncthreads();
  y[t] = halves[t];
}

/// Bytes are written one by one, and the word that they make is read.
__global__ void word_of_bytes(const float*, float* y, bool correct) {
  __shared__ alignas(4) unsigned char bytes[33];
  const int t = threadIdx.x;
  bytes[t] = static_cast<unsigned char>(t);  // <-- word written
  if (correct) __syncthreads();
  if (t == 32) y[0] = *reinterpret_cast<const int*>(bytes + 28);  // <-- word read
}

__global__ void add_before_zero(const float* x, float* y, bool correct) {
  __shared__ float sum;
  if (threadIdx.x == 0) sum = 0;  // <-- zero written
  if (correct) __syncthreads();
  atomicAdd(&sum, x[threadIdx.x]);  // <-- zero added
  __syncthreads();
  y[threadIdx.x] = sum;
}

__global__ void read_before_all_added(const float*, float* y, bool correct) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);  // <-- count added
  if (correct) __syncthreads();
  y[threadIdx.x] = static_cast<float>(count);  // <-- count read
}

__global__ void plain_among_atomics(const float*, float* y, bool correct) {
  __shared__ unsigned most[2];
  const unsigned t = threadIdx.y * blockDim.x + threadIdx.x;
  if (t < 2) most[t] = 0;
  __syncthreads();
  if (correct || t != 50) {
    atomicMax(&most[t % 2], t);  // <-- most atomic
  } else {
    most[0] = max(most[0], t);  // <-- most plain
  }
  __syncthreads();
  y[t] = static_cast<float>(most[0] + most[1]);
}

/// A thread may do to its own element what it wants.
__global__ void own_element(const float* x, float* y, bool correct) {
  __shared__ float own[33];
  float& mine = own[correct ? threadIdx.x : threadIdx.x / 33 + 3];
  mine = x[threadIdx.x];  // <-- own
  for (int i = 0; i < 3; ++i) mine = mine * 2 + x[i];
  atomicAdd(&mine, 1.f);
  y[threadIdx.x] = mine;
}

__global__ void vector_over_floats(const float* x, float* y, bool correct) {
  extern __shared__ float row[];
  const int t = threadIdx.x;
  if (t < 16) reinterpret_cast<float4*>(row)[t] = make_float4(x[t], 0, 0, 1);  // <-- vector written
  if (correct) __syncthreads();
  y[t] = row[t];  // <-- vector read
}

struct Pair {
  float sum;
  int count;
};

__global__ void pairs(const float* x, float* y, bool correct) {
  __shared__ Pair of_thread[40];
  const int t = threadIdx.x;
  of_thread[t] = Pair{x[t], t};  // <-- pair written
  if (correct) __syncthreads();
  const Pair other = of_thread[t / 2];  // <-- pair read
  y[t] = other.sum + static_cast<float>(other.count);
}

struct Triple {
  float a[3];
};

__global__ void triples(const float* x, float* y, bool correct) {
  __shared__ Triple of_thread[40];
  __shared__ Triple copies[40];
  const int t = threadIdx.x;
  for (int i = 0; i < 3; ++i) of_thread[t].a[i] = x[i];  // <-- triple written
  if (correct) __syncthreads();
  copies[t] = of_thread[t / 2];  // <-- triple read
  y[t] = copies[t].a[1];
}

/// Only the last block of a 2-D grid goes wrong.
__global__ void last_block(const float*, float* y, bool correct) {
  __shared__ int turn[2];
  const bool is_last = blockIdx.x == 2 && blockIdx.y == 1;
  const int t = threadIdx.x;
  if (t < 2) turn[correct || !is_last ? t : 0] = t;  // <-- last block
  __syncthreads();
  if (t == 0) y[blockIdx.x] = static_cast<float>(turn[0]);
}

template <class Scalar>
__device__ Scalar block_sum(Scalar value, Scalar* of_warp, bool correct) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(kAll, value, offset);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;  // <-- sum written
  __syncthreads();
  Scalar sum = 0;
  for (int i = 0; i < 4; ++i) sum += of_warp[i];  // <-- sum read
  if (correct) __syncthreads();
  return sum;
}

/// The second sum reuses the scratch of the first.
template <class Scalar>
__global__ void two_sums(const float* x, float* y, bool correct) {
  __shared__ Scalar scratch[4];
  const Scalar mean = block_sum<Scalar>(x[threadIdx.x], scratch, correct) / 128;
  const Scalar centred = x[threadIdx.x] - mean;
  y[threadIdx.x] = static_cast<float>(block_sum<Scalar>(centred * centred, scratch, correct));
}

}  // namespace

std::vector<Case> race_cases() {
  return {
      {"all threads write one variable", on(all_write_one, {1, 40})},
      {"a thread reads its right neighbour's element too early", on(read_neighbour, {2, 96})},
      {"a thread reads its left neighbour's element", on(read_back, {1, 33, 33 * sizeof(float)})},
      {"the second round reuses scratch", on(reverse_rows<64>, {1, 64})},
      {"a tree in a 2-D block lacks the barrier of its rounds", on(tree_2d, {1, dim3(8, 8)})},
      {"a shuffle is taken for a barrier", on(shuffle_between, {1, 32})},
      {"a vote is taken for a barrier", on(vote_between, {1, 32})},
      {"quarter warps read too far", on(quarter_warps, {1, 64})},
      {"two __syncwarp in the wrong order", on(chain, {1, 3})},
      {"warps wait for themselves and read from each other", on(warps_apart, {1, 96})},
      {"two threads write the same byte", on(bytes_of_a_word, {1, 64})},
      {"a thread writes a neighbour's half word", on(halves_of_a_word, {1, 66})},
      {"a word of four threads' bytes is read too early", on(word_of_bytes, {1, 33})},
      {"atomics begin before the zero is there", on(add_before_zero, {1, 50})},
      {"the sum of atomics is read too early", on(read_before_all_added, {3, 64})},
      {"one thread forgets to be atomic", on(plain_among_atomics, {1, dim3(20, 3)})},
      {"everybody's own element is the same", on(own_element, {1, 33})},
      {"a vector is written over others' elements", on(vector_over_floats, {1, 64, 256})},
      {"structs of 8 bytes", on(pairs, {1, 40})},
      {"structs of 12 bytes", on(triples, {1, 40})},
      {"only one block of many", on(last_block, {dim3(3, 2), 32})},
      {"a device function's scratch is used twice", on(two_sums<float>, {1, 128})},
  };
}

}  // namespace tests
