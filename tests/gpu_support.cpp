#include "tests/gpu_support.hpp"

#include <algorithm>
#include <cstdlib>

#include "common/base/cuda_check.hpp"
#include "common/contract/registry.hpp"
#include "common/verify/verifier.hpp"
#include "tests/operations.hpp"

namespace tests {

using namespace rmsnorm;

std::string why_no_gpu() {
  try {
    find_gpu();
    return "";
  } catch (const NoGpu& reason) {
    return reason.what();
  }
}

std::vector<Implementation> gpu_implementations() {
  std::vector<Implementation> all = all_implementations();
  std::erase_if(all, [](const Implementation& i) { return i.memory == Memory::host; });
  return all;
}

void for_gpu_implementations(
    WorkloadSpec spec, const std::function<void(const Implementation&, const Workload&)>& test,
    const std::function<void(const Workload&)>& prepare) {
  for (const Operation* operation : operations()) {
    const Workload workload(*operation, spec);
    if (prepare) prepare(workload);
    for (const Implementation& implementation : gpu_implementations()) {
      if (implementation.operation == operation) test(implementation, workload);
    }
  }
}

/// Does a tool run the tests that takes minutes for what takes others seconds?
static bool is_slow() {
  return std::getenv("RMSNORM_TESTS_ARE_SLOW") != nullptr;  // sanitizer.sh, and a preset
}

int in_time(int repetitions) {
  return repetitions / (is_slow() || is_cpu_device() ? 4 : 1);
}

Shape in_time(int rows, int hidden) {
  if (!is_cpu_device() && !is_slow()) return {rows, hidden};
  // A block costs something too, however short its rows are.
  const int cost_of_row = std::max(hidden, 256);
  const int most = is_slow() ? 1 << 14 : 1 << 15;
  while (rows > 3 && std::int64_t{rows} * cost_of_row > most) rows /= 2;
  return {rows, hidden};
}

bool fits_on_gpu(int rows, int hidden, int matrices) {
  if (in_time(rows, hidden).rows < rows) {
    WARN("left out, for want of time: " << rows << " x " << hidden);
    return false;
  }
  std::size_t free = 0;
  std::size_t total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "asking for the free memory");
  const std::size_t bytes = std::size_t(rows) * hidden * sizeof(float) * matrices;
  if (bytes <= free / 10 * 9) return true;
  WARN("left out, for want of memory: " << rows << " x " << hidden);
  return false;
}

bool solves_or_says_why(
    const Implementation& implementation, const Workload& workload, cudaStream_t stream) {
  const WorkloadSpec& spec = workload.spec();
  CAPTURE(
      implementation.slug, workload.operation().name, spec.rows, spec.hidden, spec.misalign,
      spec.eps, spec.seed, to_string(spec.types), spec.types.weight_bias);
  const std::string reason = implementation.unsupported(workload.problem());
  if (reason.empty()) {
    // To watch larger problems would take long.
    const bool is_small = std::int64_t{spec.rows} * spec.hidden <= 1 << 14;
    const Verification found =
        verify(implementation, workload, stream, is_small ? Watch::yes : Watch::no);
    CHECK(found.complaint == "");
    if (can_watch() && is_small && spec.rows > 0) CHECK(!found.counts.lines.empty());
    return true;
  }
  const std::string slug = implementation.slug;
  CHECK_THAT(reason, Catch::Matchers::StartsWith(slug.substr(0, slug.find('/')) + " "));
  CHECK(reason.find('\n') == std::string::npos);
  return false;
}

}  // namespace tests
