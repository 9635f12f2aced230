#pragma once
/// \file
/// What a GPU can do, measured: latency and bandwidth of its memories, conflicts of banks, and how
/// often it issues an instruction.

#include <stdexcept>
#include <vector>

#include "common/measure/gpu.hpp"
#include "common/records/machine_row.hpp"

namespace rmsnorm {

/// A kernel that measures did not read or compute what it had to: its time says nothing.
struct WrongProbe : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Measures everything that a MachineRow can hold: strides from 0 to 33 words, sets from 4 KiB to
/// 1 GiB (less where a quarter of the free memory is less), bandwidths over bytes in flight, and
/// three instructions.
/// The rows' fields from `device` on are the caller's to fill. \throws CudaError, WrongProbe
std::vector<MachineRow> measure_machine(const Gpu& gpu);

/// Clusters of so many blocks, one on an SM, that the GPU has room for at a time: 0 if it takes
/// none of that size, as before Hopper. \throws CudaError
int clusters_at_a_time(int blocks);

}  // namespace rmsnorm
