#include "common/verify/watched_launch.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/base/cuda_check.hpp"

namespace rmsnorm {
namespace {

/// Errors after which the GPU takes further work: the launch was turned down, nothing ran.
bool is_refused_launch(cudaError_t error) {
  return error == cudaErrorInvalidConfiguration || error == cudaErrorInvalidValue ||
         error == cudaErrorLaunchOutOfResources || error == cudaErrorNoKernelImageForDevice ||
         error == cudaErrorInvalidDeviceFunction;
}

}  // namespace

WatchedLaunch launch_and_wait(
    const Implementation& implementation, const Problem& problem, std::vector<KnownMemory> known,
    cudaStream_t stream, Watch watch) {
  const bool on_device = implementation.memory == Memory::device;
  WatchedLaunch result;
  if (watch == Watch::yes) start_observing(std::move(known));
  cudaError_t launched = implementation.launch(problem, stream);
  if (on_device && launched == cudaSuccess)
    launched = cudaGetLastError();  // a lesson may forget to
  const cudaError_t ended = on_device ? cudaStreamSynchronize(stream) : cudaSuccess;
  if (watch == Watch::yes) result.observation = stop_observing();
  if (result.hazards = take_hazards(); !result.hazards.empty()) {
    cudaGetLastError();
    result.complaint = result.hazards.front();
  } else if (launched != cudaSuccess) {
    if (!is_refused_launch(launched)) {
      cuda_check(launched, fmt::format("{}: the launch", implementation.slug));
    }
    cudaGetLastError();
    result.complaint = fmt::format("the launch failed: {}", cudaGetErrorString(launched));
  } else {
    cuda_check(ended, fmt::format("{}: the kernel", implementation.slug));
  }
  return result;
}

}  // namespace rmsnorm
