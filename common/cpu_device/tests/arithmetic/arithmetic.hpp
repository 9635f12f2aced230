#pragma once
/// \file
/// Compares what the CPU device computes with what a GPU computes, bit by bit. The same program is
/// built for both: the CPU device's writes its results to a file, the GPU's compares its own with
/// these, and prints plots/data/arithmetic.csv.
///
///     build/cpu/tests/cpu_device/arithmetic --write cpu.results
///     nvcc -std=c++20 -arch=native -I. common/cpu_device/tests/arithmetic/*.c* -o of_gpu
///     ./of_gpu --compare cpu.results "$(git describe --always)" > plots/data/arithmetic.csv

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace arithmetic {

/// How many values each function is given.
constexpr int kValues = 10000;

using Bits = std::vector<std::uint64_t>;  ///< of kValues values

/// The types of operands and results.
enum class Type { f32, f64, f16, bf16, whole };

/// The values of one operand of a function that has `operands`: first all combinations of special
/// ones, then drawn ones.
Bits operand_bits(Type type, int operand, int operands);

/// A function of the device.
struct Function {
  std::string name;               ///< in CUDA or PTX
  Type result;                    ///< what it gives
  std::vector<Type> operands;     ///< what it takes
  std::function<Bits()> compute;  ///< lets the device do it
};
/// All of them, in their order.
std::vector<Function>& functions();

}  // namespace arithmetic
