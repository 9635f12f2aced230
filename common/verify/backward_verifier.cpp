#include "common/verify/backward_verifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/operations/backward_reference.hpp"
#include "common/verify/backward_kernels.hpp"

namespace rmsnorm {
namespace {

/// The largest error that rounding can explain, of either result.
double largest_error_of(const BackwardProblem& p, int row_depth, int column_depth) {
  const double of_dx = dx_error_bound(row_depth) + rounding_error(p.dtype);
  if (p.dweight == nullptr) return of_dx;
  return std::max(of_dx, dweight_error_bound(column_depth) + rounding_error(p.weight_dtype));
}

BackwardInputs fetch(const BackwardProblem& p, std::int64_t first_row, std::int64_t rows) {
  const auto size = static_cast<std::size_t>(rows) * p.hidden;
  const auto matrix = [&](const void* data) {
    const std::size_t skipped = static_cast<std::size_t>(first_row) * p.hidden * bytes_of(p.dtype);
    return to_floats(static_cast<const std::byte*>(data) + skipped, p.dtype, size);
  };
  return {
      .x = matrix(p.x),
      .dy = matrix(p.dy),
      .rstd = to_host(p.rstd + first_row, rows),
      .factors = factors_of(p)};
}

void note(
    Verification& found, const ElementCheck& check, float got, std::int64_t row, int col,
    const char* tensor) {
  found.max_error = std::max(found.max_error.value_or(0), check.error);
  if (check.ok || found.mismatch) return;
  found.mismatch = Mismatch{
      .row = row,
      .col = col,
      .got = got,
      .expected = check.expected,
      .allowed = check.allowed,
      .unwritten = is_poison(got),
      .tensor = tensor};
  found.complaint = to_sentence(*found.mismatch);
}

/// Compares some rows of dx. \param known element of theirs that is wrong anyway
void compare_dx(
    const BackwardProblem& p, const BackwardInputs& inputs, std::int64_t first_row, double bound,
    Verification& found, std::optional<std::size_t> known = {}) {
  const std::size_t skipped = static_cast<std::size_t>(first_row) * p.hidden * bytes_of(p.dtype);
  const std::vector<float> dx =
      to_floats(static_cast<const std::byte*>(p.dx) + skipped, p.dtype, inputs.x.size());
  for (std::size_t row = 0; row < inputs.rstd.size(); ++row) {
    const SignedSum mean = reference_mean(inputs, row);
    for (int col = 0; col < p.hidden; ++col) {
      const std::size_t i = row * p.hidden + col;
      ElementCheck check = check_dx(
          dx[i], inputs.x[i], inputs.dy[i], inputs.factors[col], inputs.rstd[row], mean, bound,
          p.dtype);
      check.ok = check.ok && i != known;
      note(found, check, dx[i], first_row + static_cast<std::int64_t>(row), col, "dx's ");
    }
  }
}

/// Compares dweight with what it should be.
void compare_dweight(
    const BackwardProblem& p, const std::vector<SignedSum>& expected, double bound,
    Verification& found) {
  if (p.dweight == nullptr) return;
  const std::vector<float> dweight = to_floats(p.dweight, p.weight_dtype, p.hidden);
  for (int col = 0; col < p.hidden; ++col) {
    note(
        found, check_dweight(dweight[col], expected[col], p.rows, bound, p.weight_dtype),
        dweight[col], -1, col, "dweight's ");
  }
}

std::vector<Tensor> tensors_of(const BackwardProblem& p, const FencedTensor& workspace) {
  const std::size_t size = static_cast<std::size_t>(p.rows) * p.hidden;
  std::vector<Tensor> tensors;
  add_tensor(tensors, "x", p.x, size, p.dtype);
  add_tensor(tensors, "weight", p.weight, p.hidden, p.weight_dtype);
  add_tensor(tensors, "rstd", p.rstd, p.rows, Dtype::fp32);
  add_tensor(tensors, "dy", p.dy, size, p.dtype);
  add_tensor(tensors, "dx", p.dx, size, p.dtype);
  add_tensor(tensors, "dweight", p.dweight, p.hidden, p.weight_dtype);
  add_tensor(tensors, "workspace", workspace.data(), workspace.size(), Dtype::fp32);
  return tensors;
}

Verification verify_launch(
    const Lesson& lesson, const BackwardWorkload& workload, const FencedTensor& workspace,
    cudaStream_t stream, Watch watch) {
  BackwardProblem p = workload.problem();
  p.workspace = workspace.data();
  const int row_depth = lesson.backward.row_depth(p);
  const int column_depth = lesson.backward.column_depth(p);
  Verification found{.error_bound = largest_error_of(p, row_depth, column_depth)};
  if (!(found.error_bound <= kLargestBound)) {
    found.complaint = fmt::format(
        "cannot be judged: rounding in {} additions could explain any error",
        std::max(row_depth, column_depth));
    return found;
  }
  workload.dx().poison();
  workload.dweight().poison();
  workspace.poison();
  const std::uint64_t hash = workload.hash_of_untouchables();

  const auto launch = [&] { return lesson.backward.launch(p, stream); };
  Launched launched = launch_and_wait(lesson, launch, tensors_of(p, workspace), stream, watch);
  if (!launched.complaint.empty()) {
    found.complaint = launched.complaint;
    found.hazards = launched.hazards;
    found.observation = launched.observation;
    return found;
  }
  const bool small = static_cast<std::int64_t>(p.rows) * p.hidden <= kElementsForHost;
  const bool on_host = small || lesson.memory == Memory::host;
  found = on_host ? compare_on_host(p, row_depth, column_depth)
                  : compare_on_device(p, row_depth, column_depth);
  found.observation = std::move(launched.observation);
  for (const std::string& guards :
       {complaint_about_guards(workload.dx(), "dx", "rows * hidden"),
        complaint_about_guards(workload.dweight(), "dweight", "hidden"),
        complaint_about_guards(workspace, "the workspace", "its size")}) {
    if (!guards.empty() && found.ok()) found.complaint = guards;
    if (!guards.empty()) return found;
  }
  if (workload.hash_of_untouchables() != hash) {
    // It comes before a wrong result: the comparison has taken the inputs as they are now.
    found.complaint = "changed memory outside dx and dweight: an input, or what lies around them";
    found.mismatch.reset();
  }
  return found;
}

}  // namespace

Verification compare_on_host(const BackwardProblem& p, int row_depth, int column_depth) {
  Verification found{.error_bound = largest_error_of(p, row_depth, column_depth)};
  const BackwardInputs inputs = fetch(p, 0, p.rows);
  compare_dx(p, inputs, 0, dx_error_bound(row_depth), found);
  std::vector<SignedSum> dweight;
  for (int col = 0; col < p.hidden; ++col) dweight.push_back(reference_dweight(inputs, col));
  compare_dweight(p, dweight, dweight_error_bound(column_depth), found);
  return found;
}

Verification compare_on_device(const BackwardProblem& p, int row_depth, int column_depth) {
  Verification found{.error_bound = largest_error_of(p, row_depth, column_depth)};
  const double bound = dx_error_bound(row_depth);
  DeviceFindings findings{
      .first_wrong = kNothingWrong, .first_sum = kNothingWrong, .max_error_bits = 0};
  std::vector<SignedSum> dweight(p.hidden);
  const std::size_t sums_bytes = dweight.size() * sizeof(SignedSum);
  const Buffer buffer(Memory::device, sums_bytes + sizeof findings);
  auto* const device_sums = reinterpret_cast<SignedSum*>(buffer.data());
  auto* const device_findings = reinterpret_cast<DeviceFindings*>(buffer.data() + sums_bytes);
  copy_bytes(device_findings, &findings, sizeof findings);
  cuda_check(launch_compare_dx(p, bound, device_findings, nullptr), "starting the comparison");
  cuda_check(launch_column_sums(p, device_sums, nullptr), "starting the comparison");
  copy_bytes(&findings, device_findings, sizeof findings);
  copy_bytes(dweight.data(), device_sums, sums_bytes);

  if (findings.first_wrong != kNothingWrong) {
    const auto row = static_cast<std::int64_t>(findings.first_wrong / p.hidden);
    compare_dx(p, fetch(p, row, 1), row, bound, found, findings.first_wrong % p.hidden);
  }
  compare_dweight(p, dweight, dweight_error_bound(column_depth), found);
  double max_error;
  std::memcpy(&max_error, &findings.max_error_bits, sizeof max_error);
  found.max_error = std::max(found.max_error.value_or(0), max_error);
  return found;
}

Verification verify(
    const Lesson& lesson, const BackwardWorkload& workload, cudaStream_t stream, Watch watch) {
  if (lesson.memory == Memory::device) {
    cuda_check(cudaDeviceSynchronize(), fmt::format("before {}", lesson.slug));
  }
  const FencedTensor workspace = workload.workspace_for(lesson.backward);
  Verification first = verify_launch(lesson, workload, workspace, stream, watch);
  if (!first.ok()) return first;
  const std::uint64_t bits = workload.hash_of_results();
  const ReversedBlocks reversed;
  Verification second = verify_launch(lesson, workload, workspace, stream, Watch::no);
  second.observation = std::move(first.observation);
  if (!second.ok()) {
    second.complaint += " (at the second launch; the first was right)";
  } else if (workload.hash_of_results() != bits) {
    second.complaint = "the second launch left other bits in dx or dweight than the first";
  }
  return second;
}

}  // namespace rmsnorm
