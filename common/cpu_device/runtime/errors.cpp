#include "common/cpu_device/runtime/errors.hpp"

#include <fmt/format.h>

#include "common/cpu_device/device.hpp"
#include "common/cpu_device/runtime/source_lines.hpp"

namespace rmsnorm::cpu_device {

cudaError_t Errors::note(cudaError_t error) {
  if (error != cudaSuccess) last_ = error;
  return error;
}

cudaError_t Errors::refuse(cudaError_t error, std::string why) {
  refused_ = {std::move(why), backtrace()};
  return note(error);
}

std::string Errors::text_of(const FailedCall& call) {
  if (call.why.empty()) return "";
  const SourceLine line = user_line(call.backtrace);
  return line.file.empty() ? call.why : fmt::format("{}: {}", place_text(line), call.why);
}

std::string Errors::take_refused() {
  return text_of(std::exchange(refused_, {}));
}

void Errors::let_fail(int calls_before) {
  calls_until_failure_ = calls_before;
  if (calls_before >= 0) made_to_fail_ = {};
}

bool Errors::has_to_fail(const char* call) {
  if (calls_until_failure_ < 0 || calls_until_failure_-- > 0) return false;
  made_to_fail_ = {call, backtrace()};
  return true;
}

std::string Errors::call_that_failed() const {
  return text_of(made_to_fail_);
}

cudaError_t refuse(cudaError_t error, std::string why) {
  return device().runtime.errors.refuse(error, std::move(why));
}

}  // namespace rmsnorm::cpu_device

using rmsnorm::cpu_device::device;

namespace {

/// An error's name, and what it means.
struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorUnsupportedPtxVersion, "cudaErrorUnsupportedPtxVersion",
     "the provided PTX was compiled with an unsupported toolchain."},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"},
    {cudaErrorInvalidClusterSize, "cudaErrorInvalidClusterSize", "Invalid cluster size"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
};

const char* of_error(cudaError_t wanted, const char* ErrorText::*member) {
  for (const ErrorText& known : kErrors) {
    if (known.error == wanted) return known.*member;
  }
  return "unrecognized error code";
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  return of_error(error, &ErrorText::name);
}

const char* cudaGetErrorString(cudaError_t error) {
  return of_error(error, &ErrorText::text);
}

cudaError_t cudaGetLastError() {
  return device().runtime.errors.take_last();
}

cudaError_t cudaPeekAtLastError() {
  return device().runtime.errors.last();
}
