#pragma once
/// \file
/// How far a fence or an atomic operation reaches.

namespace rmsnorm::cpu_device {

/// For which threads it is one.
enum class Scope {
  block,   ///< those of the block: __threadfence_block(), atomicAdd_block()
  device,  ///< all: __threadfence(), atomicAdd()
};

}  // namespace rmsnorm::cpu_device
