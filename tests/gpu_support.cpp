#include "tests/gpu_support.hpp"

#include <algorithm>

#include "common/base/cuda_check.hpp"
#include "common/contract/registry.hpp"
#include "common/measure/gpu.hpp"
#include "common/verify/verifier.hpp"

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
    if (lesson.memory == Memory::device && !lesson.is_backward()) lessons.push_back(lesson);
  }
  return lessons;
}

void for_gpu_lessons(
    WorkloadSpec spec, const std::function<void(const Lesson&, const Workload&)>& test,
    const std::function<void(const Workload&)>& prepare) {
  for (const bool residual : {false, true}) {
    spec.residual = residual;
    const Workload workload(spec);
    if (prepare) prepare(workload);
    for (const Lesson& lesson : gpu_lessons()) {
      if (lesson.residual == residual) test(lesson, workload);
    }
  }
}

Shape in_time(int rows, int hidden) {
  if (!is_cpu_device()) return {rows, hidden};
  // A block costs something too, however short its rows are.
  const int cost_of_row = std::max(hidden, 1024);
  const int most = can_observe() ? 1 << 18 : 1 << 16;  // with sanitizers, it takes longer
  while (rows > 3 && std::int64_t{rows} * cost_of_row > most) rows /= 2;
  return {rows, hidden};
}

bool fits_on_gpu(int rows, int hidden, int tensors) {
  if (in_time(rows, hidden).rows < rows) {
    WARN("left out, for want of time: " << rows << " x " << hidden);
    return false;
  }
  std::size_t free = 0;
  std::size_t total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "asking for the free memory");
  if (Workload::bytes({.rows = rows, .hidden = hidden}) / 2 * tensors <= free / 10 * 9) return true;
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
