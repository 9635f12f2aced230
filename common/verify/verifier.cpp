#include "common/verify/verifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "common/base/cuda_check.hpp"
#include "common/base/device.hpp"
#include "common/base/own_stream.hpp"
#include "common/cpu_device/interface/coverage.hpp"

namespace rmsnorm {

namespace {

/// An error and what is allowed, with two digits, or with as many as it takes to tell them apart.
std::string comparison_text(double error, double allowed) {
  constexpr int kAllDigits = 17;  // of a double
  std::string text, other;
  for (int digits = 2; text == other && digits <= kAllDigits; ++digits) {
    text = fmt::format("{:.{}g}", error, digits);
    other = fmt::format("{:.{}g}", allowed, digits);
  }
  return fmt::format("off by {} where {} is allowed", text, other);
}

}  // namespace

std::string to_sentence(const Mismatch& m) {
  std::string place = fmt::format("column {}", m.col);
  if (!m.beside.empty()) place = fmt::format("{}, {}", m.beside, place);
  if (m.row >= 0) place = fmt::format("row {}, {}", m.row, place);
  if (m.tensor != std::string_view("y")) place = fmt::format("{}'s {}", m.tensor, place);
  if (is_poison(m.got)) {
    return fmt::format("{} was not written (expected {:.7g})", place, m.expected);
  }
  const auto number = [](auto v) { return std::isnan(v) ? std::abs(v) : v; };  // not "-nan"
  return fmt::format(
      "{}: expected {:.7g}, got {:.7g}, {}", place, number(m.expected), number(m.got),
      comparison_text(std::abs(m.got - m.expected), m.allowed));
}

namespace {

/// What the kernel may touch.
std::vector<KnownMemory> memory_of(const Workload& workload, const GuardedTensor& workspace) {
  std::vector<KnownMemory> known;
  const auto add = [&](const char* name, const GuardedTensor& tensor, bool read, bool written,
                       Reach reach) {
    const int bytes = bytes_of(tensor.dtype());
    for (int i = 0; i < tensor.pieces(); ++i) {
      known.push_back(
          {name, tensor.data(0, i), tensor.piece_size() * bytes, bytes, read, written, reach, i});
    }
  };
  for (const TensorSpec& spec : workload.operation().tensors) {
    if (!is_there(spec, workload.spec().types)) continue;
    const Reach reach = is_of_ranks(spec) ? Reach::own_rank : Reach::all;
    add(spec.name, workload.tensor(spec.name), is_read(spec), is_written(spec), reach);
  }
  const bool has_ranks = ranks_of(workload.operation(), workload.problem()) > 1;
  if (workspace.size() > 0) {
    add("workspace", workspace, false, true, has_ranks ? Reach::peers : Reach::all);
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

/// Do places in memory depend on what a tensor has?
bool has_integers(const Operation& operation) {
  return std::ranges::any_of(operation.tensors, [](const TensorSpec& tensor) {
    return tensor.elements == Elements::int32;
  });
}

/// How to launch.
struct Manner {
  cudaStream_t stream;
  Watch watch;
  bool changes_order = false;  ///< of blocks and streams, where the device has one of its own
  const Problem* next =
      nullptr;  ///< launched on the same stream before anybody waits for the first
};

/// Errors after which the GPU takes further work: nothing ran.
bool is_failed_launch(cudaError_t error) {
  if (is_cpu_device()) return error != cudaSuccess;
  return error == cudaErrorInvalidConfiguration || error == cudaErrorInvalidValue ||
         error == cudaErrorLaunchOutOfResources || error == cudaErrorNoKernelImageForDevice ||
         error == cudaErrorInvalidDeviceFunction;
}

/// What a launch asked of the device, apart from the work that is on its own stream: one sentence,
/// or "". `before` and `launched` are from before and after the launch, and now all is done.
std::string complaint_about_calls(const HostCalls& before, const HostCalls& launched) {
  if (launched.waits > before.waits) {
    return "the launch waits for the device: it has to come back as soon as its work is on the "
           "stream (cudaMemcpy, cudaMemset and cudaFree wait, too)";
  }
  if (host_calls().queued > before.queued) {
    cudaDeviceSynchronize();  // none of it is there next time
    return "the launch puts work on another stream than the one that it is given: what comes next "
           "on that one does not wait for it";
  }
  return "";
}

/// Launches the implementation and waits for the end. Notes all that can go wrong without a look at
/// the result. \throws CudaError with the slug, if the GPU cannot be used any more
void launch_and_wait(
    const Implementation& implementation, const Problem& problem, std::vector<KnownMemory> known,
    const Manner& manner, Verification& found) {
  const auto& [stream, watch, changes_order, next] = manner;
  const bool on_device = implementation.memory == Memory::device;
  if (watch == Watch::yes) start_watching(std::move(known));
  change_order(changes_order, stream);
  const HostCalls before = host_calls();
  take_failed_call();
  take_old_loads();
  if (on_device) watch_host(watch == Watch::yes);
  cudaError_t launched = implementation.launch(problem, stream);
  watch_host(false);
  const HostCalls after = host_calls();
  if (on_device && launched == cudaSuccess) launched = cudaGetLastError();  // if it forgot to
  if (launched == cudaSuccess && next != nullptr) launched = implementation.launch(*next, stream);
  const cudaError_t ended = on_device ? cudaStreamSynchronize(stream) : cudaSuccess;
  change_order(false, stream);
  if (watch == Watch::yes) found.counts = stop_watching();
  found.old_loads = take_old_loads();
  found.notes = take_notes();
  if (found.hazards = take_hazards(); !found.hazards.empty()) {
    cudaGetLastError();
    found.complaint = found.hazards.front();
  } else if (is_failed_launch(launched)) {
    cudaGetLastError();
    found.complaint = fmt::format("the launch failed: {}", cudaGetErrorString(launched));
    if (const std::string call = take_failed_call(); !call.empty()) {
      found.complaint += fmt::format(" ({})", call);
    }
  } else {
    cuda_check(launched, fmt::format("{}: the launch", implementation.slug));
    cuda_check(ended, fmt::format("{}: the kernel", implementation.slug));
    if (on_device) found.complaint = complaint_about_calls(before, after);
  }
}

/// The largest claim of additions that can be meant: a term goes through one for each other term,
/// and some threads of a block add zeros.
constexpr int kMostIdle = 1024;

/// One sentence about a claim that is too large to be true; or "".
std::string complaint_about_claim(const SumDepth& depth, const Problem& p) {
  const auto sentence = [](int claimed, int terms, const char* where) {
    return fmt::format(
        "sum_depth() claims {} additions for the sum of a {}, which has {} terms", claimed, where,
        terms);
  };
  if (depth.row - kMostIdle > p.hidden) return sentence(depth.row, p.hidden, "row");
  if (depth.column - kMostIdle > p.rows) return sentence(depth.column, p.rows, "column");
  return "";
}

/// \param from where its inputs come from, on the stream; null if they are there already
Verification verify_launch(
    const Implementation& implementation, const Workload& workload, const GuardedTensor& workspace,
    const Manner& manner, const Workload* from = nullptr) {
  Problem p = workload.problem();
  give(p, workspace);
  const Operation& operation = workload.operation();
  const SumDepth claimed = implementation.sum_depth(p);
  const SumDepth depth = workload.is_random() ? likely_depth(claimed) : claimed;
  Verification found{.error_bound = operation.error_bound(p, depth)};
  if (!(operation.error_bound(p, claimed) - operation.error_bound(p, {}) <= kMaxBound)) {
    found.complaint = fmt::format(
        "cannot be judged: rounding in {} additions could explain any error",
        std::max(claimed.row, claimed.column));
  } else {
    found.complaint = complaint_about_claim(claimed, p);
  }
  if (!found.ok()) return found;
  workload.reset();
  workspace.fill(Content::poison);
  const std::uint64_t hash = (from == nullptr ? workload : *from).hash_of_untouchables();
  if (from != nullptr) workload.take(*from, manner.stream);

  launch_and_wait(implementation, p, memory_of(workload, workspace), manner, found);
  if (!found.ok()) return found;

  const std::string guards = workload.complaint_about_guards();
  const bool has_changed = workload.hash_of_untouchables() != hash;
  if (has_changed && (guards.empty() || has_integers(operation))) {
    // It comes before a wrong result: the comparison takes the inputs as they are now, and goes
    // where integers lead.
    found.complaint = guards.empty()
                          ? fmt::format(
                                "changed memory outside {}: an input, or what lies around the "
                                "tensors",
                                outputs_of(operation))
                          : guards;
    return found;
  }
  const bool on_host = workload.spec().memory == Memory::host || is_cpu_device();
  const auto compare = on_host ? operation.compare_on_host : operation.compare_on_device;
  const Comparison comparison = compare(workload.before(), p, depth);
  found.max_error = comparison.max_error;
  found.mismatch = comparison.mismatch;
  if (found.mismatch) found.complaint = to_sentence(*found.mismatch);
  if (found.ok()) found.complaint = guards;
  if (found.ok()) {
    found.complaint = complaint_about_guards(workspace, "the workspace", "its size");
  }
  if (found.ok()) found.complaint = workload.complaint_about_places();
  return found;
}

/// A launch between two that count: of tensors that hold no numbers yet, and on fewer rows. Nothing
/// of it may be kept. On the CPU device it comes after somebody else's call has left an error,
/// which may not get lost; a GPU's runtime forgets it in a call of cudaFuncSetAttribute() that
/// succeeds.
/// What is wrong about it in one sentence; or "". \throws CudaError
std::string complaint_about_rehearsal(
    const Implementation& implementation, const Workload& workload, const GuardedTensor& workspace,
    cudaStream_t stream) {
  constexpr int kFew = 1 << 16;  // elements
  Problem p = workload.problem();
  give(p, workspace);
  p.rows = std::min((p.rows + 1) / 2, kFew / p.hidden + 1);
  if (!implementation.unsupported(p).empty() ||
      implementation.workspace_bytes(p) > workspace.piece_size() * bytes_of(workspace.dtype())) {
    return "";
  }
  if (is_cpu_device()) cudaSetDevice(-1);
  const cudaError_t launched = implementation.launch(p, stream);
  const cudaError_t left = cudaGetLastError();
  const cudaError_t ended = cudaStreamSynchronize(stream);
  if (const std::vector<std::string> hazards = take_hazards(); !hazards.empty()) {
    return fmt::format("{} (in {} x {} of NaN)", hazards.front(), p.rows, p.hidden);
  }
  cuda_check(ended, fmt::format("{}: the kernel", implementation.slug));
  if (!is_cpu_device() || launched != cudaSuccess || left != cudaSuccess) return "";
  return "an error that a call before the launch had left is lost: launch() has to return what "
         "cudaGetLastError() gives it, and may not ask before its own work is on the stream";
}

/// A problem to launch behind another one, on other tensors, whose inputs are NaN by then: fewer
/// rows, and another eps. None if the implementation does not support it, or of few rows: then it
/// is not worth its time.
std::optional<Problem> problem_behind(
    const Implementation& implementation, const Workload& workload,
    const GuardedTensor& workspace) {
  constexpr int kEnough = 3;
  Problem p = workload.problem();
  give(p, workspace);
  if (p.rows < kEnough) return std::nullopt;
  p.rows = (p.rows + 1) / 2;
  p.eps += 1;
  if (!implementation.unsupported(p).empty() ||
      implementation.workspace_bytes(p) > workspace.piece_size() * bytes_of(workspace.dtype())) {
    return std::nullopt;
  }
  return p;
}

/// While it lives, nothing is noted of what the code compares.
struct NoComparisons {
  NoComparisons() { note_comparisons(false); }
  ~NoComparisons() { note_comparisons(true); }
  NoComparisons(const NoComparisons&) = delete;
  NoComparisons& operator=(const NoComparisons&) = delete;
};

/// Up to so many elements, a second set of tensors costs little.
constexpr std::int64_t kElementsToMove = std::int64_t{1} << 22;

}  // namespace

GuardedTensor make_workspace(const Implementation& implementation, const Workload& workload) {
  const Problem p = workload.problem();
  return make_workspace(
      workload.spec().memory, implementation.workspace_bytes(p), ranks_of(workload.operation(), p));
}

SumDepth likely_depth(SumDepth claimed) {
  const auto likely = [](int n) { return std::min(n, static_cast<int>(8 * std::sqrt(n))); };
  return {likely(claimed.row), likely(claimed.column)};
}

Verification verify(
    const Implementation& implementation, const Workload& workload, cudaStream_t stream,
    Watch watch) {
  if (implementation.memory == Memory::device) {
    cuda_check(cudaDeviceSynchronize(), fmt::format("before {}", implementation.slug));
  }
  const GuardedTensor workspace = make_workspace(implementation, workload);
  std::optional<OwnStream> own;
  if (implementation.memory == Memory::device && stream == nullptr) stream = own.emplace().get();
  Verification first = verify_launch(implementation, workload, workspace, {stream, watch});
  if (!first.ok()) return first;
  const NoComparisons noted;  // the next launches make the same again, or have other sizes
  const bool same_bits = workload.operation().same_bits;
  const std::uint64_t bits = same_bits ? workload.hash_of_results() : 0;

  const WorkloadSpec& spec = workload.spec();
  const bool moves = implementation.memory == Memory::device && spec.sets == 1 &&
                     workload.elements() <= kElementsToMove;
  std::optional<Workload> moved;
  if (moves) {
    moved.emplace(workload.moved());
    cuda_check(cudaDeviceSynchronize(), fmt::format("before {}", implementation.slug));
    first.complaint = complaint_about_rehearsal(implementation, *moved, workspace, stream);
    if (!first.ok()) return first;
  }
  const std::optional<Problem> behind =
      moves ? problem_behind(implementation, workload, workspace) : std::nullopt;
  const HostCalls before = host_calls();
  const Workload& now = moves ? *moved : workload;
  const Manner manner = {stream, Watch::no, true, behind ? &*behind : nullptr};
  Verification second =
      verify_launch(implementation, now, workspace, manner, moves ? &workload : nullptr);
  if (moves) {
    workload.take(*moved, stream);
    cuda_check(cudaStreamSynchronize(stream), fmt::format("after {}", implementation.slug));
  }
  const bool polls = first.counts.polls;
  second.counts = std::move(first.counts);
  second.notes = std::move(first.notes);
  if (second.ok() && polls && watch == Watch::yes) {
    Verification third =
        verify_launch(implementation, workload, workspace, {stream, Watch::yes, true});
    third.is_second = true;
    if (!third.ok()) {
      third.counts = std::move(second.counts);
      third.complaint += " (at the third launch, whose loads of flags may get old values)";
      return third;
    }
  }
  if (!second.ok()) {
    second.complaint += behind ? " (at the second launch, with another behind it on the stream; "
                                 "the first was right)"
                               : " (at the second launch; the first was right)";
    second.is_second = true;
  } else if (same_bits && now.hash_of_results() != bits) {
    second.complaint = fmt::format(
        "the second launch left other bits in {} than the first", outputs_of(workload.operation()));
  } else if (host_calls().handles > before.handles) {
    second.complaint = "each launch makes a stream or an event that nobody destroys";
  } else if (host_calls().allocations > before.allocations) {
    second.complaint =
        "each launch allocates memory that nobody frees: say in workspace_bytes() what it needs";
  }
  return second;
}

Verification verify_once(const Implementation& implementation, const Workload& workload) {
  const GuardedTensor workspace = make_workspace(implementation, workload);
  return verify_launch(implementation, workload, workspace, {nullptr, Watch::no});
}

}  // namespace rmsnorm
