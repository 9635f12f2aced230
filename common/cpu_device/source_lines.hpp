#pragma once
/// \file
/// From addresses in the program to names and lines of the source, through libdw.

#include <compare>
#include <string>

namespace rmsnorm::cpu_device {

/// The source line of an instruction.
struct SourceLine {
  std::string file;  ///< as short_name() has it; "" if it is not known
  int line = 0;      ///< from 1
  auto operator<=>(const SourceLine&) const = default;  ///< by file, then by line
};

/// The line of the call that returns to `pc`.
SourceLine line_of_call(const void* pc);

/// The name of the function at an address, without its parameters; "a kernel" if it is not known.
std::string name_of_function(const void* address);

/// The name of the variable at an address; "" of a function's own, and if it is not known.
std::string name_of_variable(const void* address);

}  // namespace rmsnorm::cpu_device
