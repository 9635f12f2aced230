#pragma once
/// \file
/// From addresses in the program to names and lines of the source, through libdw.

#include <compare>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "common/cpu_device/scheduler/source_location.hpp"

extern "C" const char __executable_start;  ///< where the program's code begins, by the linker
extern "C" const char _end;                ///< where its static data ends, likewise

namespace rmsnorm::cpu_device {

/// The source line of an instruction.
struct SourceLine {
  std::string file;  ///< as short_name() has it; "" if it is not known
  int line = 0;      ///< from 1
  auto operator<=>(const SourceLine&) const = default;  ///< by file, then by line
};

/// "FILE:LINE".
std::string place_text(const SourceLine& line);

/// A file of the source, by the name that a line has; it may not be there.
std::ifstream open_source(const std::string& file);

/// The text of a line; "" if it cannot be read.
std::string source_text(const SourceLine& line);

/// A file's name relative to the project or to the current folder, if it lies in there.
std::string short_name(const std::string& file);

/// The line of a place.
SourceLine line_of(SourceLocation location);

/// The line of the call that returns to `pc`.
SourceLine line_of_call(const void* pc);

/// That line and those of the calls that it was inlined from, the innermost first: the reader's
/// alone, and one without a file where it is not known.
const std::vector<SourceLine>& user_lines(const void* pc);

/// The name of the function at an address, without its parameters; "a kernel" if it is not known.
std::string name_of_function(const void* address);

/// The same, of the function that the linker knows by this symbol.
std::string name_of_symbol(const std::string& symbol);

/// The name of the variable at an address; "" of a function's own, and if it is not known.
std::string name_of_variable(const void* address);

/// Where the running code is, and whoever called it, the innermost first: as line_of_call() wants
/// it.
std::vector<const void*> backtrace();

/// The innermost line of these that is the reader's.
SourceLine user_line(const std::vector<const void*>& backtrace);

/// Whether it is a file of the project that is no reader's. What lies in a folder "tests" is one's.
bool is_own(std::string_view file);

/// Whose file it is, as in "a file of this project"; "" if it is the reader's.
std::string owner_of(const std::string& file);

/// The line of that call itself, whoever it is inlined into. Needs a large stack.
SourceLine own_line_of_call(const void* pc);

/// A function of the program.
struct Function {
  const char* begin;   ///< of its code
  const char* end;     ///< behind it
  std::string symbol;  ///< as the linker knows it
  const void* unit;    ///< the same for all that one run of the compiler has made
};

/// All functions, in the order of their code.
std::vector<Function> all_functions();

/// A call in the program's code.
struct CallSite {
  const char* begin;    ///< of the instruction
  const char* returns;  ///< behind it
};

/// The calls of a function, in order: from the relocations, which the linker keeps if it is told to
/// (--emit-relocs). None for a processor of which it is not known what they look like.
std::vector<CallSite> calls_of(const void* function);

/// Whether the code at this address is the first of a line: else it is not known which it is of.
bool begins_line(const char* code);

/// The lines of code, not those of the calls that it was inlined from. Needs a large stack.
std::vector<SourceLine> lines_between(const char* begin, const char* end);

/// A call, and the code that stands for it.
struct InlinedCall {
  const char* begin;  ///< of the code
  const char* end;    ///< behind it
  SourceLine line;    ///< of the call
};

/// All calls that were inlined in the compilation unit that this code is of, some in several
/// pieces. Needs a large stack.
const std::vector<InlinedCall>& inlined_calls(const char* code);

/// Whether an address is one of the program's code or static data.
inline bool is_of_program(const void* address) {
  const auto* const at = static_cast<const char*>(address);
  return &__executable_start <= at && at < &_end;
}

}  // namespace rmsnorm::cpu_device
