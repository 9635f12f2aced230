#pragma once
/// \file
/// What the CPU device lacks.

#include <string_view>

namespace rmsnorm::cpu_device {

/// What a header stands for that the device does not have; "" if it has the header, or does not
/// know it.
std::string_view missing_header(std::string_view header);

/// Whether the header cuda/std/NAME is C++'s own of that name.
bool is_in_std(std::string_view name);

/// What a word asks for that the device does not have; "" if it has it.
std::string_view missing_word(std::string_view word);

}  // namespace rmsnorm::cpu_device
