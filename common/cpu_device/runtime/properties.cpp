/// \file
/// What a program can ask of the device.

#include <fmt/format.h>
#include <unistd.h>

#include <map>

#include "common/cpu_device/device.hpp"

using namespace rmsnorm::cpu_device;

namespace {

constexpr int kComputeMajor = 9;  // as an H200 has it

Runtime& runtime() {
  return device().runtime;
}

cudaError_t refuse_device(const char* call, int number) {
  return refuse(
      cudaErrorInvalidDevice, fmt::format("{}: there is no device {}, but device 0", call, number));
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* number) {
  *number = 0;
  return runtime().errors.has_to_fail("cudaGetDevice()") ? runtime().errors.note(cudaErrorNoDevice)
                                                         : cudaSuccess;
}

cudaError_t cudaSetDevice(int number) {
  return number == 0 ? cudaSuccess : refuse_device("cudaSetDevice()", number);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  const char* const call = "cudaGetDeviceProperties()";
  if (number != 0 || runtime().errors.has_to_fail(call)) return refuse_device(call, number);
  runtime().asked_for_multiprocessors = true;
  *properties = {
      .name = "CPU device",
      .totalGlobalMem = physical_memory(_SC_PHYS_PAGES),
      .sharedMemPerBlock = kSharedBytes,
      .sharedMemPerBlockOptin = kSharedBytesOptin,
      .warpSize = kWarpThreads,
      .maxThreadsPerBlock = kMaxThreads,
      .major = kComputeMajor,
      .minor = 0,
      .multiProcessorCount = runtime().grid.multiprocessors(),
      .l2CacheSize = 0,
      .maxThreadsPerMultiProcessor = kMaxThreadsOfSm,
      .maxBlocksPerMultiProcessor = kMaxBlocksOfSm,
      .sharedMemPerMultiprocessor = kSharedBytesOfSm,
      .reservedSharedMemPerBlock = kSharedBytesReserved,
      .regsPerBlock = kRegisters,
      .regsPerMultiprocessor = kRegisters,
      .maxThreadsDim = {1024, 1024, 64},
      .maxGridSize = {kMaxGridX, kMaxGridY, kMaxGridY},
      .cooperativeLaunch = 1};
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int number) {
  const char* const call = "cudaDeviceGetAttribute()";
  if (number != 0 || runtime().errors.has_to_fail(call)) return refuse_device(call, number);
  if (attribute == cudaDevAttrMultiProcessorCount) {
    runtime().asked_for_multiprocessors = true;
    *value = runtime().grid.multiprocessors();
    return cudaSuccess;
  }
  static const std::map<cudaDeviceAttr, int> kAttributes = {
      {cudaDevAttrMaxThreadsPerBlock, kMaxThreads},
      {cudaDevAttrMaxSharedMemoryPerBlock, kSharedBytes},
      {cudaDevAttrWarpSize, kWarpThreads},
      {cudaDevAttrComputeCapabilityMajor, kComputeMajor},
      {cudaDevAttrComputeCapabilityMinor, 0},
      {cudaDevAttrMaxBlockDimX, kMaxThreads},
      {cudaDevAttrMaxGridDimX, kMaxGridX},
      {cudaDevAttrMaxGridDimY, kMaxGridY},
      {cudaDevAttrMaxRegistersPerBlock, kRegisters},
      {cudaDevAttrMaxRegistersPerMultiprocessor, kRegisters},
      {cudaDevAttrL2CacheSize, 0},
      {cudaDevAttrMaxThreadsPerMultiProcessor, kMaxThreadsOfSm},
      {cudaDevAttrMaxBlocksPerMultiprocessor, kMaxBlocksOfSm},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, kSharedBytesOfSm},
      {cudaDevAttrCooperativeLaunch, 1},
      {cudaDevAttrMemoryPoolsSupported, 1},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, kSharedBytesOptin}};
  const auto found = kAttributes.find(attribute);
  if (found == kAttributes.end()) {
    return refuse(
        cudaErrorInvalidValue,
        fmt::format("cudaDeviceGetAttribute(): the CPU device has no attribute {}", +attribute));
  }
  *value = found->second;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  return runtime().streams.wait_for_all();
}

/// Nothing is left but the variables of kernels, which keep their values here.
cudaError_t cudaDeviceReset() {
  const cudaError_t before = cudaDeviceSynchronize();
  runtime().memory.release_all("cudaDeviceReset()");
  runtime().streams.forget_all();
  runtime().launches.forget_allowed();
  return before;
}
