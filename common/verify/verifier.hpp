#pragma once
/// \file
/// Decides whether a lesson's result is right. Every element of y is compared with an fp64
/// reference, within a bound that rounding alone can explain.

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/observation.hpp"
#include "common/contract/lesson.hpp"
#include "common/contract/types.hpp"
#include "common/tensors/buffer.hpp"
#include "common/tensors/workload.hpp"
#include "common/verify/element_check.hpp"
#include "common/verify/launch.hpp"

namespace rmsnorm {

/// The largest relative error that fp32 arithmetic can give an element of y in a correct kernel,
/// before it is rounded to a shorter type.
///
/// Let u = 2^-24, half an ulp of 1: one rounded operation is off by at most u, relatively. All
/// terms of the sum are squares, so nothing cancels, and the errors just add up:
///
///     square a term                                        1 u
///     add it, together with others, sum_depth times       sum_depth u
///     hidden as a float, the division by it, + eps         3 u
///         the square root halves what came so far          (sum_depth + 4) / 2 u
///     rsqrtf, 2 ulp by the CUDA programming guide          4 u
///     x * rstd * weight                                    2 u
///     weight + weight_bias, if there is a bias             1 u
///
/// That is to first order. The root is bounded exactly, 1 / sqrt(1 - e) - 1 for an error e of the
/// mean, and one per cent is added for the products of the rest. It is infinite where the sum can
/// lose all its digits. The sum of x and a residual is no part of it: one rounding, which the
/// reference makes, too.
double relative_error_bound(int sum_depth, const Types& types = {});

/// The largest relative error of an element of y of any type: beyond that of the arithmetic, half
/// an ulp of 1 from the last rounding, 2^-11 in fp16 and 2^-8 in bf16. (Each element is held to the
/// two values between which its own rounding leaves it: see check_element.)
double largest_error(int sum_depth, const Types& types);

/// One element of y, or of the residual, that is not as expected.
struct Mismatch {
  std::int64_t row;         ///< from 0; -1 in a tensor without rows
  int col;                  ///< from 0
  float got;                ///< what the tensor holds
  double expected;          ///< by the fp64 reference
  double allowed;           ///< the largest absolute difference that would have been accepted
  bool unwritten;           ///< it still holds what was there before the launch
  const char* tensor = "";  ///< "" for y, otherwise whose element it is: "the residual's "
};

/// A mismatch in words.
std::string to_sentence(const Mismatch& mismatch);

/// With a bound above this, hardly anything would be wrong: tens of millions of additions in one
/// chain cannot be judged.
constexpr double kLargestBound = 0.1;

/// Larger problems are compared on the device.
constexpr std::int64_t kElementsForHost = std::int64_t{1} << 20;

/// What the verifier found.
struct Verification {
  std::optional<double> max_error = {};   ///< largest relative error; empty if nothing was compared
  double error_bound = 0;                 ///< largest_error of the lesson
  std::optional<Mismatch> mismatch = {};  ///< the first one, in the order of memory
  std::string complaint = {};             ///< one sentence; empty if all is well
  std::vector<std::string> hazards = {};  ///< the device's complaints, of which that is the first
  Observation observation = {};           ///< of the first launch, if it was watched

  bool ok() const { return complaint.empty(); }  ///< whether the result is right
};

/// Runs the lesson twice on set 0 of the workload and checks everything both times: the launch, the
/// errors that come later, each element of y, and all memory that must stay as it is.
///
/// A CUDA error that leaves the GPU usable is a complaint. One that does not (an illegal address,
/// say) is thrown: nothing can be run in this process afterwards.
/// With `Watch::yes`, and where the device can, the first launch is observed.
/// \throws CudaError
Verification verify(
    const Lesson& lesson, const Workload& workload, cudaStream_t stream = nullptr,
    Watch watch = Watch::no);

/// What the weight makes of each column, in fp64: it and its bias, or ones.
template <class AnyProblem>
std::vector<double> factors_of(const AnyProblem& p) {
  AnyProblem on_host = p;
  std::vector<float> weight;
  if (p.weight != nullptr) {
    weight = to_floats(p.weight, p.weight_dtype, p.hidden);
    on_host.weight = weight.data();
    on_host.weight_dtype = Dtype::fp32;
  }
  std::vector<double> factors;
  for (int col = 0; col < p.hidden; ++col) factors.push_back(factor_of(on_host, col));
  return factors;
}

/// Compares y with the reference, on the host or on the device, and the residual, if there is one,
/// with the sum of x and what it was before the launch. Both find the same; the device is for
/// problems that would take the host too long. `verify` picks one by the problem's size.
Verification compare_on_host(
    const TypedProblem& problem, int sum_depth, const void* residual_before = nullptr);
/// The same on the device. \throws CudaError
Verification compare_on_device(
    const TypedProblem& problem, int sum_depth, const void* residual_before = nullptr);

}  // namespace rmsnorm
