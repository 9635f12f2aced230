#include "library/kernels/properties.hpp"

#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace rmsnorm::kernels {
namespace {

thread_local std::set<std::pair<int, const void*>> allowed;  // on a device, a kernel

}  // namespace

cudaError_t properties_of_device(const cudaDeviceProp** properties) {
  static std::mutex mutex;
  static std::map<int, cudaDeviceProp> known;  // by the device's number
  thread_local int last_device = -1;           // of this thread's last call: known without a lock
  thread_local const cudaDeviceProp* last = nullptr;
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  if (device == last_device) {
    *properties = last;
    return cudaSuccess;
  }
  const std::lock_guard lock(mutex);
  auto found = known.find(device);
  if (found == known.end()) {
    cudaDeviceProp queried{};
    error = cudaGetDeviceProperties(&queried, device);
    if (error != cudaSuccess) return error;
    found = known.emplace(device, queried).first;
  }
  *properties = last = &found->second;
  last_device = device;
  return cudaSuccess;
}

bool has_clusters() {
  const cudaDeviceProp* device = nullptr;
  return properties_of_device(&device) == cudaSuccess && device->major >= 9;
}

cudaError_t allow_shared_memory(const void* kernel, int bytes) {
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess || allowed.contains({device, kernel})) return error;
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error == cudaSuccess) allowed.insert({device, kernel});
  return error;
}

void forget_shared_memory() {
  allowed.clear();
}

}  // namespace rmsnorm::kernels
