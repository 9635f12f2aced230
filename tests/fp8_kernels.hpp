#pragma once
/// \file
/// CUDA's conversions to 8 bits and back, on the device.

#include <cuda_runtime.h>

#include <cstdint>

namespace tests {

/// Of these 16 bits, all that is made of them: as a half, as a bf16, and as the upper half of a
/// float with these lower ones.
struct InFp8 {
  static constexpr std::uint32_t kLower[] = {0x0001, 0x7fff, 0x8000, 0x8001};
  /// By type (e4m3, e5m2), and by what becomes of a number out of range (saturates, or leaves).
  std::uint8_t of_half[2][2], of_bf16[2][2], of_float[2][2][4];
  std::uint16_t of_floats[2];  ///< of the first float and its negative, by type
  std::uint16_t half[2];       ///< what the lower 8 bits are as a half, by type
};

/// Enqueues a launch that fills out[i] for all i below 0x10000. What the runtime says of it.
cudaError_t start_convert_to_fp8(InFp8* out);

}  // namespace tests
