#pragma once
/// \file
/// The part of the CUDA runtime API that the device has, under CUDA's own names and with CUDA's own
/// error codes. What is not here does not compile; what the device can only turn down returns
/// cudaErrorNotSupported.

#include <cstddef>
#include <memory>

#include "common/cpu_device/start_kernel.hpp"

#define CUDART_VERSION 0  // there is no toolkit

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchOutOfResources = 701,
  cudaErrorMisalignedAddress = 716,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotSupported = 801,
};
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlock;
  std::size_t sharedMemPerBlockOptin;
  int warpSize;
  int maxThreadsPerBlock;
  int major, minor;
  int multiProcessorCount;
  int l2CacheSize;
};
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaDeviceSynchronize();

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault,
};
enum cudaMemoryType {
  cudaMemoryTypeUnregistered,
  cudaMemoryTypeHost,
  cudaMemoryTypeDevice,
  cudaMemoryTypeManaged,
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
};
cudaError_t cudaMalloc(void** data, std::size_t bytes);
template <class T>
cudaError_t cudaMalloc(T** data, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(data), bytes);
}
cudaError_t cudaFree(void* data);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
    cudaStream_t stream = nullptr);
cudaError_t cudaMemset(void* data, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(
    void* data, int value, std::size_t bytes, cudaStream_t stream = nullptr);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer);

// A stream's work is done when someone waits for it.
inline constexpr unsigned cudaStreamDefault = 0;
inline constexpr unsigned cudaStreamNonBlocking = 1;
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
typedef void (*cudaHostFn_t)(void* data);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data);

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
};
struct cudaFuncAttributes {
  std::size_t sharedSizeBytes;
  int maxThreadsPerBlock;
  int maxDynamicSharedSizeBytes;
};
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
template <class... Parameters>
cudaError_t cudaFuncSetAttribute(
    void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}

namespace rmsnorm::cpu_device {

/// The kernel's attributes. How much shared memory it declares shows when it runs: if it never has,
/// `empty` is run, in one block and in a process of its own.
cudaError_t attributes_of(cudaFuncAttributes* attributes, std::shared_ptr<Call> empty);

/// Notes cudaErrorNotSupported, and returns it.
cudaError_t not_supported();

}  // namespace rmsnorm::cpu_device

template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(Parameters...)) {
  return rmsnorm::cpu_device::attributes_of(
      attributes, std::make_shared<rmsnorm::cpu_device::CallOf<Parameters...>>(
                      kernel, std::remove_cvref_t<Parameters>{}...));
}

// Launches of one stream come one after the other: none begins before the last has ended. Whether a
// kernel whose launch may overlap waits for the one before it is watched all the same.
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttributeValue {
  int programmaticStreamSerializationAllowed;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(
    const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  rmsnorm::cpu_device::Launch launch(
      config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream);
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id != cudaLaunchAttributeProgrammaticStreamSerialization) continue;
    launch.may_overlap = attribute.val.programmaticStreamSerializationAllowed != 0;
  }
  kernel->*launch(std::forward<Arguments>(arguments)...);
  return cudaGetLastError();
}

// There is no clock, and so there are no events, and no graphs, which are there for the clock.
typedef struct CUevent_st* cudaEvent_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };
#define RMSNORM_NOT_SUPPORTED(function, ...)     \
  inline cudaError_t function(__VA_ARGS__) {     \
    return rmsnorm::cpu_device::not_supported(); \
  }
RMSNORM_NOT_SUPPORTED(cudaEventCreate, cudaEvent_t*)
RMSNORM_NOT_SUPPORTED(cudaEventDestroy, cudaEvent_t)
RMSNORM_NOT_SUPPORTED(cudaEventRecord, cudaEvent_t, cudaStream_t = nullptr)
RMSNORM_NOT_SUPPORTED(cudaEventSynchronize, cudaEvent_t)
RMSNORM_NOT_SUPPORTED(cudaEventElapsedTime, float*, cudaEvent_t, cudaEvent_t)
RMSNORM_NOT_SUPPORTED(cudaStreamBeginCapture, cudaStream_t, cudaStreamCaptureMode)
RMSNORM_NOT_SUPPORTED(cudaStreamEndCapture, cudaStream_t, cudaGraph_t*)
RMSNORM_NOT_SUPPORTED(cudaGraphGetNodes, cudaGraph_t, cudaGraphNode_t*, std::size_t*)
RMSNORM_NOT_SUPPORTED(cudaGraphDestroy, cudaGraph_t)
RMSNORM_NOT_SUPPORTED(
    cudaGraphInstantiateWithFlags, cudaGraphExec_t*, cudaGraph_t, unsigned long long)
RMSNORM_NOT_SUPPORTED(cudaGraphLaunch, cudaGraphExec_t, cudaStream_t)
RMSNORM_NOT_SUPPORTED(cudaGraphExecDestroy, cudaGraphExec_t)
#undef RMSNORM_NOT_SUPPORTED
