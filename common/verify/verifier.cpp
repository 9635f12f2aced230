#include "common/verify/verifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "common/base/cuda_check.hpp"
#include "common/base/device.hpp"

namespace rmsnorm {

std::string to_sentence(const Mismatch& m) {
  std::string place = fmt::format("column {}", m.col);
  if (m.row >= 0) place = fmt::format("row {}, {}", m.row, place);
  if (m.tensor != std::string_view("y")) place = fmt::format("{}'s {}", m.tensor, place);
  if (is_poison(m.got)) {
    return fmt::format("{} was not written (expected {:.7g})", place, m.expected);
  }
  const auto number = [](auto v) { return std::isnan(v) ? std::abs(v) : v; };  // not "-nan"
  return fmt::format(
      "{}: expected {:.7g}, got {:.7g}, off by {:.2g} where {:.2g} is allowed", place,
      number(m.expected), number(m.got), std::abs(m.got - m.expected), m.allowed);
}

namespace {

/// What the kernel may touch.
std::vector<KnownMemory> memory_of(const Workload& workload, const GuardedTensor& workspace) {
  std::vector<KnownMemory> known;
  const auto add = [&](const char* name, const GuardedTensor& tensor, bool read, bool written) {
    const int bytes = bytes_of(tensor.dtype());
    known.push_back({name, tensor.data(), tensor.size() * bytes, bytes, read, written});
  };
  for (const TensorSpec& spec : workload.operation().tensors) {
    if (!is_there(spec, workload.spec().types)) continue;
    add(spec.name, workload.tensor(spec.name), is_read(spec), is_written(spec));
  }
  if (workspace.size() > 0) add("workspace", workspace, false, true);
  return known;
}

/// "the outputs y and residual"; what a launch may change.
std::string outputs_of(const Operation& operation) {
  std::vector<std::string_view> names;
  for (const TensorSpec& tensor : operation.tensors) {
    if (is_written(tensor)) names.push_back(tensor.name);
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

/// While it lives, blocks run in another order, where the device has one: CUDA promises none, and a
/// result must not depend on it.
struct OtherOrder {
  OtherOrder() { change_block_order(true); }
  OtherOrder(const OtherOrder&) = delete;
  ~OtherOrder() { change_block_order(false); }
};

/// Errors after which the GPU takes further work: nothing ran.
bool is_failed_launch(cudaError_t error) {
  return error == cudaErrorInvalidConfiguration || error == cudaErrorInvalidValue ||
         error == cudaErrorLaunchOutOfResources || error == cudaErrorNoKernelImageForDevice ||
         error == cudaErrorInvalidDeviceFunction;
}

/// Launches the implementation and waits for the end. Notes all that can go wrong without a look at
/// the result. \throws CudaError with the slug, if the GPU cannot be used any more
void launch_and_wait(
    const Implementation& implementation, const Problem& problem, std::vector<KnownMemory> known,
    cudaStream_t stream, Watch watch, Verification& found) {
  const bool on_device = implementation.memory == Memory::device;
  if (watch == Watch::yes) start_observing(std::move(known));
  cudaError_t launched = implementation.launch(problem, stream);
  if (on_device && launched == cudaSuccess) launched = cudaGetLastError();  // if it forgot to
  const cudaError_t ended = on_device ? cudaStreamSynchronize(stream) : cudaSuccess;
  if (watch == Watch::yes) found.observation = stop_observing();
  if (found.hazards = take_hazards(); !found.hazards.empty()) {
    cudaGetLastError();
    found.complaint = found.hazards.front();
  } else if (is_failed_launch(launched)) {
    cudaGetLastError();
    found.complaint = fmt::format("the launch failed: {}", cudaGetErrorString(launched));
  } else {
    cuda_check(launched, fmt::format("{}: the launch", implementation.slug));
    cuda_check(ended, fmt::format("{}: the kernel", implementation.slug));
  }
}

Verification verify_launch(
    const Implementation& implementation, const Workload& workload, const GuardedTensor& workspace,
    cudaStream_t stream, Watch watch) {
  Problem p = workload.problem();
  p.workspace = workspace.data();
  const Operation& operation = workload.operation();
  const SumDepth depth = implementation.sum_depth(p);
  Verification found{.error_bound = operation.error_bound(p, depth)};
  if (!(found.error_bound <= kMaxBound)) {
    found.complaint = fmt::format(
        "cannot be judged: rounding in {} additions could explain any error",
        std::max(depth.row, depth.column));
    return found;
  }
  workload.reset();
  workspace.fill(Content::poison);
  const std::uint64_t hash = workload.hash_of_untouchables();

  launch_and_wait(implementation, p, memory_of(workload, workspace), stream, watch, found);
  if (!found.ok()) return found;

  const bool on_host = workload.spec().memory == Memory::host || is_cpu_device();
  const auto compare = on_host ? operation.compare_on_host : operation.compare_on_device;
  const Comparison comparison = compare(workload.before(), p, depth);
  found.max_error = comparison.max_error;
  found.mismatch = comparison.mismatch;
  if (found.mismatch) found.complaint = to_sentence(*found.mismatch);

  std::string guards = workload.complaint_about_guards();
  if (guards.empty()) guards = complaint_about_guards(workspace, "the workspace", "its size");
  if (!guards.empty()) {
    if (found.ok()) found.complaint = guards;
  } else if (workload.hash_of_untouchables() != hash) {
    // It comes before a wrong result: the comparison has taken the inputs as they are now.
    found.complaint = fmt::format(
        "changed memory outside {}: an input, or what lies around the tensors",
        outputs_of(operation));
    found.mismatch.reset();
  }
  return found;
}

}  // namespace

Verification verify(
    const Implementation& implementation, const Workload& workload, cudaStream_t stream,
    Watch watch) {
  if (implementation.memory == Memory::device) {
    cuda_check(cudaDeviceSynchronize(), fmt::format("before {}", implementation.slug));
  }
  const GuardedTensor workspace =
      make_workspace(workload.spec().memory, implementation.workspace_bytes(workload.problem()));
  Verification first = verify_launch(implementation, workload, workspace, stream, watch);
  if (!first.ok()) return first;
  const bool same_bits = workload.operation().same_bits;
  const std::uint64_t bits = same_bits ? workload.hash_of_results() : 0;
  const OtherOrder other_order;
  Verification second = verify_launch(implementation, workload, workspace, stream, Watch::no);
  second.observation = std::move(first.observation);
  if (!second.ok()) {
    second.complaint += " (at the second launch; the first was right)";
  } else if (same_bits && workload.hash_of_results() != bits) {
    second.complaint = fmt::format(
        "the second launch left other bits in {} than the first", outputs_of(workload.operation()));
  }
  return second;
}

}  // namespace rmsnorm
