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

double relative_error_bound(int sum_depth, const Types& types) {
  constexpr double kHalfUlp = 0x1p-24;
  const double of_mean = (sum_depth + 4.0) * kHalfUlp;
  if (of_mean >= 1) return INFINITY;
  const double of_factor = types.weight_bias == 0 ? 0 : kHalfUlp;
  return 1.01 * (1 / std::sqrt(1 - of_mean) - 1 + (4 + 2) * kHalfUlp + of_factor);
}

double largest_error(int sum_depth, const Types& types) {
  const double of_type = types.dtype == Dtype::fp32   ? 0
                         : types.dtype == Dtype::fp16 ? 0x1p-11
                                                      : 0x1p-8;
  return relative_error_bound(sum_depth, types) + of_type;
}

namespace {

/// With a bound above this, hardly anything would be wrong: tens of millions of additions in one
/// chain cannot be judged.
constexpr double kLargestBound = 0.1;

constexpr std::int64_t kElementsForHost = std::int64_t{1} << 20;

std::string sentence(const Mismatch& m) {
  if (m.unwritten) {
    return fmt::format(
        "row {}, column {} was not written (expected {:.7g})", m.row, m.col, m.expected);
  }
  return fmt::format(
      "{}row {}, column {}: expected {:.7g}, got {:.7g}, off by {:.2g} where {:.2g} is allowed",
      m.tensor, m.row, m.col, m.expected, m.got, std::abs(m.got - m.expected), m.allowed);
}

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
  Rows fetched{.normed = tensor(p.x), .y = tensor(p.y), .residual = {}, .factors = {}};
  if (p.residual != nullptr) {
    fetched.residual = tensor(p.residual);
    const std::vector<float> before = tensor(residual_before);
    for (std::size_t i = 0; i < size; ++i) fetched.normed[i] += before[i];
  }
  TypedProblem on_host = p;
  std::vector<float> weight;
  if (p.weight != nullptr) {
    weight = to_floats(p.weight, p.weight_dtype, p.hidden);
    on_host.weight = weight.data();
    on_host.weight_dtype = Dtype::fp32;
  }
  for (int col = 0; col < p.hidden; ++col) fetched.factors.push_back(factor_of(on_host, col));
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
  if (found.mismatch) found.complaint = sentence(*found.mismatch);
}

/// The memory around y must still hold what the verifier put there.
std::string check_guards(const Workload& workload) {
  for (const int side : {0, 1}) {
    const Dtype dtype = workload.spec().types.dtype;
    const std::vector<float> guard =
        to_floats(workload.y_guard(side), dtype, Workload::kGuardBytes / bytes_of(dtype));
    const auto is_overwritten = [](float value) { return !is_poison(value); };
    const auto overwritten = std::count_if(guard.begin(), guard.end(), is_overwritten);
    if (overwritten == 0) continue;
    const auto first = std::find_if(guard.begin(), guard.end(), is_overwritten) - guard.begin();
    return side == 0
               ? fmt::format("wrote {} elements before the start of y", overwritten)
               : fmt::format(
                     "wrote {} elements after the end of y, the first at y[rows * hidden + {}]",
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

/// What a kernel may touch of global memory.
std::vector<Tensor> tensors_of(const TypedProblem& p) {
  const std::size_t size = static_cast<std::size_t>(p.rows) * p.hidden;
  std::vector<Tensor> tensors;
  const auto add = [&](const char* name, const void* data, std::size_t elements, Dtype dtype) {
    if (data == nullptr) return;
    const auto bytes = static_cast<int>(bytes_of(dtype));
    tensors.push_back({name, data, elements * bytes, bytes});
  };
  add("x", p.x, size, p.dtype);
  add("weight", p.weight, p.hidden, p.weight_dtype);
  add("y", p.y, size, p.dtype);
  add("residual", p.residual, size, p.dtype);
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
  const auto compare = small || !on_device ? compare_on_host : compare_on_device;
  Verification found = compare(p, sum_depth, workload.residual_before());
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
