#include "common/tensors/any_workload.hpp"

#include <memory>

#include "common/contract/types.hpp"

namespace rmsnorm {

std::string why_refused(const Lesson& lesson, const Workload& workload) {
  return why_refused(lesson, workload.typed_problem());
}

std::string why_refused(const Lesson& lesson, const BackwardWorkload& workload) {
  const auto refuses = lesson.backward.refuses;
  return refuses == nullptr ? "" : refuses(workload.problem());
}

Traffic predicted_traffic(const Lesson& lesson, const Workload& workload) {
  return lesson.traffic(workload.typed_problem());
}

Traffic predicted_traffic(const Lesson& lesson, const BackwardWorkload& workload) {
  return lesson.backward.traffic(workload.problem());
}

LaunchOnSet launch_of(const Lesson& lesson, const Workload& workload) {
  return [&](int set, cudaStream_t stream) {
    return lesson.launch(workload.typed_problem(set), stream);
  };
}

LaunchOnSet launch_of(const Lesson& lesson, const BackwardWorkload& workload) {
  // One for all sets, as in a framework, which gives the same memory to the next that asks.
  const auto workspace =
      std::make_shared<const FencedTensor>(workload.workspace_for(lesson.backward));
  return [&lesson, &workload, workspace](int set, cudaStream_t stream) {
    BackwardProblem p = workload.problem(set);
    p.workspace = workspace->data();
    return lesson.backward.launch(p, stream);
  };
}

}  // namespace rmsnorm
