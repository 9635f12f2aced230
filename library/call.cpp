#include "library/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace rmsnorm::library {
namespace {

thread_local char last_error[512] = "";

}  // namespace

void remember(std::string_view sentence) {
  const std::size_t size = std::min(sentence.size(), std::size(last_error) - 1);
  *std::copy_n(sentence.begin(), size, last_error) = '\0';
}

void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // it is reported here, and not to the caller's next question
  throw Refusal{
      RMSNORM_CUDA_ERROR, fmt::format("CUDA could not {}: {}", what, cudaGetErrorString(error))};
}

CurrentDevice::CurrentDevice(const View& tensor) {
  int devices = 0;
  check_cuda(cudaGetDeviceCount(&devices), "count its devices");
  if (tensor.device < 0 || tensor.device >= devices) {
    throw Refusal{
        RMSNORM_BAD_DEVICE, fmt::format(
                                "{} is on CUDA device {}: there {} {}", tensor.name, tensor.device,
                                devices == 1 ? "is only" : "are", devices)};
  }
  check_cuda(cudaGetDevice(&before_), "name the current device");
  if (tensor.device == before_) return;
  check_cuda(cudaSetDevice(tensor.device), "switch to the tensors' device");
  switched_ = true;
}

CurrentDevice::~CurrentDevice() {
  if (switched_) cudaSetDevice(before_);
}

void check_number(const char* name, float number, bool may_be_negative) {
  if (std::isfinite(number) && (may_be_negative || number >= 0)) return;
  throw Refusal{
      RMSNORM_BAD_VALUE, fmt::format(
                             "{} is {}: it needs to be finite{}", name, number,
                             may_be_negative ? "" : " and not negative")};
}

std::optional<View> weight_or_none(
    const char* name, const DLTensor* tensor, const View& x, float weight_bias) {
  check_number("weight_bias", weight_bias, true);
  if (tensor != nullptr) return weight_of(name, tensor, x);
  if (weight_bias == 0) return {};
  throw Refusal{
      RMSNORM_BAD_VALUE,
      fmt::format("weight_bias is {}, and {} null: it needs to be 0", weight_bias, name)};
}

}  // namespace rmsnorm::library

const char* rmsnorm_last_error(void) {
  return rmsnorm::library::last_error;
}
