#include "common/verifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "common/cuda_check.hpp"
#include "common/device_kernels.hpp"
#include "common/element_check.hpp"
#include "common/reference.hpp"

namespace rmsnorm {

double relative_error_bound(int sum_depth) {
  constexpr double kHalfUlp = 0x1p-24;
  const double of_mean = (sum_depth + 4.0) * kHalfUlp;
  if (of_mean >= 1) return INFINITY;
  return 1.01 * (1 / std::sqrt(1 - of_mean) - 1 + (4 + 2) * kHalfUlp);
}

namespace {

/// With a bound above this, hardly anything would be wrong: tens of millions of additions in one
/// chain cannot be judged.
constexpr double kLargestBound = 0.1;

constexpr std::int64_t kElementsForHost = std::int64_t{1} << 20;

/// Compares one row that is in host memory; gives the first wrong column or -1.
int compare_row(
    const float* x, const float* weight, const float* y, const Problem& p, Verification& found) {
  const double rstd = reference_row_rstd(x, p.hidden, p.eps);
  int first_wrong = -1;
  for (int col = 0; col < p.hidden; ++col) {
    const ElementCheck check = check_element(y[col], x[col], weight[col], rstd, found.error_bound);
    found.max_error = std::max(found.max_error.value_or(0), check.error);
    if (!check.ok && first_wrong < 0) first_wrong = col;
  }
  return first_wrong;
}

/// Describes a wrong element from its row in host memory.
Mismatch describe(
    const float* x, const float* weight, const float* y, const Problem& p, std::int64_t row,
    int col, double bound) {
  const double rstd = reference_row_rstd(x, p.hidden, p.eps);
  const ElementCheck check = check_element(y[col], x[col], weight[col], rstd, bound);
  return Mismatch{
      .row = row,
      .col = col,
      .got = y[col],
      .expected = check.expected,
      .allowed = check.allowed,
      .unwritten = is_poison(y[col])};
}

std::string sentence(const Mismatch& m) {
  if (m.unwritten) {
    return fmt::format(
        "row {}, column {} was not written (expected {:.7g})", m.row, m.col, m.expected);
  }
  return fmt::format(
      "row {}, column {}: expected {:.7g}, got {:.7g}, off by {:.2g} where {:.2g} is allowed",
      m.row, m.col, m.expected, m.got, std::abs(m.got - m.expected), m.allowed);
}

/// The memory around y must still hold what the verifier put there.
std::string check_guards(const Workload& workload) {
  for (const int side : {0, 1}) {
    const std::vector<float> guard = to_host(workload.y_guard(side), Workload::kGuard);
    const auto is_overwritten = [](float value) { return !is_poison(value); };
    const auto overwritten = std::count_if(guard.begin(), guard.end(), is_overwritten);
    if (overwritten == 0) continue;
    const auto first = std::find_if(guard.begin(), guard.end(), is_overwritten) - guard.begin();
    return side == 0 ? fmt::format("wrote {} floats before the start of y", overwritten)
                     : fmt::format(
                           "wrote {} floats after the end of y, the first at y[rows * hidden + {}]",
                           overwritten, first);
  }
  return "";
}

/// Errors after which the GPU takes further work: the launch was turned down, nothing ran.
bool is_refused_launch(cudaError_t error) {
  return error == cudaErrorInvalidConfiguration || error == cudaErrorInvalidValue ||
         error == cudaErrorLaunchOutOfResources || error == cudaErrorNoKernelImageForDevice ||
         error == cudaErrorInvalidDeviceFunction;
}

}  // namespace

Verification compare_on_host(const Problem& p, int sum_depth) {
  Verification found{.error_bound = relative_error_bound(sum_depth)};
  const std::vector<float> weight = to_host(p.weight, p.hidden);
  const std::vector<float> all_x = to_host(p.x, static_cast<std::size_t>(p.rows) * p.hidden);
  const std::vector<float> all_y = to_host(p.y, all_x.size());
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const float* x = all_x.data() + row * p.hidden;
    const float* y = all_y.data() + row * p.hidden;
    const int col = compare_row(x, weight.data(), y, p, found);
    if (col >= 0 && !found.mismatch) {
      found.mismatch = describe(x, weight.data(), y, p, row, col, found.error_bound);
      found.complaint = sentence(*found.mismatch);
    }
  }
  return found;
}

