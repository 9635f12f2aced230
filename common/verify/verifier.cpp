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
  const Problem p = workload.problem();
  for (const TensorSpec& spec : workload.operation().tensors) {
    const GuardedTensor& tensor = workload.tensor(spec.name);
    if (p.tensors[workload.operation().index_of(spec.name)] == nullptr) continue;
    const int bytes = bytes_of(tensor.dtype());
    known.push_back({spec.name, tensor.data(), tensor.size() * bytes, bytes});
  }
  if (workspace.size() > 0) {
    const int bytes = bytes_of(workspace.dtype());
    known.push_back({"workspace", workspace.data(), workspace.size() * bytes, bytes});
  }
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

Verification verify_launch(
    const Implementation& implementation, const Workload& workload, const GuardedTensor& workspace,
    cudaStream_t stream, Watch watch) {
  Problem p = workload.problem();
  p.workspace = workspace.data();
  const Operation& operation = workload.operation();
  const SumDepth depth = implementation.sum_depth(p);
  Verification found{.error_bound = operation.error_bound(p, depth)};
  if (!(found.error_bound <= kLargestBound)) {
    found.complaint = fmt::format(
        "cannot be judged: rounding in {} additions could explain any error",
        std::max(depth.row, depth.column));
    return found;
  }
  workload.reset();
  workspace.fill(Content::poison);
  const std::uint64_t hash = workload.hash_of_untouchables();

  WatchedLaunch launched =
      launch_and_wait(implementation, p, memory_of(workload, workspace), stream, watch);
  found.observation = std::move(launched.observation);
  found.hazards = std::move(launched.hazards);
  found.complaint = std::move(launched.complaint);
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
  const ReversedBlocks reversed;
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
