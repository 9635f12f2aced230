#pragma once
/// \file
/// The GPU of this machine, if it can be used.

#include <cstddef>
#include <stdexcept>
#include <string>

namespace rmsnorm {

/// There is no GPU that this program can use. what() is one sentence with the reason.
struct NoGpu : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What the harness needs to know about the GPU.
struct Gpu {
  std::string name;        ///< "NVIDIA H200"
  std::string driver;      ///< the driver's version, "580.159.03"; or the newest CUDA it supports
  int multiprocessors;     ///< streaming multiprocessors (SMs)
  std::size_t l2_bytes;    ///< capacity of the L2 cache
  double peak_gbps;        ///< memory clock x bus width x 2 transfers a clock, GB/s
  std::size_t free_bytes;  ///< global memory free when the program started
};

/// The GPU that CUDA calls device 0 (CUDA_VISIBLE_DEVICES chooses another).
/// \throws NoGpu if there is none, the driver is missing or too old, or this program was built for
/// other architectures.
Gpu find_gpu();

}  // namespace rmsnorm
