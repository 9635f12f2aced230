#pragma once
/// \file
/// What the CPU device counted in a launch, and what was predicted.

#include <cstdint>
#include <string>

#include "common/contract/lesson.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/tensors/workload.hpp"

namespace rmsnorm {

/// A launch that was watched.
struct Watched {
  std::string operation;       ///< its name
  std::string implementation;  ///< the slug
  std::string regime;          ///< its name
  std::int64_t rows = 0;       ///< of x
  int hidden = 0;              ///< columns of x
  std::string sizes = {};      ///< the operation's others, as a Result's
  Types types = {};            ///< of the tensors
  Traffic predicted{};         ///< bytes of a row
  LaunchCounts counts;         ///< what was counted
};

/// The record of a launch of set 0.
inline Watched watched(
    const Implementation& implementation, const Workload& workload, std::string regime,
    LaunchCounts counts) {
  const WorkloadSpec& spec = workload.spec();
  return {
      .operation = workload.operation().name,
      .implementation = implementation.slug,
      .regime = std::move(regime),
      .rows = spec.rows,
      .hidden = spec.hidden,
      .sizes = text_of_sizes(workload.operation(), workload.problem()),
      .types = spec.types,
      .predicted = implementation.traffic(workload.problem()),
      .counts = std::move(counts)};
}

}  // namespace rmsnorm
