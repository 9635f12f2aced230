#include "tests/gpu_support.hpp"

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
    if (lesson.memory == Memory::device) lessons.push_back(lesson);
  }
  return lessons;
}

bool fits_on_gpu(int rows, int hidden) {
  std::size_t free = 0;
  std::size_t total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "asking for the free memory");
  if (Workload::bytes(rows, hidden, 1) <= free / 10 * 9) return true;
  WARN("left out, for want of memory: " << rows << " x " << hidden);
  return false;
}

bool solves_or_refuses(const Lesson& lesson, const Workload& workload, cudaStream_t stream) {
  const WorkloadSpec& spec = workload.spec();
  CAPTURE(lesson.slug, spec.rows, spec.hidden, spec.misalign, spec.eps);
  const std::string refusal = lesson.refuses(workload.problem());
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
