#pragma once
/// \file
/// The contract between a lesson and the harness: the only header of this project that a lesson
/// includes. A lesson fills in one `Lesson` for each of its kernels and registers it.

#include <cuda_runtime.h>

#include <string>
#include <type_traits>

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

/// What the elements of a tensor are.
enum class Dtype {
  fp32,  ///< float
  fp16,  ///< __half
  bf16,  ///< __nv_bfloat16
};

/// Bytes of an element.
__host__ __device__ constexpr int bytes_of(Dtype dtype) {
  return dtype == Dtype::fp32 ? 4 : 2;
}

/// One RMSNorm to do, with tensors of any type; arithmetic is fp32's:
///
///     sum[row][col] = x[row][col] + residual[row][col], if there is a residual, otherwise x
///     y[row][col] = sum[row][col] / sqrt(eps + mean over col of sum[row][col]^2)
///                   * (weight[col] + weight_bias)
///
/// Each sum takes the place of its residual. What is stored is rounded once: y and the residual,
/// but not the sums that are normed. The tensors are contiguous and row-major; y overlaps none of
/// the others. Their addresses are multiples of their elements' size, and need not be of more.
struct TypedProblem {
  TypedProblem() = default;
  /// An fp32 problem, as a kernel for all types has it.
  TypedProblem(const Problem& p)
      : x(p.x), weight(p.weight), y(p.y), rows(p.rows), hidden(p.hidden), eps(p.eps) {}

  const void* x = nullptr;           ///< (rows, hidden)  input, of type dtype
  const void* weight = nullptr;      ///< (hidden)        of type weight_dtype; null: all are 1
  void* y = nullptr;                 ///< (rows, hidden)  output, of type dtype
  void* residual = nullptr;          ///< (rows, hidden)  of type dtype, or null; see Lesson
  int rows = 0;                      ///< 0 or more; rows * hidden may exceed 2^31
  int hidden = 1;                    ///< 1 to 2^30
  float eps = 0;                     ///< as a Problem's
  float weight_bias = 0;             ///< 1 in models that store the weight less 1; 0 without weight
  Dtype dtype = Dtype::fp32;         ///< of x, y and the residual
  Dtype weight_dtype = Dtype::fp32;  ///< fp32, or that of x
};

/// The same as a problem of fp32 tensors, which they have to be.
inline Problem fp32_of(const TypedProblem& p) {
  return {
      static_cast<const float*>(p.x),
      static_cast<const float*>(p.weight),
      static_cast<float*>(p.y),
      p.rows,
      p.hidden,
      p.eps};
}

/// The backward pass of one RMSNorm. dy says how a loss changes with each element of y; the results
/// say how it changes with each element of x, dx, and of the weight, dweight. All is in fp32; with
/// n = x * rstd and g = dy * (weight + weight_bias):
///
///     dx[row][col] = rstd[row] * (g[row][col] - n[row][col] * mean over col of (g * n)[row][col])
///     dweight[col] = sum over row of dy[row][col] * n[row][col]
///
/// The tensors are contiguous and row-major; what is written overlaps nothing else. Addresses are
/// multiples of their elements' size, that of the workspace of 256 bytes.
struct BackwardProblem {
  const void* x = nullptr;       ///< (rows, hidden)  input of the forward pass, of type dtype
  const void* weight = nullptr;  ///< (hidden)        of type weight_dtype; null: all are 1
  const float* rstd = nullptr;   ///< (rows)          1 / sqrt(eps + mean over col of x^2)
  const void* dy = nullptr;      ///< (rows, hidden)  of type dtype
  void* dx = nullptr;            ///< (rows, hidden)  output, of type dtype
  void* dweight = nullptr;       ///< (hidden)        output, of type weight_dtype; null: unwanted
  void* workspace = nullptr;     ///< memory for what is neither input nor output; see Backward
  int rows = 0;                  ///< 0 or more; rows * hidden may exceed 2^31
  int hidden = 1;                ///< 1 to 2^30
  float weight_bias = 0;         ///< as a TypedProblem's
  Dtype dtype = Dtype::fp32;     ///< of x, dy and dx
  Dtype weight_dtype = Dtype::fp32;  ///< fp32, or that of x
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

/// A function of a lesson: of the fp32 problems that most lessons know, or of those of any type.
/// \tparam Fp32 what it takes of an fp32 problem: the Problem, or its columns alone
template <class Result, class Fp32, class... More>
class LessonFunction {
 public:
  using OfFp32 = Result (*)(Fp32, More...);                       ///< a function of the first kind
  using OfAnyType = Result (*)(const TypedProblem&, More...);     ///< one of the second kind
  LessonFunction() = default;                                     ///< there is no function
  LessonFunction(OfFp32 function) : of_fp32_(function) {}         ///< takes fp32 problems
  LessonFunction(OfAnyType function) : of_any_type_(function) {}  ///< takes all problems

