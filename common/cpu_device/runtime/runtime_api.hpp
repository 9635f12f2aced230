#pragma once
/// \file
/// The part of the CUDA runtime API that the device has, under CUDA's own names and with CUDA's own
/// error codes. What is not here does not compile; what the device can only turn down returns
/// cudaErrorNotSupported.

#include <cstddef>
#include <memory>
#include <string>

#include "common/cpu_device/runtime/start_kernel.hpp"

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
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchOutOfResources = 701,
  cudaErrorAssert = 710,
  cudaErrorMisalignedAddress = 716,
  cudaErrorLaunchFailure = 719,
  cudaErrorCooperativeLaunchTooLarge = 720,
  cudaErrorNotSupported = 801,
  cudaErrorInvalidClusterSize = 912,
};
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxBlockDimX = 2,
  cudaDevAttrMaxGridDimX = 5,
  cudaDevAttrMaxGridDimY = 6,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMaxRegistersPerBlock = 12,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrMaxRegistersPerMultiprocessor = 82,
  cudaDevAttrCooperativeLaunch = 95,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMaxBlocksPerMultiprocessor = 106,
  cudaDevAttrMemoryPoolsSupported = 115,
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
  int maxThreadsPerMultiProcessor;
  int maxBlocksPerMultiProcessor;
  std::size_t sharedMemPerMultiprocessor;
  std::size_t reservedSharedMemPerBlock;
  int regsPerBlock;
  int regsPerMultiprocessor;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int cooperativeLaunch;
};
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceReset();

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
// What the host may touch as well is the same memory here.
inline constexpr unsigned cudaMemAttachGlobal = 1;
inline constexpr unsigned cudaHostAllocDefault = 0;
cudaError_t cudaMalloc(void** data, std::size_t bytes);
cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaMallocManaged(void** data, std::size_t bytes, unsigned = cudaMemAttachGlobal);
cudaError_t cudaMallocHost(void** data, std::size_t bytes, unsigned = cudaHostAllocDefault);
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned flags);
#define RMSNORM_TYPED(name, declarations, values)              \
  template <class T>                                           \
  cudaError_t name(T** data, std::size_t bytes declarations) { \
    return name(reinterpret_cast<void**>(data), bytes values); \
  }
#define RMSNORM_WITH(...) , __VA_ARGS__
RMSNORM_TYPED(cudaMalloc, , )
RMSNORM_TYPED(cudaMallocAsync, RMSNORM_WITH(cudaStream_t stream), RMSNORM_WITH(stream))
RMSNORM_TYPED(
    cudaMallocManaged, RMSNORM_WITH(unsigned flags = cudaMemAttachGlobal), RMSNORM_WITH(flags))
RMSNORM_TYPED(
    cudaMallocHost, RMSNORM_WITH(unsigned flags = cudaHostAllocDefault), RMSNORM_WITH(flags))
RMSNORM_TYPED(cudaHostAlloc, RMSNORM_WITH(unsigned flags), RMSNORM_WITH(flags))
#undef RMSNORM_TYPED
#undef RMSNORM_WITH
// Managed memory does not move: hints where it should be change nothing. In CUDA 12 a place is a
// number.
inline constexpr int cudaCpuDeviceId = -1;
enum cudaMemLocationType { cudaMemLocationTypeDevice = 1, cudaMemLocationTypeHost };
struct cudaMemLocation {
  cudaMemLocationType type;
  int id;
};
enum cudaMemoryAdvise {
  cudaMemAdviseSetReadMostly = 1,
  cudaMemAdviseUnsetReadMostly,
  cudaMemAdviseSetPreferredLocation,
  cudaMemAdviseUnsetPreferredLocation,
  cudaMemAdviseSetAccessedBy,
  cudaMemAdviseUnsetAccessedBy,
};
cudaError_t cudaMemAdvise(const void* data, std::size_t bytes, cudaMemoryAdvise, cudaMemLocation);
cudaError_t cudaMemPrefetchAsync(
    const void* data, std::size_t bytes, cudaMemLocation, unsigned flags,
    cudaStream_t stream = nullptr);
inline cudaError_t cudaMemAdvise(
    const void* data, std::size_t bytes, cudaMemoryAdvise advice, int device) {
  return cudaMemAdvise(data, bytes, advice, cudaMemLocation{cudaMemLocationTypeDevice, device});
}
inline cudaError_t cudaMemPrefetchAsync(
    const void* data, std::size_t bytes, int device, cudaStream_t stream = nullptr) {
  return cudaMemPrefetchAsync(
      data, bytes, cudaMemLocation{cudaMemLocationTypeDevice, device}, 0, stream);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaFree(void* data);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
    cudaStream_t stream = nullptr);