Verification compare_on_device(const Problem& p, int sum_depth) {
  Verification found{.error_bound = relative_error_bound(sum_depth)};
  if (p.rows == 0) return found;

  DeviceFindings findings{.first_wrong = kNothingWrong, .max_error_bits = 0};
  const Buffer on_device(Memory::device, sizeof findings / sizeof(float));
  auto* device_findings = reinterpret_cast<DeviceFindings*>(on_device.data());
  cuda_check(
      cudaMemcpy(device_findings, &findings, sizeof findings, cudaMemcpyHostToDevice),
      "preparing the comparison");
  cuda_check(
      launch_compare_rows(p, found.error_bound, device_findings, nullptr),
      "starting the comparison");
  cuda_check(
      cudaMemcpy(&findings, device_findings, sizeof findings, cudaMemcpyDeviceToHost),
      "comparing with the reference");

  double max_error;
  std::memcpy(&max_error, &findings.max_error_bits, sizeof max_error);
  found.max_error = max_error;
  if (findings.first_wrong != kNothingWrong) {
    const auto index = static_cast<std::int64_t>(findings.first_wrong);
    const std::int64_t row = index / p.hidden;
    const std::vector<float> x = to_host(p.x + row * p.hidden, p.hidden);
    const std::vector<float> y = to_host(p.y + row * p.hidden, p.hidden);
    const std::vector<float> weight = to_host(p.weight, p.hidden);
    found.mismatch = describe(
        x.data(), weight.data(), y.data(), p, row, static_cast<int>(index % p.hidden),
        found.error_bound);
    found.complaint = sentence(*found.mismatch);
  }
  return found;
}

namespace {

/// What a kernel may touch of global memory.
std::vector<Tensor> tensors_of(const Problem& p) {
  const std::size_t row_bytes = sizeof(float) * p.hidden;
  return {
      {"x", p.x, row_bytes * p.rows, sizeof(float)},
      {"weight", p.weight, row_bytes, sizeof(float)},
      {"y", p.y, row_bytes * p.rows, sizeof(float)}};
}

Verification verify_launch(
    const Lesson& lesson, const Workload& workload, cudaStream_t stream, Watch watch) {
  const Problem p = workload.problem();
  const int sum_depth = lesson.sum_depth(p.hidden);
  const bool on_device = lesson.memory == Memory::device;
  const double bound = relative_error_bound(sum_depth);
  if (!(bound <= kLargestBound)) {
    return Verification{
        .max_error = {},
        .error_bound = bound,
        .complaint = fmt::format(
            "cannot be judged: rounding in {} additions could explain any error", sum_depth)};
  }
  workload.poison_y();
  const std::uint64_t hash = workload.hash_of_untouchables();

  if (watch == Watch::yes) start_observing(tensors_of(p));
  cudaError_t launched = lesson.launch(p, stream);
  if (on_device && launched == cudaSuccess)
    launched = cudaGetLastError();  // a lesson may forget to
  const cudaError_t ended = on_device ? cudaStreamSynchronize(stream) : cudaSuccess;
  Observation observation;
  if (watch == Watch::yes) observation = stop_observing();
  if (std::vector<std::string> hazards = take_hazards(); !hazards.empty()) {
    cudaGetLastError();
    return Verification{
        .max_error = {},
        .error_bound = bound,
        .complaint = hazards.front(),
        .hazards = hazards,
        .observation = observation};
  }
  if (launched != cudaSuccess) {
    if (!is_refused_launch(launched)) {
      cuda_check(launched, fmt::format("{}: the launch", lesson.slug));
    }
    cudaGetLastError();
    return Verification{
        .max_error = {},
        .error_bound = bound,
        .complaint = fmt::format("the launch failed: {}", cudaGetErrorString(launched))};
  }
  cuda_check(ended, fmt::format("{}: the kernel", lesson.slug));

  const bool small = static_cast<std::int64_t>(p.rows) * p.hidden <= kElementsForHost;
  Verification found =
      small || !on_device ? compare_on_host(p, sum_depth) : compare_on_device(p, sum_depth);
  found.observation = std::move(observation);
  if (const std::string guards = check_guards(workload); !guards.empty()) {
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
  Verification second = verify_launch(lesson, workload, stream, Watch::no);
  if (!second.ok()) second.complaint += " (at the second launch; the first was right)";
  second.observation = std::move(first.observation);
  return second;
}

}  // namespace rmsnorm
