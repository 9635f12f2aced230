#include "tests/gpu_support.hpp"

#include <algorithm>

#include "common/cuda_check.hpp"
#include "common/gpu.hpp"
#include "common/registry.hpp"
#include "common/verifier.hpp"

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

std::vector<Lesson> gpu_lessons() {
  std::vector<Lesson> lessons;
  for (const Lesson& lesson : all_lessons()) {
    // Others have problems of their own, which the gauntlet runs them on.
    const bool is_plain = !lesson.is_backward() && !lesson.residual;
    if (lesson.memory == Memory::device && is_plain) lessons.push_back(lesson);
  }
  return lessons;
}

Shape in_time(int rows, int hidden) {
  if (!is_cpu_device()) return {rows, hidden};
  // A block costs something too, however short its rows are.
  const int cost_of_row = std::max(hidden, 1024);
  const int most = can_observe() ? 1 << 18 : 1 << 16;  // with sanitizers, it takes longer
  while (rows > 3 && std::int64_t{rows} * cost_of_row > most) rows /= 2;
  return {rows, hidden};
}

bool fits_on_gpu(int rows, int hidden) {
  if (in_time(rows, hidden).rows < rows) {
    WARN("left out, for want of time: " << rows << " x " << hidden);
    return false;
  }
  std::size_t free = 0;
  std::size_t total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "asking for the free memory");
  if (Workload::bytes({.rows = rows, .hidden = hidden}) <= free / 10 * 9) return true;
  WARN("left out, for want of memory: " << rows << " x " << hidden);
  return false;
}

bool solves_or_refuses(const Lesson& lesson, const Workload& workload, cudaStream_t stream) {
  const WorkloadSpec& spec = workload.spec();
  CAPTURE(lesson.slug, spec.rows, spec.hidden, spec.misalign, spec.eps);
  const std::string refusal = why_refused(lesson, workload.typed_problem());
  if (refusal.empty()) {
    CHECK(verify(lesson, workload, stream).complaint == "");
    return true;
  }
  const std::string slug = lesson.slug;
  CHECK_THAT(refusal, Catch::Matchers::StartsWith(slug.substr(0, slug.find('/')) + " "));
  CHECK(refusal.find('\n') == std::string::npos);
  return false;
}

}  // namespace tests
