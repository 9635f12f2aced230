#pragma once
/// \file
/// The device's global memory: what cudaMalloc has given.

#include <cstddef>
#include <map>
#include <string_view>

#include "common/cpu_device/runtime/errors.hpp"
#include "common/cpu_device/scheduler/grid.hpp"

namespace rmsnorm::cpu_device {

/// What one cudaMalloc gave, or a variable of the device.
struct Allocation {
  char* data;                                  ///< its first byte
  std::size_t bytes;                           ///< its size
  cudaMemoryType type = cudaMemoryTypeDevice;  ///< who may touch it on a GPU
  bool is_symbol = false;                      ///< a variable, which nobody frees
  bool is_repeated = false;  ///< its pages take no memory until they are written to
};

/// The bytes of this machine's memory: _SC_PHYS_PAGES for all, _SC_AVPHYS_PAGES for what is left.
std::size_t physical_memory(int pages);

/// All allocations.
class Memory {
 public:
  /// Tells the grid's observer of each, and notes what goes wrong.
  Memory(GridRunner& grid, Errors& errors) : grid_(grid), errors_(errors) {}

  /// Adds one, for the call of this name.
  cudaError_t allocate(
      const char* call, void** data, std::size_t bytes, cudaMemoryType type = cudaMemoryTypeDevice);
  cudaError_t release(const char* call, void* data);  ///< gives it back
  void release_all(const char* call);                 ///< but for the variables
  /// From now on, a variable is device memory, too.
  char* add_symbol(const void* symbol, std::size_t bytes);
  char* repeat(std::size_t bytes, std::string_view pattern);  ///< take_repeated_memory(); or null

  /// The one that holds an address, or null.
  const Allocation* find(const void* address) const;
  /// Whether what begins at `data` has that many bytes; of the host's memory it is not known.
  bool is_long_enough(const void* data, std::size_t bytes) const;
  /// Managed memory stays where it is; other memory is refused.
  cudaError_t hint(const char* call, const void* data, std::size_t bytes);
  std::size_t count() const { return all_.size(); }  ///< of them

 private:
  GridRunner& grid_;
  Errors& errors_;
  std::map<const char*, Allocation> all_;
};

}  // namespace rmsnorm::cpu_device