cudaError_t cudaMemset(void* data, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(
    void* data, int value, std::size_t bytes, cudaStream_t stream = nullptr);
cudaError_t cudaMemcpy2D(
    void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t bytes,
    std::size_t rows, cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DAsync(
    void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t bytes,
    std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream = nullptr);
cudaError_t cudaMemset2D(
    void* data, std::size_t pitch, int value, std::size_t bytes, std::size_t rows);
cudaError_t cudaMemset2DAsync(
    void* data, std::size_t pitch, int value, std::size_t bytes, std::size_t rows,
    cudaStream_t stream = nullptr);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer);

// A stream's work is done when someone waits for it.
inline constexpr unsigned cudaStreamDefault = 0;
inline constexpr unsigned cudaStreamNonBlocking = 1;
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
typedef void (*cudaHostFn_t)(void* data);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data);

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 14,
};
enum cudaSharedCarveout {
  cudaSharedmemCarveoutDefault = -1,
  cudaSharedmemCarveoutMaxShared = 100,
  cudaSharedmemCarveoutMaxL1 = 0,
};
enum cudaFuncCache {
  cudaFuncCachePreferNone,
  cudaFuncCachePreferShared,
  cudaFuncCachePreferL1,
  cudaFuncCachePreferEqual,
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
/// A hint alone.
template <class Kernel>
cudaError_t cudaFuncSetCacheConfig(Kernel*, cudaFuncCache) {
  return cudaSuccess;
}

namespace rmsnorm::cpu_device {

/// The kernel's attributes. How much shared memory it declares shows when it runs: if it never has,
/// `empty` is run, in one block and in a process of its own.
cudaError_t attributes_of(cudaFuncAttributes* attributes, std::shared_ptr<Call> empty);

/// Notes an error for cudaGetLastError(), with the reason, "cudaFree(): ...", and returns it.
cudaError_t refuse(cudaError_t error, std::string why);

/// The error of the last launch, which cudaGetLastError() gives, too; or cudaSuccess, whatever
/// other calls have left before.
cudaError_t error_of_last_launch();

/// Whether the blocks of a cooperative launch fit on the device together; if not, that is noted.
bool fits_together(const Launch& launch, std::shared_ptr<Call> empty);

/// The text of a kernel's printf(), as far as it is shown.
[[gnu::format(printf, 1, 2)]] int print(const char* format, ...);

/// Blocks of so many threads, and with so much dynamic shared memory, that fit on a multiprocessor;
/// registers are not known.
int blocks_that_fit(std::shared_ptr<Call> empty, int threads, std::size_t dynamic_bytes);

/// From now on, a variable is device memory, too.
char* address_of_symbol(const void* symbol, std::size_t bytes);

/// A call of the kernel with zeros.
template <class... Parameters>
std::shared_ptr<Call> empty_call(void (*kernel)(Parameters...)) {
  return std::make_shared<CallOf<Parameters...>>(kernel, std::remove_cvref_t<Parameters>{}...);
}

/// A launch with arguments that CUDA takes by their addresses.
template <class... Parameters>
cudaError_t launch_by_addresses(void (*kernel)(Parameters...), const Launch& launch, void** with) {
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    kernel->*launch(*static_cast<std::remove_cvref_t<Parameters>*>(with[i])...);
  }
  (std::index_sequence_for<Parameters...>());
  return error_of_last_launch();
}

}  // namespace rmsnorm::cpu_device

template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(Parameters...)) {
  return rmsnorm::cpu_device::attributes_of(attributes, rmsnorm::cpu_device::empty_call(kernel));
}
template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int* blocks, void (*kernel)(Parameters...), int threads, std::size_t dynamic_bytes) {
  *blocks = rmsnorm::cpu_device::blocks_that_fit(
      rmsnorm::cpu_device::empty_call(kernel), threads, dynamic_bytes);
  return cudaSuccess;
}
/// As large a block as fits.
template <class... Parameters>
cudaError_t cudaOccupancyMaxPotentialBlockSize(
    int* blocks, int* threads, void (*kernel)(Parameters...), std::size_t dynamic_bytes = 0,
    int most_threads = 0) {
  *threads = most_threads == 0 ? 1024 : most_threads;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, *threads, dynamic_bytes);
}

template <class... Parameters>
cudaError_t cudaLaunchKernel(
    void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
    std::size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
  return rmsnorm::cpu_device::launch_by_addresses(
      kernel, {grid, block, shared_bytes, stream}, arguments);
}
template <class... Parameters>
cudaError_t cudaLaunchCooperativeKernel(
    void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
    std::size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
  rmsnorm::cpu_device::Launch launch(grid, block, shared_bytes, stream);
  if (!rmsnorm::cpu_device::fits_together(launch, rmsnorm::cpu_device::empty_call(kernel))) {
    return cudaErrorCooperativeLaunchTooLarge;
  }
  launch.is_cooperative = true;
  return rmsnorm::cpu_device::launch_by_addresses(kernel, launch, arguments);
}

