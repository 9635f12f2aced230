/// \file
/// Two threads touch the same shared memory, and no barrier is between them.

#include "tests/hazards/cases.hpp"

namespace tests {
namespace {

constexpr unsigned kAll = 0xffffffff;

template <bool kCorrect>
__global__ void all_write_one(float* y) {
  __shared__ float last;
  if (!kCorrect || threadIdx.x == 0) last = threadIdx.x;  // <-- write one
  __syncthreads();
  y[threadIdx.x] = last;
}

template <bool kCorrect>
__global__ void read_neighbour(const float* x, float* y) {
  __shared__ float staged[96];
  const int t = threadIdx.x;
  staged[t] = x[t];  // <-- neighbour written
  if (kCorrect) __syncthreads();
  y[t] = staged[(t + 1) % 96];  // <-- neighbour read
}

/// The same the other way round: the reader comes later.
template <bool kCorrect>
__global__ void read_back(const float* x, float* y) {
  extern __shared__ float row[];
  const int t = threadIdx.x;
  row[t] = x[t];  // <-- back written
  if (kCorrect) __syncthreads();
  if (t > 0) y[t] = row[t - 1];  // <-- back read
}

template <bool kCorrect>
__global__ void overwrite_before_read(const float* x, float* y) {
  __shared__ float staged[64];
  const int t = threadIdx.x;
  staged[t] = x[t];
  __syncthreads();
  const float other = staged[t ^ 1];  // <-- overwrite read
  if (kCorrect) __syncthreads();
  staged[t] = other;  // <-- overwrite written
  __syncthreads();
  y[t] = staged[t];
}

/// Every row is right by itself; only a second one overwrites what others still read.
template <bool kCorrect, int kThreads>
__global__ void reverse_rows(const float* x, float* y, int rows) {
  __shared__ float scratch[kThreads];
  const int t = threadIdx.x;
  for (int row = 0; row < rows; ++row) {
    scratch[t] = x[row * kThreads + t];  // <-- rows written
    __syncthreads();
    y[row * kThreads + t] = scratch[kThreads - 1 - t];  // <-- rows read
    if (kCorrect) __syncthreads();
  }
}

__device__ float& slot(float* of_thread, int t) {
  return of_thread[t];
}

template <bool kCorrect>
__global__ void tree_2d(const float* x, float* y) {
  __shared__ float partial[64];
  const int t = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  slot(partial, t) = x[t];
  __syncthreads();
  for (int stride = 32; stride > 0; stride /= 2) {
    if (t < stride) partial[t] += slot(partial, t + stride);  // <-- tree
    if (kCorrect) __syncthreads();
  }
  __syncthreads();
  y[t] = partial[0];
}

/// A shuffle brings the lanes together, but orders no memory.
template <bool kCorrect>
__global__ void shuffle_between(const float* x, float* y) {
  __shared__ float staged[32];
  const int lane = threadIdx.x;
  staged[lane] = x[lane];  // <-- shuffle written
  const float sum = __shfl_xor_sync(kAll, x[lane], 1);
  if (kCorrect) __syncwarp();
  y[lane] = sum + staged[lane ^ 1];  // <-- shuffle read
}

template <bool kCorrect>
__global__ void vote_between(const float* x, float* y) {
  __shared__ int found;
  if (threadIdx.x == 7) found = 1;  // <-- vote written
  const unsigned votes = __ballot_sync(kAll, x[threadIdx.x] > 0);
  if (kCorrect) __syncwarp();
  if (threadIdx.x == 20) y[0] = static_cast<float>(votes) + found;  // <-- vote read
}

/// Each half of the warp waits for itself, and reads from the other.
template <bool kCorrect>
__global__ void half_warps(const float* x, float* y) {
  __shared__ float staged[32];
  const int lane = threadIdx.x;
  const unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  staged[lane] = x[lane];  // <-- half written
  __syncwarp(kCorrect ? kAll : half);
  y[lane] = staged[(lane + 16) % 32];  // <-- half read
}

/// The masks are the same; who reads from whom is not.
template <bool kCorrect>
__global__ void quarter_warps(const float* x, float* y) {
  __shared__ float staged[64];
  const int t = threadIdx.x;
  const unsigned quarter = 0xffu << (t % 32 / 8 * 8);
  staged[t] = x[t];  // <-- quarter written
  __syncwarp(quarter);
  y[t] = staged[t ^ (kCorrect ? 4 : 12)];  // <-- quarter read
}

/// Lane 0 waits for lane 1, and lane 1 for lane 2: so 0 is behind 2, if they wait in this order.
template <bool kCorrect>
__global__ void chain(float* y) {
  __shared__ float value;
  const int lane = threadIdx.x;
  if (lane == 2) value = 1;  // <-- chain written
  if (kCorrect) {
    if (lane == 1 || lane == 2) __syncwarp(0b110);
    if (lane == 0 || lane == 1) __syncwarp(0b011);
  } else {
    if (lane == 0 || lane == 1) __syncwarp(0b011);
    if (lane == 1 || lane == 2) __syncwarp(0b110);
  }
  if (lane == 0) y[0] = value;  // <-- chain read
}

template <bool kCorrect>
__global__ void warps_apart(const float* x, float* y) {
  __shared__ float of_warp[3];
  const int t = threadIdx.x;
  if (t % 32 == 0) of_warp[t / 32] = x[t];  // <-- apart written
  kCorrect ? __syncthreads() : __syncwarp();
  if (t == 95) y[0] = of_warp[0] + of_warp[1] + of_warp[2];  // <-- apart read
}

template <bool kCorrect>
__global__ void bytes_of_a_word(float* y) {
  __shared__ unsigned char flags[64];
  const int t = threadIdx.x;
  flags[kCorrect ? t : t / 2] = 1;  // <-- bytes
  flags[kCorrect ? t : 63 - t / 2] = 1;
  __syncthreads();
  y[t] = flags[kCorrect ? t : 0];
}

template <bool kCorrect>
__global__ void halves_of_a_word(float* y) {
  __shared__ short halves[66];
  const int t = threadIdx.x;
  halves[t] = static_cast<short>(t);         // <-- halves written
  if (!kCorrect && t == 65) halves[64] = 0;  // <-- halves overwritten
  __syncthreads();
  y[t] = halves[t];
}

/// Bytes are written one by one, and the word that they make is read.
template <bool kCorrect>
__global__ void word_of_bytes(float* y) {
  __shared__ alignas(4) unsigned char bytes[33];
  const int t = threadIdx.x;
  bytes[t] = static_cast<unsigned char>(t);  // <-- word written
  if (kCorrect) __syncthreads();
  if (t == 32) y[0] = *reinterpret_cast<const int*>(bytes + 28);  // <-- word read
}

template <bool kCorrect>
__global__ void add_before_zero(const float* x, float* y) {
  __shared__ float sum;
  if (threadIdx.x == 0) sum = 0;  // <-- zero written
  if (kCorrect) __syncthreads();
  atomicAdd(&sum, x[threadIdx.x]);  // <-- zero added
  __syncthreads();
  y[threadIdx.x] = sum;
}

template <bool kCorrect>
__global__ void read_before_all_added(float* y) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);  // <-- count added
  if (kCorrect) __syncthreads();
  y[threadIdx.x] = static_cast<float>(count);  // <-- count read
}

