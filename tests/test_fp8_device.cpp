/// \file
/// CUDA's conversions to 8 bits on the device: those of a GPU, or of the CPU device.

#include <cmath>
#include <vector>

#include "common/base/fp8.hpp"
#include "common/tensors/buffer.hpp"
#include "tests/fp8_kernels.hpp"
#include "tests/gpu_support.hpp"

using namespace rmsnorm;

TEST_CASE("the device makes the same 8 bits of every half and bf16 and of a sweep of floats") {
  NEEDS_GPU();
  constexpr std::uint32_t kPatterns = 0x10000;
  const Buffer out(Memory::device, kPatterns * sizeof(tests::InFp8));
  REQUIRE(tests::start_convert_to_fp8(reinterpret_cast<tests::InFp8*>(out.data())) == cudaSuccess);
  std::vector<tests::InFp8> made(kPatterns);
  copy_bytes(made.data(), out.data(), out.bytes());
  int wrong = 0;
  const auto same = [&](int got, int expected, std::uint32_t upper) {
    if (got == expected || ++wrong > 10) return;
    CAPTURE(upper);
    CHECK(got == expected);
  };
  for (std::uint32_t upper = 0; upper < kPatterns; ++upper) {
    const tests::InFp8& one = made[upper];
    const auto bits = static_cast<std::uint16_t>(upper);
    for (const int t : {0, 1}) {
      const Fp8 type = t == 0 ? Fp8::e4m3 : Fp8::e5m2;
      for (const int o : {0, 1}) {
        const Overflow overflow = o == 0 ? Overflow::saturates : Overflow::leaves;
        same(one.of_half[t][o], to_fp8(type, fp16_to_float(bits), overflow), upper);
        same(one.of_bf16[t][o], to_fp8(type, bf16_to_float(bits), overflow), upper);
        for (const int k : {0, 1, 2, 3}) {
          const float value = float_of(upper << 16 | tests::InFp8::kLower[k]);
          same(one.of_float[t][o][k], to_fp8(type, value, overflow), upper);
        }
      }
      const float value = float_of(upper << 16 | tests::InFp8::kLower[0]);
      const int pair =
          to_fp8(type, value, Overflow::saturates) | to_fp8(type, -value, Overflow::saturates) << 8;
      same(one.of_floats[t], pair, upper);
      const float back = fp8_to_float(type, static_cast<std::uint8_t>(upper));
      same(one.half[t], std::isnan(back) ? 0x7fff : float_to_fp16(back), upper);
    }
  }
  CHECK(wrong == 0);
}
