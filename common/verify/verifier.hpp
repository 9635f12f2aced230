#pragma once
/// \file
/// Decides whether an implementation's result is right. Every element of every tensor that it
/// writes is compared with an fp64 reference, within a bound that rounding alone can explain.

#include <optional>
#include <string>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/tensors/workload.hpp"

namespace rmsnorm {

/// Whether a launch is to be watched.
enum class Watch {
  no,   ///< it only runs
  yes,  ///< what it does is counted, where the device can
};

/// A mismatch in words.
std::string to_sentence(const Mismatch& mismatch);

/// Where additions raise the bound by more than this, hardly anything would be wrong: millions of
/// them in one chain cannot be judged.
constexpr double kMaxBound = 0.1;

/// What the verifier found.
struct Verification {
  std::optional<double> max_error = {};   ///< largest relative error; empty if nothing was compared
  double error_bound = 0;                 ///< what rounding can explain, in these numbers
  std::optional<Mismatch> mismatch = {};  ///< the first one, in the order of memory
  std::string complaint = {};             ///< one sentence; empty if all is well
  std::vector<std::string> hazards = {};  ///< the device's complaints, of which that is the first
  /// Loads that got an old value, as CUDA's memory model allows: why a result may be wrong.
  std::vector<std::string> old_loads = {};
  /// What is correct only because GPUs order more than that model promises.
  std::vector<std::string> notes = {};
  LaunchCounts counts = {};  ///< of the first launch, if it was watched
  bool is_second = false;    ///< whether the first launch was right

  bool ok() const { return complaint.empty(); }  ///< whether the result is right
};

/// The workspaces that the implementation asks for in this problem. \throws CudaError
GuardedTensor make_workspace(const Implementation& implementation, const Workload& workload);

/// The additions of any numbers, with errors all of one sign, that are off by as much as so many of
/// random numbers: min(n, 8 sqrt(n)).
///
/// Each of n additions is off by at most u = 2^-24 of what is added up: of S at most, the sum of
/// the numbers' sizes. Where the numbers are random, so are these errors, and the mean of each is
/// taken to be 0, whatever those before it were. Then, by the inequality of Azuma and Hoeffding,
/// all of them together are beyond t sqrt(n) u S with a probability of at most 2 exp(-t^2 / 2): for
/// t = 8, in one sum of 10^13. (Higham and Mary, A New Approach to Probabilistic Rounding Error
/// Analysis, 2019.) Of a tree, n is the number of levels: the sums of one level have sizes that add
/// up to S at most, and so the squares of their errors add up to (u S)^2 at most, as those of one
/// addition of S do. Where numbers are all alike, so are their errors, and n of them count as n.
///
/// It keeps a kernel from making room for the rounding to a shorter type by claiming a long chain.
SumDepth likely_depth(SumDepth claimed);

/// Runs the implementation twice on set 0 of the workload, in a workspace of its own, and checks
/// everything both times: the launch, the errors that come later, each element of the results, and
/// all memory that must stay as it is. Where the operation has to give the same bits, it has to
/// give them both times.
///
/// On a device it runs on the stream that is given, else on one that no other stream waits for.
/// For the second launch the tensors have moved, another launch comes in between, and the inputs
/// are not there before it is the stream's turn: an implementation may keep nothing, wait for
/// nothing, and put work nowhere else. If its threads wait for flags, a third launch gives them old
/// values where the device can (change_order()).
///
/// A CUDA error that leaves the GPU usable is a complaint. One that does not (an illegal address,
/// say) is thrown: nothing can be run in this process afterwards.
/// With `Watch::yes`, and where the device can, the first launch is watched.
/// \throws CudaError
Verification verify(
    const Implementation& implementation, const Workload& workload, cudaStream_t stream = nullptr,
    Watch watch = Watch::no);

/// Runs the implementation once, on the default stream, and checks that. \throws CudaError
Verification verify_once(const Implementation& implementation, const Workload& workload);

}  // namespace rmsnorm
