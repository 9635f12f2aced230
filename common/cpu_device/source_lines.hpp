#pragma once
/// \file
/// From addresses in the program to names and lines of the source, through libdw.

#include <compare>
#include <string>
#include <vector>

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
/// Where some code stands.
struct CodePlace {
  std::string function = {};         ///< its symbol
  std::string source_function = {};  ///< its name, without what makes it an instance of a template
  std::vector<SourceLine> lines = {};  ///< its own, then those of the calls it was inlined from
  bool has_own_line = false;           ///< not just that of the code before it
};

/// The place of the call that returns to `pc`, on x86-64. Needs a large stack.
CodePlace place_of_call(const void* pc);

}  // namespace rmsnorm::cpu_device
