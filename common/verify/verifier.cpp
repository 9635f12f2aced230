#include "common/verify/verifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/operations/reference.hpp"
#include "common/verify/device_kernels.hpp"

namespace rmsnorm {

double relative_error_bound(int sum_depth, const Types& types) {
  constexpr double kHalfUlp = 0x1p-24;
  const double of_mean = (sum_depth + 4.0) * kHalfUlp;
  if (of_mean >= 1) return INFINITY;
  const double of_factor = types.weight_bias == 0 ? 0 : kHalfUlp;
  return 1.01 * (1 / std::sqrt(1 - of_mean) - 1 + (4 + 2) * kHalfUlp + of_factor);
}

double largest_error(int sum_depth, const Types& types) {
  return relative_error_bound(sum_depth, types) + rounding_error(types.dtype);
}

std::string to_sentence(const Mismatch& m) {
  std::string place = fmt::format("column {}", m.col);
  if (m.row >= 0) place = fmt::format("row {}, {}", m.row, place);
  if (m.unwritten) {
    return fmt::format("{}{} was not written (expected {:.7g})", m.tensor, place, m.expected);
  }
  return fmt::format(
      "{}{}: expected {:.7g}, got {:.7g}, off by {:.2g} where {:.2g} is allowed", m.tensor, place,
      m.expected, m.got, std::abs(m.got - m.expected), m.allowed);
}

namespace {

/// Some rows of a problem in host memory, as floats.
struct Rows {
  std::vector<float> normed;    ///< x, or x + residual
  std::vector<float> y;         ///< what the launch has left
  std::vector<float> residual;  ///< likewise; empty without
  std::vector<double> factors;  ///< one a column
};

Rows fetch(
    const TypedProblem& p, const void* residual_before, std::int64_t first_row, std::int64_t rows) {
  const std::size_t size = static_cast<std::size_t>(rows) * p.hidden;
  const auto tensor = [&](const void* data) {
    const std::size_t skipped = static_cast<std::size_t>(first_row) * p.hidden * bytes_of(p.dtype);
    return to_floats(static_cast<const std::byte*>(data) + skipped, p.dtype, size);
  };
  Rows fetched{.normed = tensor(p.x), .y = tensor(p.y), .residual = {}, .factors = factors_of(p)};
  if (p.residual != nullptr) {
    fetched.residual = tensor(p.residual);
    const std::vector<float> before = tensor(residual_before);
    for (std::size_t i = 0; i < size; ++i) fetched.normed[i] += before[i];
  }
  return fetched;
}

/// Describes element i of y, which is wrong. \param first_row the row with which `rows` begins
Mismatch describe(
    const Rows& rows, const TypedProblem& p, std::int64_t first_row, std::size_t i,
    const ElementCheck& check) {
  return Mismatch{
      .row = first_row + static_cast<std::int64_t>(i / p.hidden),
      .col = static_cast<int>(i % p.hidden),
      .got = rows.y[i],
      .expected = check.expected,
      .allowed = check.allowed,
      .unwritten = is_poison(rows.y[i])};
}

/// Compares all rows; describes the first element that is wrong, if one is. \param known element of
/// y that is wrong anyway
void compare(
    const Rows& rows, const TypedProblem& p, std::int64_t first_row, double bound,
    Verification& found, std::optional<std::size_t> known = {}) {
  for (std::size_t begin = 0; begin < rows.y.size(); begin += p.hidden) {
    const double rstd = reference_row_rstd(rows.normed.data() + begin, p.hidden, p.eps);
    for (int col = 0; col < p.hidden; ++col) {
      const std::size_t i = begin + col;
      const ElementCheck check =
          check_element(rows.y[i], rows.normed[i], rows.factors[col], rstd, bound, p.dtype);
      found.max_error = std::max(found.max_error.value_or(0), check.error);
      if ((!check.ok || i == known) && !found.mismatch) {
        found.mismatch = describe(rows, p, first_row, i, check);
      }
    }
  }
  for (std::size_t i = 0; i < rows.residual.size() && !found.mismatch; ++i) {
    if (is_sum(rows.residual[i], rows.normed[i], p.dtype)) continue;
    const double expected = rounded(p.dtype, rows.normed[i]);
    found.mismatch = describe(rows, p, first_row, i, {expected, 0, 0, false});
    found.mismatch->got = rows.residual[i];
    found.mismatch->unwritten = false;
    found.mismatch->tensor = "the residual's ";
  }
  if (found.mismatch) found.complaint = to_sentence(*found.mismatch);
}

}  // namespace

Verification compare_on_host(const TypedProblem& p, int sum_depth, const void* residual_before) {
  Verification found{.error_bound = largest_error(sum_depth, types_of(p))};
  compare(
      fetch(p, residual_before, 0, p.rows), p, 0, relative_error_bound(sum_depth, types_of(p)),
      found);
  return found;
}

Verification compare_on_device(const TypedProblem& p, int sum_depth, const void* residual_before) {
  Verification found{.error_bound = largest_error(sum_depth, types_of(p))};
  if (p.rows == 0) return found;

  const double bound = relative_error_bound(sum_depth, types_of(p));
  DeviceFindings findings{
      .first_wrong = kNothingWrong, .first_sum = kNothingWrong, .max_error_bits = 0};
  const Buffer on_device(Memory::device, sizeof findings);
  auto* device_findings = reinterpret_cast<DeviceFindings*>(on_device.data());
  cuda_check(
      cudaMemcpy(device_findings, &findings, sizeof findings, cudaMemcpyHostToDevice),
      "preparing the comparison");
  cuda_check(
      launch_compare_rows(p, residual_before, bound, device_findings, nullptr),
      "starting the comparison");
  cuda_check(
      cudaMemcpy(&findings, device_findings, sizeof findings, cudaMemcpyDeviceToHost),
      "comparing with the reference");

  if (findings.first_wrong != kNothingWrong) {
    const auto row = static_cast<std::int64_t>(findings.first_wrong / p.hidden);
    compare(
        fetch(p, residual_before, row, 1), p, row, bound, found, findings.first_wrong % p.hidden);
  } else if (findings.first_sum != kNothingWrong) {
    const auto row = static_cast<std::int64_t>(findings.first_sum / p.hidden);
    compare(fetch(p, residual_before, row, 1), p, row, bound, found);
  }
  double max_error;
  std::memcpy(&max_error, &findings.max_error_bits, sizeof max_error);
  found.max_error = max_error;
  return found;
}

namespace {

std::vector<Tensor> tensors_of(const TypedProblem& p) {
  const std::size_t size = static_cast<std::size_t>(p.rows) * p.hidden;
  std::vector<Tensor> tensors;
  add_tensor(tensors, "x", p.x, size, p.dtype);
  add_tensor(tensors, "weight", p.weight, p.hidden, p.weight_dtype);
  add_tensor(tensors, "y", p.y, size, p.dtype);
  add_tensor(tensors, "residual", p.residual, size, p.dtype);
  return tensors;
}

Verification verify_launch(
    const Lesson& lesson, const Workload& workload, cudaStream_t stream, Watch watch) {
  const TypedProblem p = workload.typed_problem();
  const int sum_depth = lesson.sum_depth(p);
  const bool on_device = lesson.memory == Memory::device;
  const double bound = largest_error(sum_depth, types_of(p));
  if (!(bound <= kLargestBound)) {
    return Verification{
        .max_error = {},
        .error_bound = bound,
        .complaint = fmt::format(
            "cannot be judged: rounding in {} additions could explain any error", sum_depth)};
  }
  workload.poison_y();
  workload.restore_residual();
  const std::uint64_t hash = workload.hash_of_untouchables();

  const auto launch = [&] { return lesson.launch(p, stream); };
  Launched launched = launch_and_wait(lesson, launch, tensors_of(p), stream, watch);
  if (!launched.complaint.empty()) {
    return Verification{
        .max_error = {},
        .error_bound = bound,
        .complaint = launched.complaint,
        .hazards = launched.hazards,
        .observation = launched.observation};
  }
  const bool small = static_cast<std::int64_t>(p.rows) * p.hidden <= kElementsForHost;
  const auto compare = small || !on_device ? compare_on_host : compare_on_device;
  Verification found = compare(p, sum_depth, workload.residual_before());
  found.observation = std::move(launched.observation);
  if (const std::string guards = complaint_about_guards(workload.y(), "y", "rows * hidden");
      !guards.empty()) {
    if (found.ok()) found.complaint = guards;
  } else if (workload.hash_of_untouchables() != hash) {
    // It comes before a wrong y: the comparison has taken x and the weight as they are now.
    found.complaint = "changed memory outside y: x, the weight, or what lies around the tensors";
    found.mismatch.reset();
  }
  return found;
}

}  // namespace

Verification verify(
    const Lesson& lesson, const Workload& workload, cudaStream_t stream, Watch watch) {
  if (lesson.memory == Memory::device) {
    cuda_check(cudaDeviceSynchronize(), fmt::format("before {}", lesson.slug));
  }
  Verification first = verify_launch(lesson, workload, stream, watch);
  if (!first.ok()) return first;
  const ReversedBlocks reversed;
  Verification second = verify_launch(lesson, workload, stream, Watch::no);
  if (!second.ok()) second.complaint += " (at the second launch; the first was right)";
  second.observation = std::move(first.observation);
  return second;
}

}  // namespace rmsnorm
