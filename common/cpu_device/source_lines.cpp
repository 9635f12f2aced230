#include "common/cpu_device/source_lines.hpp"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <map>
#include <memory>

#include "common/cpu_device/hazard.hpp"

namespace rmsnorm::cpu_device {
namespace {

/// What libdw knows of the running program.
class Program {
 public:
  Program() : dwfl_(dwfl_begin(&kCallbacks)) {
    if (dwfl_ == nullptr) return;
    dwfl_report_begin(dwfl_);
    dwfl_linux_proc_report(dwfl_, getpid());
    dwfl_report_end(dwfl_, nullptr, nullptr);
  }
  ~Program() { dwfl_end(dwfl_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Dwfl_Module* module_at(Dwarf_Addr address) const {
    return dwfl_ == nullptr ? nullptr : dwfl_addrmodule(dwfl_, address);
  }

 private:
  static constexpr Dwfl_Callbacks kCallbacks = {
      .find_elf = dwfl_linux_proc_find_elf,
      .find_debuginfo = dwfl_standard_find_debuginfo,
      .section_address = nullptr,
      .debuginfo_path = nullptr};
  Dwfl* dwfl_;
};

const Program& program() {
  static const Program program;
  return program;
}

/// Runs what libdw has to do in a thread of its own: it needs more stack than a fiber has.
template <class Work>
auto on_a_large_stack(const Work& work) {
  return std::async(std::launch::async, work).get();
}

/// Whether a file is the library's or the device's own: a learner looks for the line that calls it.
bool is_of_library(const std::string& file) {
  return file.starts_with("/usr/") || file.starts_with("common/cpu_device/");
}

/// The lines of the calls that the code at an address was inlined from, the innermost first.
std::vector<SourceLine> inlining_calls(Dwfl_Module* module, Dwarf_Addr address) {
  Dwarf_Addr bias = 0;
  Dwarf_Die* const unit = dwfl_module_addrdie(module, address, &bias);
  Dwarf_Files* files = nullptr;
  std::size_t file_count = 0;
  if (unit == nullptr || dwarf_getsrcfiles(unit, &files, &file_count) != 0) return {};
  Dwarf_Die* found = nullptr;
  if (dwarf_getscopes(unit, address - bias, &found) < 1) return {};
  const std::unique_ptr<Dwarf_Die, decltype(&std::free)> innermost(found, std::free);
  // What is around it in the code, not in the source: calls in calls.
  const int count = dwarf_getscopes_die(innermost.get(), &found);
  const std::unique_ptr<Dwarf_Die, decltype(&std::free)> scopes(
      count < 1 ? nullptr : found, std::free);
  std::vector<SourceLine> calls;
  for (int i = 0; i < count; ++i) {
    if (dwarf_tag(&found[i]) != DW_TAG_inlined_subroutine) continue;
    Dwarf_Attribute attribute;
    Dwarf_Word file = 0;
    Dwarf_Word line = 0;
    dwarf_formudata(dwarf_attr(&found[i], DW_AT_call_file, &attribute), &file);
    dwarf_formudata(dwarf_attr(&found[i], DW_AT_call_line, &attribute), &line);
    const char* name = dwarf_filesrc(files, file, nullptr, nullptr);
    if (name != nullptr) calls.push_back({short_name(name), static_cast<int>(line)});
  }
  return calls;
}

SourceLine own_line(Dwfl_Module* module, Dwarf_Addr address) {
  Dwfl_Line* line = module == nullptr ? nullptr : dwfl_module_getsrc(module, address);
  if (line == nullptr) return {};
  int number = 0;
  const char* file = dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
  if (file == nullptr) return {};
  return {short_name(file), number};
}

/// The code's own line or, if that is the library's, the innermost call's that is not.
SourceLine look_up_line(Dwarf_Addr address) {
  Dwfl_Module* module = program().module_at(address);
  const SourceLine result = own_line(module, address);
  if (!is_of_library(result.file)) return result;
  for (const SourceLine& call : inlining_calls(module, address)) {
    if (!is_of_library(call.file)) return call;
  }
  return result;
}

std::string look_up_symbol(Dwarf_Addr address) {
  Dwfl_Module* module = program().module_at(address);
  // Static data that begins as zeros is in no file: it is not said to be the program's.
  const auto begin = reinterpret_cast<Dwarf_Addr>(&__executable_start);
  if (module == nullptr && is_of_program(reinterpret_cast<const void*>(address))) {
    module = program().module_at(begin);
  }
  const char* symbol = module == nullptr ? nullptr : dwfl_module_addrname(module, address);
  return symbol == nullptr ? "" : symbol;
}

/// "rms_norm<256>" from "void (anonymous namespace)::rms_norm<256>(float const*, ...)".
std::string without_decoration(std::string name) {
  const std::string anonymous = "(anonymous namespace)::";
  for (std::size_t at; (at = name.find(anonymous)) != std::string::npos;) {
    name.erase(at, anonymous.size());
  }
  int depth = 0;  // of <>: what is in there belongs to the name
  std::size_t begin = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth > 0) continue;
    if (name[i] == ' ') begin = i + 1;                         // the result's type
    if (name[i] == '(') return name.substr(begin, i - begin);  // the parameters
  }
  return name.substr(begin);
}

std::string symbol_at(const void* address) {
  return on_a_large_stack([&] { return look_up_symbol(reinterpret_cast<Dwarf_Addr>(address)); });
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : symbol;
}

}  // namespace

SourceLine line_of_call(const void* pc) {
  static std::map<const void*, SourceLine> known;
  const auto found = known.find(pc);
  if (found != known.end()) return found->second;

  const Dwarf_Addr address = reinterpret_cast<Dwarf_Addr>(pc) - 1;
  const SourceLine line = on_a_large_stack([&] { return look_up_line(address); });
  known[pc] = line;
  return line;
}

SourceLine own_line_of_call(const void* pc) {
  const Dwarf_Addr address = reinterpret_cast<Dwarf_Addr>(pc) - 1;
  return own_line(program().module_at(address), address);
}

std::string name_of_function(const void* address) {
  const std::string symbol = symbol_at(address);
  return symbol.empty() ? "a kernel" : without_decoration(demangled(symbol));
}

std::string name_of_variable(const void* address) {
  const std::string symbol = symbol_at(address);
  return symbol.starts_with("_ZZ") ? "" : without_decoration(demangled(symbol));
}

}  // namespace rmsnorm::cpu_device
