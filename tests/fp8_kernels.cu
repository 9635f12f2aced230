#include <cuda_fp8.h>

#include "common/base/half.hpp"
#include "tests/fp8_kernels.hpp"

namespace tests {
namespace {

__global__ void convert_to_fp8(InFp8* out) {
  const unsigned upper = blockIdx.x * blockDim.x + threadIdx.x;
  __half_raw half;
  half.x = static_cast<unsigned short>(upper);
  __nv_bfloat16_raw bf16;
  bf16.x = static_cast<unsigned short>(upper);
  const unsigned lower[] = {0x0001, 0x7fff, 0x8000, 0x8001};
  InFp8& made = out[upper];
  for (int t = 0; t < 2; ++t) {
    const __nv_fp8_interpretation_t type = t == 0 ? __NV_E4M3 : __NV_E5M2;
    for (int o = 0; o < 2; ++o) {
      const __nv_saturation_t saturation = o == 0 ? __NV_SATFINITE : __NV_NOSAT;
      made.of_half[t][o] = __nv_cvt_halfraw_to_fp8(half, saturation, type);
      made.of_bf16[t][o] = __nv_cvt_bfloat16raw_to_fp8(bf16, saturation, type);
      for (int k = 0; k < 4; ++k) {
        const float value = rmsnorm::float_of(upper << 16 | lower[k]);
        made.of_float[t][o][k] = __nv_cvt_float_to_fp8(value, saturation, type);
      }
    }
    const float value = rmsnorm::float_of(upper << 16 | lower[0]);
    made.of_floats[t] = __nv_cvt_float2_to_fp8x2(make_float2(value, -value), __NV_SATFINITE, type);
    made.half[t] = __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(upper), type).x;
  }
}

}  // namespace

cudaError_t start_convert_to_fp8(InFp8* out) {
  constexpr unsigned kThreads = 256;
  convert_to_fp8<<<0x10000 / kThreads, kThreads>>>(out);
  return cudaGetLastError();
}

}  // namespace tests
