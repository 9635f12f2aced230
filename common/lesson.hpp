#pragma once
/// \file
/// The contract between a lesson and the harness: the only header of this project that a lesson
/// includes. A lesson fills in one `Lesson` for each of its kernels and registers it.

#include <cuda_runtime.h>

#include <string>

namespace rmsnorm {

/// One RMSNorm to do:
///
///     y[row][col] = x[row][col] / sqrt(eps + mean over col of x[row][col]^2) * weight[col]
///
/// The tensors are fp32, contiguous and row-major; y overlaps neither x nor weight. Their addresses
/// are multiples of 4 bytes, and need not be multiples of more.
struct Problem {
  const float* x;       ///< (rows, hidden)  input
  const float* weight;  ///< (hidden)        one factor a column
  float* y;             ///< (rows, hidden)  output
  int rows;             ///< 0 or more; rows * hidden may exceed 2^31
  int hidden;           ///< 1 to 2^30
  float eps;            ///< 0 or more; added to the mean, inside the square root. With 0, the
                        ///< squares of a row must not be so small that fp32 loses them.
};

/// Where a lesson wants the tensors of its problem.
enum class Memory {
  host,    ///< the CPU's
  device,  ///< the GPU's, or the CPU device's
};

/// The bytes of one row (and its share of the weight) that a kernel asks of global memory, in
/// 32-byte sectors, where rows fill whole sectors. Caches may answer a part of them.
struct Traffic {
  double read;     ///< bytes of x and weight
  double written;  ///< bytes of y
};

/// One kernel of the tutorial, and what it promises.
struct Lesson {
  const char*
      slug;  ///< the folder, the CMake target, the chart label; a second kernel adds "/name"
  const char* title;   ///< as the heading of the lesson's page has it
  const char* idea;    ///< one sentence, no full stop
  const char* regime;  ///< the regime in which the idea shows; "" if it is about no speed
  Memory memory = Memory::device;  ///< where it wants its tensors

  /// Enqueues y = RMSNorm(x) on the stream (the null stream is CUDA's default stream) and returns
  /// what the CUDA calls returned. The problem is one that the lesson does not refuse.
  cudaError_t (*launch)(const Problem& problem, cudaStream_t stream);

  /// Why the lesson cannot do this problem: one sentence with the hardware's reason, or "".
  std::string (*refuses)(const Problem& problem) = [](const Problem&) { return std::string(); };

  /// What one row of `hidden` columns costs, when its first column lies on a sector's boundary.
  Traffic (*traffic)(int hidden);

  /// The most additions that one square goes through on its way into the row's sum.
  /// It decides how far rounding can move the result (see verifier.hpp).
  int (*sum_depth)(int hidden);
};

/// Adds a lesson to the registry when the program starts.
struct Registration {
  explicit Registration(const Lesson& lesson);  ///< takes a copy
};

}  // namespace rmsnorm