  bool is_typed() const { return of_any_type_ != nullptr; }  ///< whether it takes all problems

  /// Calls the function. One of fp32 problems takes the problem for such a one.
  Result operator()(const TypedProblem& p, More... more) const {
    if (is_typed()) return of_any_type_(p, more...);
    if constexpr (std::is_same_v<Fp32, int>) {
      return of_fp32_(p.hidden, more...);
    } else {
      return of_fp32_(fp32_of(p), more...);
    }
  }
  /// Calls the function for an fp32 problem. Of its columns alone, the tensors are made up.
  Result operator()(Fp32 fp32, More... more) const {
    if (!is_typed()) return of_fp32_(fp32, more...);
    if constexpr (std::is_same_v<Fp32, int>) {
      alignas(16) static constexpr float kWeight = 1;
      TypedProblem p;
      p.weight = &kWeight;
      p.hidden = fp32;
      return of_any_type_(p, more...);
    } else {
      return of_any_type_(fp32, more...);
    }
  }

 private:
  OfFp32 of_fp32_ = nullptr;
  OfAnyType of_any_type_ = nullptr;
};

/// The functions of a lesson about the backward pass, in the place of those of the same name in
/// Lesson. It gives the same bits whenever it runs on the same inputs.
struct Backward {
  /// Enqueues the backward pass, as Lesson::launch the forward pass.
  cudaError_t (*launch)(const BackwardProblem&, cudaStream_t) = nullptr;
  /// Bytes of the workspace. The problem's own is null.
  std::size_t (*workspace_bytes)(const BackwardProblem&) = nullptr;
  /// As Lesson::refuses.
  std::string (*refuses)(const BackwardProblem&) = nullptr;
  /// As Lesson::traffic, with all tensors, shared out to the rows.
  Traffic (*traffic)(const BackwardProblem&) = nullptr;
  /// The most additions that one product goes through on its way into the mean of a row.
  int (*row_depth)(const BackwardProblem&) = nullptr;
  /// Likewise, into an element of dweight.
  int (*column_depth)(const BackwardProblem&) = nullptr;
};

/// One kernel of the tutorial, and what it promises. Its functions are all of fp32 problems, or all
/// of typed ones, or all of backward passes.
struct Lesson {
  const char*
      slug;  ///< the folder, the CMake target, the chart label; a second kernel adds "/name"
  const char* title;   ///< as the heading of the lesson's page has it
  const char* idea;    ///< one sentence, no full stop
  const char* regime;  ///< the regime in which the idea shows; "" if it is about no speed
  Memory memory = Memory::device;  ///< where it wants its tensors
  bool residual = false;           ///< whether its problems are those with a residual

  /// Enqueues y = RMSNorm(x) on the stream (the null stream is CUDA's default stream) and returns
  /// what the CUDA calls returned. The problem is one that the lesson does not refuse.
  LessonFunction<cudaError_t, const Problem&, cudaStream_t> launch = {};

  /// Why the lesson cannot do this problem: one sentence with the hardware's reason, or "".
  LessonFunction<std::string, const Problem&> refuses =
      +[](const TypedProblem&) { return std::string(); };

  /// What one row of so many columns costs, when its first column lies on a sector's boundary.
  LessonFunction<Traffic, int> traffic = {};

  /// The most additions that one square goes through on its way into the row's sum.
  /// It decides how far rounding can move the result (see verifier.hpp).
  LessonFunction<int, int> sum_depth = {};

  /// What takes the place of the four, if the lesson is about the backward pass.
  Backward backward = {};

  bool is_backward() const { return backward.launch != nullptr; }       ///< whether it is
  bool is_typed() const { return is_backward() || launch.is_typed(); }  ///< knows more than fp32
};

/// Adds a lesson to the registry when the program starts.
struct Registration {
  explicit Registration(const Lesson& lesson);  ///< takes a copy
};

}  // namespace rmsnorm
