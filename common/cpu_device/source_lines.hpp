#pragma once
/// \file
/// From addresses in the program to names and lines of the source, through libdw.

#include <compare>
#include <string>
#include <vector>

extern "C" const char __executable_start;  ///< where the program's code begins, by the linker
extern "C" const char _end;                ///< where its static data ends, likewise

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

/// The line of that call itself, whoever it is inlined into. Needs a large stack.
SourceLine own_line_of_call(const void* pc);

/// Whether an address is one of the program's code or static data.
inline bool is_of_program(const void* address) {
  const auto* const at = static_cast<const char*>(address);
  return &__executable_start <= at && at < &_end;
}

}  // namespace rmsnorm::cpu_device
