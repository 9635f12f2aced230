#pragma once
/// \file
/// The functions of a file, as far as their names and braces say.

#include <cstddef>
#include <string>
#include <vector>

#include "common/cpu_device/compiler/tokens.hpp"

namespace rmsnorm::cpu_device {

/// The tokens __device__ of the functions that do not call themselves, even through others: those
/// that nvcc takes into their callers.
std::vector<std::size_t> inlined_functions(const Tokens& tokens);

/// Refuses a constant array of the host that a kernel looks into with a variable: nvcc does not
/// know it there, and clang does not mind.
/// \throws std::runtime_error with its line.
void check_arrays(const Tokens& tokens, const std::string& file);

/// Whether a token is in no function and no class: all braces that are open are namespaces'.
bool is_outside_of_functions(const Tokens& tokens, std::size_t at);

}  // namespace rmsnorm::cpu_device
