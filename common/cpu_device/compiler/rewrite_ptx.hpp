#pragma once
/// \file
/// Inline PTX as C++: the instructions that the device knows.

#include <string>
#include <string_view>
#include <vector>

namespace rmsnorm::cpu_device {

/// The C++ for one instruction, as "ld.global.nc.v2.f32 {%0, %1}, [%2]", with the expressions that
/// are its operands; "" if the device does not know it.
/// A predicate or another register is a variable, a label one of C++.
std::string rewrite_ptx(std::string_view instruction, const std::vector<std::string>& operands);

/// The label in front of an instruction, behind the braces that open there; "" if there is none.
std::string label_of(std::string_view instruction);

}  // namespace rmsnorm::cpu_device
