#include "library/kernels/properties.hpp"

#include <map>
#include <mutex>

namespace rmsnorm::kernels {

cudaError_t properties_of_device(const cudaDeviceProp** properties) {
  static std::mutex mutex;
  static std::map<int, cudaDeviceProp> known;  // by the device's number
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  const std::lock_guard lock(mutex);
  auto found = known.find(device);
  if (found == known.end()) {
    cudaDeviceProp asked{};
    error = cudaGetDeviceProperties(&asked, device);
    if (error != cudaSuccess) return error;
    found = known.emplace(device, asked).first;
  }
  *properties = &found->second;
  return cudaSuccess;
}

}  // namespace rmsnorm::kernels