template <bool kCorrect>
__global__ void plain_among_atomics(float* y) {
  __shared__ unsigned most[2];
  const unsigned t = threadIdx.y * blockDim.x + threadIdx.x;
  if (t < 2) most[t] = 0;
  __syncthreads();
  if (kCorrect || t != 50) {
    atomicMax(&most[t % 2], t);  // <-- most atomic
  } else {
    most[0] = max(most[0], t);  // <-- most plain
  }
  __syncthreads();
  y[t] = static_cast<float>(most[0] + most[1]);
}

/// A thread may do to its own element what it wants.
template <bool kCorrect>
__global__ void own_element(const float* x, float* y) {
  __shared__ float own[33];
  float& mine = own[kCorrect ? threadIdx.x : threadIdx.x / 33 + 3];
  mine = x[threadIdx.x];  // <-- own
  for (int i = 0; i < 3; ++i) mine = mine * 2 + x[i];
  atomicAdd(&mine, 1.f);
  y[threadIdx.x] = mine;
}

template <bool kCorrect>
__global__ void vector_over_floats(const float* x, float* y) {
  extern __shared__ float row[];
  const int t = threadIdx.x;
  if (t < 16) reinterpret_cast<float4*>(row)[t] = make_float4(x[t], 0, 0, 1);  // <-- vector written
  if (kCorrect) __syncthreads();
  y[t] = row[t];  // <-- vector read
}

