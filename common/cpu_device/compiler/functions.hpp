#pragma once
/// \file
/// The functions of a file, and who calls whom: what g++ does not mind and nvcc refuses.

#include <cstddef>
#include <string>
#include <vector>

#include "common/cpu_device/compiler/tokens.hpp"

namespace rmsnorm::cpu_device {

/// Refuses calls from kernels to what is the host's, and the other way round.
/// \throws std::runtime_error with the line of the first mistake.
void check_functions(const Tokens& tokens, const std::string& file);

/// The tokens __device__ of the functions that do not call themselves, even through others: those
/// that nvcc takes into their callers.
std::vector<std::size_t> inlined_functions(const Tokens& tokens, const std::string& file);

}  // namespace rmsnorm::cpu_device
