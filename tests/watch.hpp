#pragma once
/// \file
/// Floats on the device, and a launch that it watches, if it can.

#include <cuda_runtime.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/cpu_device/interface/watching.hpp"
#include "common/tensors/buffer.hpp"

namespace tests {

/// 0, 1, 2, ...
inline std::vector<float> count_to(int size) {
  std::vector<float> numbers(static_cast<std::size_t>(size));
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  return numbers;
}

/// Floats in the device's memory.
struct Floats {
  explicit Floats(int size = 4096) : Floats(count_to(size)) {}
  explicit Floats(const std::vector<float>& numbers)
      : buffer(rmsnorm::Memory::device, numbers.size() * sizeof(float)) {
    rmsnorm::from_floats(numbers, data, rmsnorm::Dtype::fp32);
  }
  std::vector<float> values() const {
    return rmsnorm::to_floats(data, rmsnorm::Dtype::fp32, buffer.bytes() / sizeof(float));
  }
  rmsnorm::KnownMemory named(const std::string& name) const {
    return {name, data, buffer.bytes(), sizeof(float)};
  }

  rmsnorm::Buffer buffer;
  float* const data = reinterpret_cast<float*>(buffer.data());
};

/// What a launch left behind.
struct Outcome {
  rmsnorm::LaunchCounts seen;
  std::vector<std::string> hazards;
  cudaError_t at_launch;
  cudaError_t at_synchronise;
};

/// Watches a launch that may touch these tensors, and waits for it.
template <class Launch>
Outcome watch(
    std::vector<rmsnorm::KnownMemory> tensors, const Launch& launch, bool records_steps = false) {
  rmsnorm::take_hazards();
  rmsnorm::start_watching(std::move(tensors), records_steps);
  launch();
  Outcome outcome;
  outcome.at_launch = cudaGetLastError();
  outcome.at_synchronise = cudaDeviceSynchronize();
  cudaGetLastError();
  outcome.seen = rmsnorm::stop_watching();
  outcome.hazards = rmsnorm::take_hazards();
  return outcome;
}

}  // namespace tests
