#pragma once
/// \file
/// Floats on the CPU device, and a launch that it watches.

#include <cuda_runtime.h>

#include <string>
#include <utility>
#include <vector>

#include "common/base/observation.hpp"
#include "common/tensors/buffer.hpp"

namespace tests {

/// Floats in the device's memory: 0, 1, 2, ...
struct Floats {
  explicit Floats(int size = 4096)
      : buffer(rmsnorm::Memory::device, static_cast<std::size_t>(size) * sizeof(float)) {
    for (int i = 0; i < size; ++i) data[i] = static_cast<float>(i);
  }
  rmsnorm::KnownMemory named(const std::string& name) const {
    return {name, data, buffer.bytes(), sizeof(float)};
  }

  rmsnorm::Buffer buffer;
  float* const data = reinterpret_cast<float*>(buffer.data());
};

/// What a launch left behind.
struct Outcome {
  rmsnorm::Observation seen;
  std::vector<std::string> hazards;
  cudaError_t at_launch;
  cudaError_t at_synchronise;
};

/// Watches a launch that may touch these tensors, and waits for it.
template <class Launch>
Outcome watch(std::vector<rmsnorm::KnownMemory> tensors, const Launch& launch) {
  rmsnorm::take_hazards();
  rmsnorm::start_observing(std::move(tensors));
  launch();
  Outcome outcome;
  outcome.at_launch = cudaGetLastError();
  outcome.at_synchronise = cudaDeviceSynchronize();
  cudaGetLastError();
  outcome.seen = rmsnorm::stop_observing();
  outcome.hazards = rmsnorm::take_hazards();
  return outcome;
}

}  // namespace tests
