#pragma once
/// \file
/// Switching from one stack to another: our own twelve instructions on x86-64, where they save a
/// third of the device's time, and Boost.Context on other processors.

#include <cstddef>

namespace rmsnorm::cpu_device {

/// A context that will run entry() on a stack of `stack_bytes` bytes that ends at `stack_top`, a
/// multiple of 16. entry() must not return.
void* make_context(char* stack_top, std::size_t stack_bytes, void (*entry)());

/// Leaves the running code, to which *save then leads, for the context `to`.
extern "C" void rmsnorm_switch_context(void** save, void* to);

}  // namespace rmsnorm::cpu_device