struct Pair {
  float sum;
  int count;
};

template <bool kCorrect>
__global__ void pairs(const float* x, float* y) {
  __shared__ Pair of_thread[40];
  const int t = threadIdx.x;
  of_thread[t] = Pair{x[t], t};  // <-- pair written
  if (kCorrect) __syncthreads();
  const Pair other = of_thread[t / 2];  // <-- pair read
  y[t] = other.sum + static_cast<float>(other.count);
}

struct Triple {
  float a[3];
};

template <bool kCorrect>
__global__ void triples(const float* x, float* y) {
  __shared__ Triple of_thread[40];
  __shared__ Triple copies[40];
  const int t = threadIdx.x;
  for (int i = 0; i < 3; ++i) of_thread[t].a[i] = x[i];  // <-- triple written
  if (kCorrect) __syncthreads();
  copies[t] = of_thread[t / 2];  // <-- triple read
  y[t] = copies[t].a[1];
}

/// Only the last block of a 2-D grid goes wrong.
template <bool kCorrect>
__global__ void last_block(float* y) {
  __shared__ int turn[2];
  const bool is_last = blockIdx.x == 2 && blockIdx.y == 1;
  const int t = threadIdx.x;
  if (t < 2) turn[kCorrect || !is_last ? t : 0] = t;  // <-- last block
  __syncthreads();
  if (t == 0) y[blockIdx.x] = static_cast<float>(turn[0]);
}

template <class Scalar, bool kCorrect>
__device__ Scalar block_sum(Scalar value, Scalar* of_warp) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(kAll, value, offset);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;  // <-- sum written
  __syncthreads();
  Scalar sum = 0;
  for (int i = 0; i < 4; ++i) sum += of_warp[i];  // <-- sum read
  if (kCorrect) __syncthreads();
  return sum;
}

/// The second sum reuses the scratch of the first.
template <class Scalar, bool kCorrect>
__global__ void two_sums(const float* x, float* y) {
  __shared__ Scalar scratch[4];
  const Scalar mean = block_sum<Scalar, kCorrect>(x[threadIdx.x], scratch) / 128;
  const Scalar centred = x[threadIdx.x] - mean;
  y[threadIdx.x] = static_cast<float>(block_sum<Scalar, kCorrect>(centred * centred, scratch));
}

}  // namespace

