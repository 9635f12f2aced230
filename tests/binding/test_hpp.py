"""library/include/rmsnorm.hpp: that it hands each argument to the function of rmsnorm.h, seen by a stub
in the library's place, and throws the library's sentence. Run by CTest.
"""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = r"""
#include <cstdio>

#include "rmsnorm.hpp"

using namespace rmsnorm;

// A tensor, by its number.
template <class Element = float>
TensorView t(std::intptr_t number) {
  return {reinterpret_cast<Element*>(number), {2, 8}, {9, 1}, 3};
}
void say() { std::puts(rmsnorm_last_error()); }

int main() {
  auto* const stream = reinterpret_cast<CUstream_st*>(7);
  auto* const memory = reinterpret_cast<void*>(8);
  constexpr auto kTwice = RMSNORM_ROUND_TWICE;
  forward(t(1), t(2), t(3), 0.5f, 1, stream), say();
  forward(t(1), {}, t(3), 0.5f), say();
  forward_pair(t(1), t(2), t(3), t(4), t(5), t(6), 0.5f, 1, stream), say();
  residual_add(t(1), t(2), t(3), t(4), 0.5f, 1, stream), say();
  forward_fp8(t(1), t(2), t(3), t(4), t(5), t(6), t(7), RMSNORM_SCALE_GROUP, kTwice, 0.5f, 1, stream),
      say();
  forward_rstd(t(1), t(2), t(3), t(4), 0.5f, 1, stream), say();
  std::printf("%zu ", backward_workspace_bytes(t(1))), say();
  backward(t(1), t(2), t(3), t(4), t(5), t(6), memory, 99, 1, stream), say();
  forward_gated(t(1), t(2), t(3), t(4), RMSNORM_GATE_FIRST, kTwice, 0.5f, 1, stream), say();
  std::printf("%zu ", backward_gated_workspace_bytes(t(1))), say();
  backward_gated(
      t(1), t(2), t(3), t(4), t(5), t(6), t(7), memory, 99, RMSNORM_GATE_FIRST, 0.5f, 1, stream),
      say();
  forward_rotated(
      t(1), t(2), t(3), t(4), t(5), t(6), t(7), t(8), t(9), t(10), t(11), t(12), t(13),
      RMSNORM_ROTATE_INTERLEAVED, kTwice, 0.5f, 1, stream), say();

  forward_fp8(t<__half>(1), {}, t<__nv_bfloat16>(2), t<__nv_fp8_e4m3>(3), t<std::uint8_t>(4), {}, {},
              RMSNORM_SCALE_BLOCK, RMSNORM_ROUND_ONCE, 0), say();
  forward(t<__nv_fp8_e5m2>(1), t<const std::int32_t>(2), t<std::int64_t>(3), 0), say();
  try {
    forward(t(1), {}, t(3), 0.5f, 3);  // which is refused
  } catch (const Error& error) {
    std::printf("%d %s\n", error.status(), error.what());
  }
  for (const auto make : {+[] { t(1), TensorView(static_cast<float*>(nullptr), {1, 1, 1, 1, 1}); },
                          +[] { TensorView(static_cast<float*>(nullptr), {1, 1}, {1}); }}) {
    try {
      make();
    } catch (const std::invalid_argument& error) {
      std::puts(error.what());
    }
  }
}
"""
FLOAT, USUAL = "2.32.1", "eps 512/1024 bias 1 stream 7"
PLAIN = "eps 512/1024 bias 0 stream 0"


def words(names, end, numbers=None, types=None):
    """What the stub writes down of tensors, which are numbered as they come; of 0, there is none."""
    text = ""
    for i, name in enumerate(names.split()):
        number = numbers[i] if numbers else i + 1
        of = types[i] if types and number else FLOAT
        text += (f"{name}@{number}+0 device 2 type {of} shape 2 8 strides 9 1; " if number else
                 f"{name} null; ")
    return text + end


class Hpp(unittest.TestCase):
    def test_each_argument_arrives_and_a_refusal_is_thrown(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = ["-Wall", "-Wextra", "-Werror", "-I", ROOT / "library/include"]
            stub, source, program = (Path(folder, name) for name in ("stub.o", "own.cpp", "own"))
            source.write_text(PROGRAM)
            subprocess.run([os.environ.get("CC", "cc"), *flags, "-c", ROOT / "tests/binding/stub.c",
                            "-o", stub], check=True)
            subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", *flags, source, stub, "-o",
                            program], check=True)
            said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        too_many = "a tensor has at most 4 sizes, and as many strides or none"
        of_fp8 = "x residual weight y scale limit norm"
        self.assertEqual(said.splitlines(), [
            words("x weight y", USUAL),
            words("x weight y", PLAIN, [1, 0, 3]),
            words("q q_weight q_out k k_weight k_out", USUAL),
            words("x residual weight y", USUAL),
            words(of_fp8, "scaling 2 rounding 1 " + USUAL),
            words("x weight y rstd", USUAL),
            "768 " + words("x", ""),
            words("dy x weight rstd dx dweight", "workspace 1 99 eps 0/1024 bias 1 stream 7"),
            words("x z weight y", "gate 1 rounding 1 " + USUAL),
            "768 " + words("x", ""),
            words("dy x z weight dx dz dweight", "workspace 1 99 gate 1 " + USUAL),
            words("q q_weight q_out k k_weight k_out cos sin positions v k_cache v_cache slots",
                  "rotation 1 rounding 1 " + USUAL),
            words(of_fp8, "scaling 3 rounding 0 eps 0/1024 bias 0 stream 0", [1, 0, 2, 3, 4, 0, 0],
                  ["2.16.1", "", "4.16.1", "10.8.1", "1.8.1"]),
            words("x weight y", "eps 0/1024 bias 0 stream 0", None, ["12.8.1", "0.32.1", "0.64.1"]),
            "8 " + words("x weight y", "eps 512/1024 bias 3 stream 0", [1, 0, 3]),
            too_many, too_many])


if __name__ == "__main__":
    unittest.main()
