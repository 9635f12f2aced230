#include "common/verify/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/cuda_check.hpp"
#include "common/contract/types.hpp"
#include "common/verify/element_check.hpp"

namespace rmsnorm {
namespace {

/// Errors after which the GPU takes further work: the launch was turned down, nothing ran.
bool is_refused_launch(cudaError_t error) {
  return error == cudaErrorInvalidConfiguration || error == cudaErrorInvalidValue ||
         error == cudaErrorLaunchOutOfResources || error == cudaErrorNoKernelImageForDevice ||
         error == cudaErrorInvalidDeviceFunction;
}

}  // namespace

Launched launch_and_wait(
    const Lesson& lesson, const std::function<cudaError_t()>& launch, std::vector<Tensor> tensors,
    cudaStream_t stream, Watch watch) {
  const bool on_device = lesson.memory == Memory::device;
  Launched result;
  if (watch == Watch::yes) start_observing(std::move(tensors));
  cudaError_t launched = launch();
  if (on_device && launched == cudaSuccess)
    launched = cudaGetLastError();  // a lesson may forget to
  const cudaError_t ended = on_device ? cudaStreamSynchronize(stream) : cudaSuccess;
  if (watch == Watch::yes) result.observation = stop_observing();
  if (result.hazards = take_hazards(); !result.hazards.empty()) {
    cudaGetLastError();
    result.complaint = result.hazards.front();
  } else if (launched != cudaSuccess) {
    if (!is_refused_launch(launched)) {
      cuda_check(launched, fmt::format("{}: the launch", lesson.slug));
    }
    cudaGetLastError();
    result.complaint = fmt::format("the launch failed: {}", cudaGetErrorString(launched));
  } else {
    cuda_check(ended, fmt::format("{}: the kernel", lesson.slug));
  }
  return result;
}

void add_tensor(
    std::vector<Tensor>& tensors, const char* name, const void* data, std::size_t elements,
    Dtype dtype) {
  if (data == nullptr) return;
  const auto bytes = static_cast<int>(bytes_of(dtype));
  tensors.push_back({name, data, elements * bytes, bytes});
}

std::string complaint_about_guards(const FencedTensor& tensor, const char* name, const char* size) {
  for (const int side : {0, 1}) {
    const std::size_t elements = FencedTensor::kGuardBytes / bytes_of(tensor.dtype());
    const std::vector<float> guard = to_floats(tensor.guard(side), tensor.dtype(), elements);
    const auto is_overwritten = [](float value) { return !is_poison(value); };
    const auto overwritten = std::count_if(guard.begin(), guard.end(), is_overwritten);
    if (overwritten == 0) continue;
    const auto first = std::find_if(guard.begin(), guard.end(), is_overwritten) - guard.begin();
    return side == 0 ? fmt::format("wrote {} elements before the start of {}", overwritten, name)
                     : fmt::format(
                           "wrote {} elements after the end of {}, the first at {}[{} + {}]",
                           overwritten, name, name, size, first);
  }
  return "";
}

}  // namespace rmsnorm