std::vector<Case> race_cases() {
  const auto across = [](std::string text) {
    return std::vector<std::string>{
        std::move(text), "and no barrier is between them", "Put __syncthreads() between the two"};
  };
  const auto in_warp = [](std::string text) {
    return std::vector<std::string>{
        std::move(text), "a race: ", "Put __syncthreads() between the two"};
  };
  const auto same_line = [](std::string text) {
    return std::vector<std::string>{std::move(text), "Let one of the threads write it"};
  };
  return {
      {.name = "all threads write one variable",
       .wrong = [](Memory m) { all_write_one<false><<<1, 40>>>(m.y); },
       .right = [](Memory m) { all_write_one<true><<<1, 40>>>(m.y); },
       .kernel = "all_write_one<false>",
       .at = "write one",
       .other = "write one",
       .block = "0",
       .thread = "1",
       .says = same_line("thread 1 writes last here, thread 0 writes it at")},
      {.name = "a thread reads its right neighbour's element too early",
       .wrong = [](Memory m) { read_neighbour<false><<<2, 96>>>(m.x, m.y); },
       .right = [](Memory m) { read_neighbour<true><<<2, 96>>>(m.x, m.y); },
       .kernel = "read_neighbour<false>",
       .at = "neighbour written",
       .other = "neighbour read",
       .block = "0",
       .thread = "1",
       .says = in_warp("thread 1 writes staged[1] here, thread 0 reads it at")},
      {.name = "a thread reads its left neighbour's element",
       .wrong = [](Memory m) { read_back<false><<<1, 33, 33 * sizeof(float)>>>(m.x, m.y); },
       .right = [](Memory m) { read_back<true><<<1, 33, 33 * sizeof(float)>>>(m.x, m.y); },
       .kernel = "read_back<false>",
       .at = "back read",
       .other = "back written",
       .block = "0",
       .thread = "1",
       .says = in_warp("thread 1 reads row[0] here, thread 0 writes it at")},
      {.name = "an element is overwritten before the neighbour has read it",
       .wrong = [](Memory m) { overwrite_before_read<false><<<1, 64>>>(m.x, m.y); },
       .right = [](Memory m) { overwrite_before_read<true><<<1, 64>>>(m.x, m.y); },
       .kernel = "overwrite_before_read<false>",
       .at = "overwrite read",
       .other = "overwrite written",
       .block = "0",
       .thread = "",
       .says = in_warp("staged[")},
      {.name = "the second round reuses scratch",
       .wrong = [](Memory m) { reverse_rows<false, 64><<<1, 64>>>(m.x, m.y, 3); },
       .right = [](Memory m) { reverse_rows<true, 64><<<1, 64>>>(m.x, m.y, 3); },
       .kernel = "reverse_rows<false, 64>",
       .at = "rows read",
       .other = "rows written",
       .block = "0",
       .thread = "",
       .says = {"scratch[", "reads", "writes it at"}},
      {.name = "a tree in a 2-D block lacks the barrier of its rounds",
       .wrong = [](Memory m) { tree_2d<false><<<1, dim3(8, 8)>>>(m.x, m.y); },
       .right = [](Memory m) { tree_2d<true><<<1, dim3(8, 8)>>>(m.x, m.y); },
       .kernel = "tree_2d<false>",
       .at = "tree",
       .other = "tree",
       .block = "0",
       .thread = "1",
       .says = {"a race: ", "partial["}},
      {.name = "a shuffle is taken for a barrier",
       .wrong = [](Memory m) { shuffle_between<false><<<1, 32>>>(m.x, m.y); },
       .right = [](Memory m) { shuffle_between<true><<<1, 32>>>(m.x, m.y); },
       .kernel = "shuffle_between<false>",
       .at = "shuffle read",
       .other = "shuffle written",
       .block = "0",
       .thread = "31",
       .says = in_warp("thread 31 reads staged[30] here, thread 30 writes it at")},
      {.name = "a vote is taken for a barrier",
       .wrong = [](Memory m) { vote_between<false><<<1, 32>>>(m.x, m.y); },
       .right = [](Memory m) { vote_between<true><<<1, 32>>>(m.x, m.y); },
       .kernel = "vote_between<false>",
       .at = "vote read",
       .other = "vote written",
       .block = "0",
       .thread = "20",
       .says = in_warp("thread 20 reads found here, thread 7 writes it at")},
      {.name = "half warps wait for themselves and read from each other",
       .wrong = [](Memory m) { half_warps<false><<<1, 32>>>(m.x, m.y); },
       .right = [](Memory m) { half_warps<true><<<1, 32>>>(m.x, m.y); },
       .kernel = "half_warps<false>",
       .at = "half written",
       .other = "half read",
       .block = "0",
       .thread = "",
       .says = in_warp("thread 31 writes staged[31] here, thread 15 reads it at")},
      {.name = "quarter warps read too far",
       .wrong = [](Memory m) { quarter_warps<false><<<1, 64>>>(m.x, m.y); },
       .right = [](Memory m) { quarter_warps<true><<<1, 64>>>(m.x, m.y); },
       .kernel = "quarter_warps<false>",
       .at = "quarter written",
       .other = "quarter read",
       .block = "0",
       .thread = "",
       .says = in_warp("staged[")},
      {.name = "two __syncwarp in the wrong order",
       .wrong = [](Memory m) { chain<false><<<1, 3>>>(m.y); },
       .right = [](Memory m) { chain<true><<<1, 3>>>(m.y); },
       .kernel = "chain<false>",
       .at = "chain read",
       .other = "chain written",
       .block = "0",
       .thread = "0",
       .says = in_warp("value")},
      {.name = "warps wait for themselves and read from each other",
       .wrong = [](Memory m) { warps_apart<false><<<1, 96>>>(m.x, m.y); },
       .right = [](Memory m) { warps_apart<true><<<1, 96>>>(m.x, m.y); },
       .kernel = "warps_apart<false>",
       .at = "apart read",
       .other = "apart written",
       .block = "0",
       .thread = "95",
       .says = across("thread 95 reads of_warp[0] here, thread 0 writes it at")},
      {.name = "two threads write the same byte",
       .wrong = [](Memory m) { bytes_of_a_word<false><<<1, 64>>>(m.y); },
       .right = [](Memory m) { bytes_of_a_word<true><<<1, 64>>>(m.y); },
       .kernel = "bytes_of_a_word<false>",
       .at = "bytes",
       .other = "bytes",
       .block = "0",
       .thread = "1",
       .says = same_line("thread 1 writes flags[0] here, thread 0 writes it at")},
      {.name = "a thread writes a neighbour's half word",
       .wrong = [](Memory m) { halves_of_a_word<false><<<1, 66>>>(m.y); },
       .right = [](Memory m) { halves_of_a_word<true><<<1, 66>>>(m.y); },
       .kernel = "halves_of_a_word<false>",
       .at = "halves overwritten",
       .other = "halves written",
       .block = "0",
       .thread = "65",
       .says = in_warp("thread 65 writes halves[64] here, thread 64 writes it at")},
      {.name = "a word of four threads' bytes is read too early",
       .wrong = [](Memory m) { word_of_bytes<false><<<1, 33>>>(m.y); },
       .right = [](Memory m) { word_of_bytes<true><<<1, 33>>>(m.y); },
       .kernel = "word_of_bytes<false>",
       .at = "word read",
       .other = "word written",
       .block = "0",
       .thread = "32",
       .says = across("thread 32 reads bytes[28] here, thread 28 writes it at")},
      {.name = "atomics begin before the zero is there",
       .wrong = [](Memory m) { add_before_zero<false><<<1, 50>>>(m.x, m.y); },
       .right = [](Memory m) { add_before_zero<true><<<1, 50>>>(m.x, m.y); },
       .kernel = "add_before_zero<false>",
       .at = "zero added",
       .other = "zero written",
       .block = "0",
       .thread = "1",
       .says = in_warp("thread 1 atomically changes sum here, thread 0 writes it at")},
      {.name = "the sum of atomics is read too early",
       .wrong = [](Memory m) { read_before_all_added<false><<<3, 64>>>(m.y); },
       .right = [](Memory m) { read_before_all_added<true><<<3, 64>>>(m.y); },
       .kernel = "read_before_all_added<false>",
       .at = "count added",
       .other = "count read",
       .block = "0",
       .thread = "0",
       .says = across("thread 0 atomically changes count here, thread 63 reads it at")},
      {.name = "one thread forgets to be atomic",
       .wrong = [](Memory m) { plain_among_atomics<false><<<1, dim3(20, 3)>>>(m.y); },
       .right = [](Memory m) { plain_among_atomics<true><<<1, dim3(20, 3)>>>(m.y); },
       .kernel = "plain_among_atomics<false>",
       .at = "most plain",
       .other = "most atomic",
       .block = "0",
       .thread = "(10, 2, 0)",
       .says = {"thread 50 reads most[0] here, thread ", " atomically changes it at"}},
      {.name = "everybody's own element is the same",
       .wrong = [](Memory m) { own_element<false><<<1, 33>>>(m.x, m.y); },
       .right = [](Memory m) { own_element<true><<<1, 33>>>(m.x, m.y); },
       .kernel = "own_element<false>",
       .at = "own",
       .other = "",
       .block = "0",
       .thread = "1",
       .says = in_warp("thread 1 writes own[3] here")},
      {.name = "a vector is written over others' elements",
       .wrong = [](Memory m) { vector_over_floats<false><<<1, 64, 256>>>(m.x, m.y); },
       .right = [](Memory m) { vector_over_floats<true><<<1, 64, 256>>>(m.x, m.y); },
       .kernel = "vector_over_floats<false>",
       .at = "vector read",
       .other = "vector written",
       .block = "0",
       .thread = "1",
       .says = in_warp("thread 1 reads row[1] here, thread 0 writes it at")},
      {.name = "structs of 8 bytes",
       .wrong = [](Memory m) { pairs<false><<<1, 40>>>(m.x, m.y); },
       .right = [](Memory m) { pairs<true><<<1, 40>>>(m.x, m.y); },
       .kernel = "pairs<false>",
       .at = "pair read",
       .other = "pair written",
       .block = "0",
       .thread = "1",
       .says = in_warp("thread 1 reads of_thread[0] here, thread 0 writes it at")},
      {.name = "structs of 12 bytes",
       .wrong = [](Memory m) { triples<false><<<1, 40>>>(m.x, m.y); },
       .right = [](Memory m) { triples<true><<<1, 40>>>(m.x, m.y); },
       .kernel = "triples<false>",
       .at = "triple read",
       .other = "triple written",
       .block = "0",
       .thread = "1",
       .says = in_warp("thread 1 reads of_thread[0] here, thread 0 writes it at")},
      {.name = "only one block of many",
       .wrong = [](Memory m) { last_block<false><<<dim3(3, 2), 32>>>(m.y); },
       .right = [](Memory m) { last_block<true><<<dim3(3, 2), 32>>>(m.y); },
       .kernel = "last_block<false>",
       .at = "last block",
       .other = "last block",
       .block = "(2, 1, 0)",
       .thread = "1",
       .says = same_line("thread 1 writes turn[0] here, thread 0 writes it at")},
      {.name = "a device function's scratch is used twice, in float",
       .wrong = [](Memory m) { two_sums<float, false><<<1, 128>>>(m.x, m.y); },
       .right = [](Memory m) { two_sums<float, true><<<1, 128>>>(m.x, m.y); },
       .kernel = "two_sums<float, false>",
       .at = "sum written",
       .other = "sum read",
       .block = "0",
       .thread = "",
       .says = {"a race: ", "scratch["}},
      {.name = "a device function's scratch is used twice, in double",
       .wrong = [](Memory m) { two_sums<double, false><<<1, 128>>>(m.x, m.y); },
       .right = [](Memory m) { two_sums<double, true><<<1, 128>>>(m.x, m.y); },
       .kernel = "two_sums<double, false>",
       .at = "sum written",
       .other = "sum read",
       .block = "0",
       .thread = "",
       .says = {"a race: ", "scratch["}},
  };
}

}  // namespace tests
