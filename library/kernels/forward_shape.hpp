#pragma once
/// \file
/// How threads share an aligned row of the forward pass: which shapes there are, and the formula's.

#include <algorithm>
#include <bit>

namespace rmsnorm::kernels {

/// What kind of rows a kernel is for. The first three are for whole vectors of 16 bytes at 16-byte
/// addresses; for those at other ones, one kernel adds in the order of any of the three.
enum class Kind {
  aligned,    ///< held by the registers of a block
  cluster,    ///< held by the shared memory of up to 8 blocks of a cluster
  long_rows,  ///< longer than those, or than a block's registers hold
  unaligned,  ///< of any other length, at any address
  mixed,      ///< of any length, at any address, beside a weight of 16 bits that are not x's type
};

/// A row's squares are added in an order that follows from its length and its shape alone.
struct ForwardShape {
  Kind kind;    ///< which kernel
  int threads;  ///< of a row, in each block: 4 to 32 lanes of a warp, or whole warps
  int vectors;  ///< of a row that each of them has, 16 bytes each; of long rows, in registers
  int cluster;  ///< blocks that share a row; 1 unless kind is Kind::cluster

  bool operator==(const ForwardShape&) const = default;  ///< whether all are the same
};

/// The threads of a block of several rows, and the fewest of any block. Its wait and its trigger
/// take each block some time: smaller blocks are more of them.
constexpr int kShortRows = 128;

/// The most threads of a block, where a row has kRowThreads or, if that is 0, a block.
template <int kRowThreads>
constexpr int kMaxThreads = kRowThreads > 0 ? std::max(kShortRows, kRowThreads) : 512;

constexpr int kMaxLongThreads = 1024;    ///< of a block for a row that it does not hold
constexpr int kMaxClusterThreads = 512;  ///< of a block that shares a row with others
constexpr int kMaxCluster = 8;           ///< such blocks that every GPU with clusters can hold

/// The warps' threads that it takes to have `vectors`, so many each.
constexpr int threads_for(int vectors, int of_thread) {
  return ((vectors - 1) / of_thread / 32 + 1) * 32;
}

/// Vectors of each block of a cluster but the last, of a row of `vectors`: no two blocks share a
/// line of 128 bytes.
constexpr int part_of(int vectors, int cluster) {
  constexpr int kLine = 8;  // vectors
  return ((vectors - 1) / (cluster * kLine) + 1) * kLine;
}

/// The shape of a cluster of so many blocks, with as few threads as can have the row.
constexpr ForwardShape cluster_shape(int vectors, int of_thread, int cluster) {
  return {Kind::cluster, threads_for(part_of(vectors, cluster), of_thread), of_thread, cluster};
}

/// The shape with as few blocks as hold the row, if each thread has so many vectors. Longer rows
/// have larger blocks.
constexpr ForwardShape cluster_for(int vectors, int of_thread) {
  const int of_block = of_thread * (vectors <= 4096 ? 256 : kMaxClusterThreads);
  return cluster_shape(vectors, of_thread, (vectors - 1) / of_block + 1);
}

/// Is there a kernel of this shape, and is it right for aligned rows of so many vectors?
constexpr bool is_for(const ForwardShape& shape, int vectors) {
  const auto [kind, threads, of_thread, cluster] = shape;
  if (kind == Kind::aligned) {
    const bool is_short =
        threads == 4 || threads == 8 || threads == 16 || threads == 32 || threads == kShortRows / 2;
    const bool is_block = threads > kShortRows / 2 && threads <= kMaxThreads<0> &&
                          threads % 32 == 0 && of_thread >= 2 && of_thread <= 4;
    const bool is_warp = threads == 32 && of_thread == 3;
    const bool exists = (is_short && of_thread == 2) || is_warp || is_block;
    return exists && cluster == 1 && vectors <= threads * of_thread;
  }
  if (kind == Kind::unaligned || kind == Kind::mixed) return false;
  if (threads < kShortRows || threads % 32 != 0) return false;
  if (kind == Kind::long_rows) {  // all vectors in registers exist
    return threads <= kMaxLongThreads && of_thread == 4 && cluster == 1 &&
           vectors >= threads * of_thread;
  }
  if (threads > kMaxClusterThreads || cluster < 2 || cluster > kMaxCluster) return false;
  const int part = part_of(vectors, cluster);
  const int last = vectors - (cluster - 1) * part;  // all but a thread's last vector exist
  return (of_thread == 4 || of_thread == 8) && part <= threads * of_thread &&
         last >= threads * (of_thread - 1);
}

/// The lanes of a warp that share a short row, two vectors for each: 4, 8, 16 or 32.
constexpr int lanes_for(int vectors) {
  const auto lanes = std::bit_ceil((static_cast<unsigned>(vectors) + 1) / 2);
  return std::clamp(static_cast<int>(lanes), 4, 32);
}

/// The shape for aligned rows of so many vectors, on a GPU that has clusters or not. The numbers
/// were found by measurement. More blocks of a row end it sooner; smaller ones fill an SM better.
constexpr ForwardShape shape_by_formula(int vectors, bool has_clusters) {
  if (vectors <= 64) return {Kind::aligned, lanes_for(vectors), 2, 1};
  if (vectors <= 96) return {Kind::aligned, 32, 3, 1};
  if (vectors <= 128) return {Kind::aligned, 64, 2, 1};
  if (vectors <= 2048) {
    const int of_thread = vectors <= 512 ? 2 : vectors <= 1024 ? 4 : vectors <= 1536 ? 3 : 4;
    return {Kind::aligned, std::max(kShortRows, threads_for(vectors, of_thread)), of_thread, 1};
  }
  constexpr int kMaxVectors = 8;  // of a thread
  if (has_clusters && vectors <= kMaxCluster * kMaxClusterThreads * kMaxVectors)
    return cluster_for(vectors, vectors <= 8192 ? 4 : kMaxVectors);
  return {Kind::long_rows, vectors <= 4096 ? 512 : kMaxLongThreads, 4, 1};
}

}  // namespace rmsnorm::kernels
