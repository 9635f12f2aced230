#pragma once
/// \file
/// The device's global memory, and the error that a kernel left behind.

#include <cstddef>
#include <string>

#include "common/base/watching.hpp"
#include "common/cpu_device/include/cuda_runtime.h"

namespace rmsnorm::cpu_device {

/// What one cudaMalloc gave, or a variable of the device.
struct Allocation {
  char* data;                                  ///< its first byte
  std::size_t bytes;                           ///< its size
  cudaMemoryType type = cudaMemoryTypeDevice;  ///< who may touch it on a GPU
  bool is_symbol = false;                      ///< a variable, which nobody frees
};

/// The allocation that holds an address, or null.
const Allocation* find_allocation(const void* address);

/// The same as rmsnorm::take_failed_call().
std::string take_failed_call();

/// What the host has asked of the device until now.
HostCalls host_calls();

/// From now on all streams but one work as soon as events let them, or no longer. CUDA promises
/// nothing else: who needs an order has to ask for it.
void let_others_hurry(bool hurry, cudaStream_t patient);

/// Notes that a kernel could not go on: the next call that waits for it returns this.
void set_fault(cudaError_t error);

/// Lets no cluster have more blocks, and launches that ask for more return an error; 0: as many as
/// ever.
void limit_clusters(int blocks, cudaError_t error);

/// The same as rmsnorm::set_registers().
void set_registers(const std::string& symbol, int count);

/// Lets a call fail, as rmsnorm::let_call_fail() says.
void let_fail(int calls_before);

/// The same as rmsnorm::call_that_failed().
std::string call_that_failed();

}  // namespace rmsnorm::cpu_device
