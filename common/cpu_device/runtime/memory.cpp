#include "common/cpu_device/runtime/memory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <iterator>
#include <string>
#include <vector>

#include "common/cpu_device/device.hpp"
#include "common/cpu_device/runtime/device_memory.hpp"

namespace rmsnorm::cpu_device {

std::size_t physical_memory(int pages) {
  return static_cast<std::size_t>(sysconf(pages)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

cudaError_t Memory::allocate(
    const char* call, void** data, std::size_t bytes, cudaMemoryType type) {
  constexpr std::size_t kLarge = 1 << 24;  // bytes that a sample should not have to fill
  *data = nullptr;
  if (errors_.has_to_fail(call)) return errors_.note(cudaErrorMemoryAllocation);
  if (bytes == 0) return cudaSuccess;
  // Linux would promise more than there is.
  const bool is_sample = grid_.sampler().is_on();
  const bool is_too_large = !is_sample && bytes > physical_memory(_SC_PHYS_PAGES);
  char* memory = nullptr;
  if (is_sample && bytes >= kLarge) {
    memory = take_repeated_memory(bytes, std::string(kLarge, '\xff'));
  } else if (!is_too_large) {
    memory = take_device_memory(bytes);
  }
  if (memory == nullptr) {
    return errors_.refuse(
        cudaErrorMemoryAllocation, fmt::format("{}: there are no {} bytes left", call, bytes));
  }
  *data = memory;
  all_[memory] = {memory, bytes, type};
  if (type == cudaMemoryTypeDevice && !is_sample)
    grid_.observer().allocated(memory, bytes);  // the host fills others
  return cudaSuccess;
}

char* Memory::repeat(std::size_t bytes, std::string_view pattern) {
  char* const data = take_repeated_memory(bytes, pattern);
  if (data != nullptr) all_[data] = {data, bytes, cudaMemoryTypeDevice, false, true};
  return data;
}

cudaError_t Memory::release(const char* call, void* data) {
  const auto found = all_.find(static_cast<char*>(data));
  if (found == all_.end() || found->second.is_symbol) {
    return errors_.refuse(
        cudaErrorInvalidValue,
        fmt::format("{}: it was not allocated, is a part of what was, or is free already", call));
  }
  grid_.observer().freed(data);
  give_back_device_memory(found->second.data, found->second.bytes);
  all_.erase(found);
  return cudaSuccess;
}

void Memory::release_all(const char* call) {
  std::vector<void*> memory;
  for (const auto& [begin, allocation] : all_) {
    if (!allocation.is_symbol) memory.push_back(allocation.data);
  }
  for (void* const data : memory) release(call, data);
}

char* Memory::add_symbol(const void* symbol, std::size_t bytes) {
  auto* const data = static_cast<char*>(const_cast<void*>(symbol));
  all_[data] = {data, bytes, cudaMemoryTypeDevice, true};
  return data;
}

const Allocation* Memory::find(const void* address) const {
  const auto* byte = static_cast<const char*>(address);
  auto after = all_.upper_bound(byte);
  if (after == all_.begin()) return nullptr;
  const Allocation& candidate = std::prev(after)->second;
  return byte < candidate.data + candidate.bytes ? &candidate : nullptr;
}

cudaError_t Memory::hint(const char* call, const void* data, std::size_t bytes) {
  const Allocation* const found = find(data);
  if (found != nullptr && found->type == cudaMemoryTypeManaged && is_long_enough(data, bytes))
    return cudaSuccess;
  return errors_.refuse(
      cudaErrorInvalidValue, fmt::format("{}: these are not all managed memory", call));
}

bool Memory::is_long_enough(const void* data, std::size_t bytes) const {
  const Allocation* allocation = find(data);
  if (allocation == nullptr) return true;
  const auto* end = allocation->data + allocation->bytes;
  return bytes <= static_cast<std::size_t>(end - static_cast<const char*>(data));
}

char* address_of_symbol(const void* symbol, std::size_t bytes) {
  return device().runtime.memory.add_symbol(symbol, bytes);
}

}  // namespace rmsnorm::cpu_device

using namespace rmsnorm::cpu_device;

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return device().runtime.memory.allocate("cudaMalloc()", data, bytes);
}

cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t stream) {
  const char* const call = "cudaMallocAsync()";
  Streams& streams = device().runtime.streams;
  if (streams.queue_of(stream) == nullptr) return streams.refuse_stream(call);
  return device().runtime.memory.allocate(call, data, bytes);
}

cudaError_t cudaMallocManaged(void** data, std::size_t bytes, unsigned) {
  return device().runtime.memory.allocate(
      "cudaMallocManaged()", data, bytes, cudaMemoryTypeManaged);
}

cudaError_t cudaMemAdvise(const void* data, std::size_t bytes, cudaMemoryAdvise, cudaMemLocation) {
  return device().runtime.memory.hint("cudaMemAdvise()", data, bytes);
}

cudaError_t cudaMemPrefetchAsync(
    const void* data, std::size_t bytes, cudaMemLocation, unsigned, cudaStream_t stream) {
  const char* const call = "cudaMemPrefetchAsync()";
  Streams& streams = device().runtime.streams;
  if (streams.queue_of(stream) == nullptr) return streams.refuse_stream(call);
  return device().runtime.memory.hint(call, data, bytes);
}

cudaError_t cudaMallocHost(void** data, std::size_t bytes, unsigned) {
  return device().runtime.memory.allocate("cudaMallocHost()", data, bytes, cudaMemoryTypeHost);
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  return cudaMallocHost(data, bytes);
}

cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  const cudaError_t before = cudaDeviceSynchronize();
  const cudaError_t freed = device().runtime.memory.release("cudaFree()", data);
  return freed == cudaSuccess ? before : freed;
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  if (data == nullptr) return cudaSuccess;
  const char* const call = "cudaFreeAsync()";
  return device().runtime.streams.add(
      call, stream, [call, data] { device().runtime.memory.release(call, data); });
}

cudaError_t cudaFreeHost(void* data) {
  return cudaFree(data);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = physical_memory(_SC_AVPHYS_PAGES);
  *total = physical_memory(_SC_PHYS_PAGES);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const Allocation* const found = device().runtime.memory.find(pointer);
  attributes->type = found != nullptr ? found->type : cudaMemoryTypeUnregistered;
  attributes->device = found != nullptr ? 0 : -1;
  return cudaSuccess;
}