// A symbol is a variable that is __device__ or __constant__.
template <class T>
cudaError_t cudaGetSymbolSize(std::size_t* bytes, const T&) {
  *bytes = sizeof(T);
  return cudaSuccess;
}
template <class T>
cudaError_t cudaGetSymbolAddress(void** address, const T& symbol) {
  *address = rmsnorm::cpu_device::address_of_symbol(&symbol, sizeof(T));
  return cudaSuccess;
}
template <class T>
cudaError_t cudaGetSymbolAddress(T** address, const auto& symbol) {
  return cudaGetSymbolAddress(reinterpret_cast<void**>(address), symbol);
}
template <class T>
cudaError_t cudaMemcpyToSymbol(
    const T& symbol, const void* from, std::size_t bytes, std::size_t offset = 0,
    cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return cudaMemcpy(
      rmsnorm::cpu_device::address_of_symbol(&symbol, sizeof(T)) + offset, from, bytes, kind);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(
    const T& symbol, const void* from, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind,
    cudaStream_t stream = nullptr) {
  return cudaMemcpyAsync(
      rmsnorm::cpu_device::address_of_symbol(&symbol, sizeof(T)) + offset, from, bytes, kind,
      stream);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(
    void* to, const T& symbol, std::size_t bytes, std::size_t offset = 0,
    cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return cudaMemcpy(
      to, rmsnorm::cpu_device::address_of_symbol(&symbol, sizeof(T)) + offset, bytes, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(
    void* to, const T& symbol, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind,
    cudaStream_t stream = nullptr) {
  return cudaMemcpyAsync(
      to, rmsnorm::cpu_device::address_of_symbol(&symbol, sizeof(T)) + offset, bytes, kind, stream);
}

// Launches of one stream come one after the other: none begins before the last has ended. Whether a
// kernel whose launch may overlap waits for the one before it is watched all the same.
enum cudaLaunchAttributeID {
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6,
};
union cudaLaunchAttributeValue {
  int cooperative;
  int programmaticStreamSerializationAllowed;
  struct {
    unsigned x, y, z;
  } clusterDim;  // of which this device knows x
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
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      launch.may_overlap = attribute.val.programmaticStreamSerializationAllowed != 0;
    } else if (attribute.id == cudaLaunchAttributeClusterDimension) {
      const auto& [x, y, z] = attribute.val.clusterDim;
      if (y != 1 || z != 1) {
        return rmsnorm::cpu_device::refuse(
            cudaErrorNotSupported, "cudaLaunchKernelEx(): the CPU device has clusters in x alone");
      }
      launch.cluster = static_cast<int>(std::min(x, ~0u / 2));
    } else if (attribute.id == cudaLaunchAttributeCooperative && attribute.val.cooperative != 0) {
      if (!rmsnorm::cpu_device::fits_together(launch, rmsnorm::cpu_device::empty_call(kernel))) {
        return cudaErrorCooperativeLaunchTooLarge;
      }
      launch.is_cooperative = true;
    }
  }
  kernel->*launch(std::forward<Arguments>(arguments)...);
  return rmsnorm::cpu_device::error_of_last_launch();
}

/// Clusters that the device holds at the same time.
template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveClusters(
    int* clusters, void (*kernel)(Parameters...), const cudaLaunchConfig_t* config) {
  int blocks = 0;
  int multiprocessors = 0;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  const dim3 block = config->blockDim;
  const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, kernel, static_cast<int>(block.x * block.y * block.z), config->dynamicSmemBytes);
  unsigned cluster = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeClusterDimension) cluster = attribute.val.clusterDim.x;
  }
  *clusters = blocks * multiprocessors / static_cast<int>(std::max(cluster, 1u));
  return error;
}

// Events put streams in an order. There is no clock, and there are no graphs.
typedef struct CUevent_st* cudaEvent_t;
inline constexpr unsigned cudaEventDefault = 0;
inline constexpr unsigned cudaEventBlockingSync = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
/// There is no time: it is NaN, and so is what a program makes of it.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };
#define RMSNORM_NOT_SUPPORTED(function, ...)                                     \
  inline cudaError_t function(__VA_ARGS__) {                                     \
    return rmsnorm::cpu_device::refuse(                                          \
        cudaErrorNotSupported, #function "(): the CPU device does not have it"); \
  }
RMSNORM_NOT_SUPPORTED(cudaStreamBeginCapture, cudaStream_t, cudaStreamCaptureMode)
RMSNORM_NOT_SUPPORTED(cudaStreamEndCapture, cudaStream_t, cudaGraph_t*)
RMSNORM_NOT_SUPPORTED(cudaGraphGetNodes, cudaGraph_t, cudaGraphNode_t*, std::size_t*)
RMSNORM_NOT_SUPPORTED(cudaGraphDestroy, cudaGraph_t)
RMSNORM_NOT_SUPPORTED(
    cudaGraphInstantiateWithFlags, cudaGraphExec_t*, cudaGraph_t, unsigned long long)
RMSNORM_NOT_SUPPORTED(cudaGraphLaunch, cudaGraphExec_t, cudaStream_t)
RMSNORM_NOT_SUPPORTED(cudaGraphExecDestroy, cudaGraphExec_t)
#undef RMSNORM_NOT_SUPPORTED
