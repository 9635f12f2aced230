#include "common/cpu_device/runtime/source_lines.hpp"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <ranges>

namespace rmsnorm::cpu_device {
namespace {

/// The part of the running program that an address is in; null if libdw does not know it.
Dwfl_Module* module_at(Dwarf_Addr address) {
  static constexpr Dwfl_Callbacks kCallbacks = {
      .find_elf = dwfl_linux_proc_find_elf,
      .find_debuginfo = dwfl_standard_find_debuginfo,
      .section_address = nullptr,
      .debuginfo_path = nullptr};
  static const auto program = [] {
    std::unique_ptr<Dwfl, decltype(&dwfl_end)> all(dwfl_begin(&kCallbacks), dwfl_end);
    if (all == nullptr) return all;
    dwfl_report_begin(all.get());
    dwfl_linux_proc_report(all.get(), getpid());
    dwfl_report_end(all.get(), nullptr, nullptr);
    return all;
  }();
  return program == nullptr ? nullptr : dwfl_addrmodule(program.get(), address);
}

/// The program itself, without its shared libraries; null if libdw does not know it.
Dwfl_Module* module_of_program() {
  return module_at(reinterpret_cast<Dwarf_Addr>(&__executable_start));
}

/// What one run of the compiler has made.
struct Unit {
  Dwarf_Die die;    ///< the root of what libdw knows of it
  Dwarf_Addr bias;  ///< of addresses in memory, against those in the file
};

/// Finds the unit of the code at an address that is not an instruction's first: at a function's, a
/// unit without code may have a range of no bytes, which libdw finds then. dwfl_module_addrdie()
/// takes such a unit for that of all code from there on.
std::optional<Unit> unit_at(Dwarf_Addr address) {
  Dwfl_Module* const module = module_at(address);
  Unit unit{};
  Dwarf* const dwarf = module == nullptr ? nullptr : dwfl_module_getdwarf(module, &unit.bias);
  if (dwarf == nullptr || dwarf_addrdie(dwarf, address - unit.bias, &unit.die) == nullptr) {
    return std::nullopt;
  }
  return unit;
}

/// The unit of the instruction that begins there.
std::optional<Unit> unit_at(const char* instruction) {
  return unit_at(reinterpret_cast<Dwarf_Addr>(instruction) + 1);
}

/// Runs what libdw has to do in a thread of its own: it needs more stack than a fiber has.
template <class Work>
auto on_a_large_stack(const Work& work) {
  return std::async(std::launch::async, work).get();
}

/// Whether a file is a library's or this project's: a learner looks for the line that calls it.
bool is_of_library(const std::string& file) {
  return !owner_of(file).empty();
}

/// The line of the call that a function was inlined at.
SourceLine line_of_inlined(Dwarf_Die& inlined, Dwarf_Files* files) {
  Dwarf_Attribute attribute;
  Dwarf_Word file = 0;
  Dwarf_Word line = 0;
  dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_file, &attribute), &file);
  dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_line, &attribute), &line);
  const char* const name = dwarf_filesrc(files, file, nullptr, nullptr);
  return name == nullptr ? SourceLine{} : SourceLine{short_name(name), static_cast<int>(line)};
}

/// Adds all inlined calls within something.
void add_inlined(
    Dwarf_Die& parent, Dwarf_Files* files, Dwarf_Addr bias, std::vector<InlinedCall>& found) {
  Dwarf_Die die;
  for (int end = dwarf_child(&parent, &die); end == 0; end = dwarf_siblingof(&die, &die)) {
    if (dwarf_tag(&die) == DW_TAG_inlined_subroutine) {
      const SourceLine line = line_of_inlined(die, files);
      Dwarf_Addr base = 0;
      Dwarf_Addr first = 0;
      Dwarf_Addr last = 0;
      for (std::ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &first, &last)) > 0;) {
        found.push_back(
            {reinterpret_cast<const char*>(first + bias),
             reinterpret_cast<const char*>(last + bias), line});
      }
    }
    add_inlined(die, files, bias, found);
  }
}

/// All calls that were inlined in a unit, each in front of those within it.
const std::vector<InlinedCall>& calls_in(Unit& unit) {
  static std::map<const void*, std::vector<InlinedCall>> known;
  const auto [calls, is_new] = known.try_emplace(unit.die.addr);
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  if (is_new && dwarf_getsrcfiles(&unit.die, &files, &count) == 0) {
    add_inlined(unit.die, files, unit.bias, calls->second);
  }
  return calls->second;
}

/// The lines of the calls that the code at an address was inlined from, the innermost first.
std::vector<SourceLine> inlining_calls(Unit& unit, Dwarf_Addr address) {
  const auto* const at = reinterpret_cast<const char*>(address);
  std::vector<SourceLine> lines;
  for (const InlinedCall& call : calls_in(unit) | std::views::reverse) {
    if (call.begin <= at && at < call.end && !call.line.file.empty()) lines.push_back(call.line);
  }
  return lines;
}

SourceLine line_of(Dwarf_Line* row) {
  const char* const file = dwarf_linesrc(row, nullptr, nullptr);
  int number = 0;
  if (file == nullptr || dwarf_lineno(row, &number) != 0) return {};
  return {short_name(file), number};
}

SourceLine own_line(std::optional<Unit>& unit, Dwarf_Addr address) {
  return unit ? line_of(dwarf_getsrc_die(&unit->die, address - unit->bias)) : SourceLine{};
}

/// The code's own line or, if that is the library's, the innermost call's that is not.
SourceLine look_up_line(Dwarf_Addr address) {
  std::optional<Unit> unit = unit_at(address);
  const SourceLine result = own_line(unit, address);
  if (!is_of_library(result.file)) return result;
  for (const SourceLine& call : inlining_calls(*unit, address)) {
    if (!is_of_library(call.file)) return call;
  }
  return result;
}

std::vector<SourceLine> look_up_user_lines(Dwarf_Addr address) {
  std::optional<Unit> unit = unit_at(address);
  std::vector<SourceLine> lines = {own_line(unit, address)};
  if (unit) std::ranges::copy(inlining_calls(*unit, address), std::back_inserter(lines));
  std::erase_if(lines, [](const SourceLine& line) { return is_of_library(line.file); });
  return lines;
}

std::string look_up_symbol(Dwarf_Addr address) {
  Dwfl_Module* module = module_at(address);
  // Static data that begins as zeros is in no file: it is not said to be the program's.
  if (module == nullptr && is_of_program(reinterpret_cast<const void*>(address))) {
    module = module_of_program();
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
  const auto [found, is_new] = known.try_emplace(pc);
  const Dwarf_Addr address = reinterpret_cast<Dwarf_Addr>(pc) - 1;
  if (is_new) found->second = on_a_large_stack([&] { return look_up_line(address); });
  return found->second;
}

const std::vector<SourceLine>& user_lines(const void* pc) {
  static std::map<const void*, std::vector<SourceLine>> known;
  const auto [found, is_new] = known.try_emplace(pc);
  const Dwarf_Addr address = reinterpret_cast<Dwarf_Addr>(pc) - 1;
  if (is_new) found->second = on_a_large_stack([&] { return look_up_user_lines(address); });
  return found->second;
}

std::string place_text(const SourceLine& line) {
  return fmt::format("{}:{}", line.file, line.line);
}

std::string short_name(const std::string& file) {
  for (const std::filesystem::path& folder :
       {std::filesystem::path(CPU_DEVICE_SOURCE_DIR), std::filesystem::current_path()}) {
    const std::string inside = (folder / "").string();
    if (file.starts_with(inside)) return file.substr(inside.size());
  }
  // Some compilers' caches give names that begin in the folder of the build.
  const std::size_t begin = file.starts_with("../") ? file.find_first_not_of("./") : 0;
  const std::string inside = file.substr(std::min(begin, file.size()));
  const std::filesystem::path ours = std::filesystem::path(CPU_DEVICE_SOURCE_DIR) / inside;
  return std::filesystem::exists(ours) ? inside : file;
}

std::ifstream open_source(const std::string& file) {
  std::ifstream opened(file);  // from the current folder, or from the project's
  if (!opened) opened.open(std::filesystem::path(CPU_DEVICE_SOURCE_DIR) / file);
  return opened;
}

std::string source_text(const SourceLine& line) {
  std::ifstream file = open_source(line.file);
  std::string text;
  for (int i = 0; i < line.line && std::getline(file, text); ++i) {
  }
  return file ? text : "";
}

SourceLine line_of(SourceLocation location) {
  return {short_name(location.file), location.line};
}

std::vector<const void*> backtrace() {
  std::vector<const void*> found;
  const auto add = [](_Unwind_Context* context, void* all) {
    constexpr std::size_t kMost = 100;
    auto& found = *static_cast<std::vector<const void*>*>(all);
    int is_before = 0;  // the instruction has not been carried out, as where a signal came
    const auto at = static_cast<std::uintptr_t>(_Unwind_GetIPInfo(context, &is_before));
    found.push_back(reinterpret_cast<const void*>(at + (is_before != 0 ? 1 : 0)));
    return found.size() < kMost ? _URC_NO_REASON : _URC_END_OF_STACK;
  };
  _Unwind_Backtrace(add, &found);
  return found;
}

SourceLine user_line(const std::vector<const void*>& backtrace) {
  for (const void* const pc : backtrace) {
    const SourceLine line = line_of_call(pc);
    if (!line.file.empty() && !is_of_library(line.file)) return line;
  }
  return {};
}

bool is_own(std::string_view file) {
  constexpr std::string_view kOwn = CPU_DEVICE_OWN;
  return !kOwn.empty() && file.starts_with(kOwn) && file.find("/tests/") == file.npos;
}

std::string owner_of(const std::string& file) {
  // The C library names its files from the folder in which it was built.
  if (file.starts_with("/usr/") || file.starts_with("../")) return "the system";
  return is_own(file) ? "this project" : "";
}

SourceLine own_line_of_call(const void* pc) {
  const Dwarf_Addr address = reinterpret_cast<Dwarf_Addr>(pc) - 1;
  std::optional<Unit> unit = unit_at(address);
  return own_line(unit, address);
}

std::vector<Function> all_functions() {
  Dwfl_Module* const module = module_of_program();
  const int count = module == nullptr ? 0 : dwfl_module_getsymtab(module);
  std::vector<Function> found;
  for (int i = 0; i < count; ++i) {
    GElf_Sym symbol{};
    GElf_Addr address = 0;
    const char* const name =
        dwfl_module_getsym_info(module, i, &symbol, &address, nullptr, nullptr, nullptr);
    const auto* const at = reinterpret_cast<const char*>(address);
    if (name == nullptr || GELF_ST_TYPE(symbol.st_info) != STT_FUNC || !is_of_program(at)) continue;
    const std::optional<Unit> unit = unit_at(at);
    found.push_back({at, at + symbol.st_size, name, unit ? unit->die.addr : nullptr});
  }
  std::ranges::sort(found, {}, &Function::begin);
  return found;
}

std::vector<CallSite> calls_of(const void* function) {
  // How many bytes of a call are before and from the place of its relocation on.
#if defined(__x86_64__)
  constexpr int kBefore = 1;
  constexpr std::uint64_t kTypes[] = {R_X86_64_PLT32, R_X86_64_PC32};
#elif defined(__aarch64__)
  constexpr int kBefore = 0;
  constexpr std::uint64_t kTypes[] = {R_AARCH64_CALL26};
#else
  constexpr int kBefore = 0;
  constexpr std::uint64_t kTypes[] = {~std::uint64_t{0}};
#endif
  constexpr int kFrom = 4;
  Dwfl_Module* const module = module_of_program();
  GElf_Addr bias = 0;
  Elf* const elf = module == nullptr ? nullptr : dwfl_module_getelf(module, &bias);
  const auto header_of = [](Elf_Scn* section) {
    GElf_Shdr header{};
    gelf_getshdr(section, &header);
    return header;
  };
  std::vector<CallSite> found;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    const GElf_Shdr header = header_of(section);
    Elf_Scn* const symbols_section = elf_getscn(elf, header.sh_link);
    const bool is_of_code =
        (header_of(elf_getscn(elf, header.sh_info)).sh_flags & SHF_EXECINSTR) != 0;
    if (header.sh_type != SHT_RELA || header.sh_entsize == 0 || !is_of_code ||
        header_of(symbols_section).sh_type != SHT_SYMTAB) {
      continue;
    }
    Elf_Data* const relocations = elf_getdata(section, nullptr);
    Elf_Data* const symbols = elf_getdata(symbols_section, nullptr);
    const std::size_t count = header.sh_size / header.sh_entsize;
    for (std::size_t i = 0; i < count; ++i) {
      GElf_Rela relocation{};
      GElf_Sym symbol{};
      gelf_getrela(relocations, static_cast<int>(i), &relocation);
      gelf_getsym(symbols, static_cast<int>(GELF_R_SYM(relocation.r_info)), &symbol);
      const auto* const at = reinterpret_cast<const char*>(relocation.r_offset + bias);
      if (reinterpret_cast<const void*>(symbol.st_value + bias) == function &&
          std::ranges::count(kTypes, GELF_R_TYPE(relocation.r_info)) > 0) {
        found.push_back({at - kBefore, at + kFrom});
      }
    }
  }
  std::ranges::sort(found, {}, &CallSite::begin);
  return found;
}

bool begins_line(const char* code) {
  std::optional<Unit> unit = unit_at(code);
  if (!unit) return false;
  const Dwarf_Addr address = reinterpret_cast<Dwarf_Addr>(code) - unit->bias;
  Dwarf_Addr begin = 0;
  return dwarf_lineaddr(dwarf_getsrc_die(&unit->die, address), &begin) == 0 && begin == address;
}

std::vector<SourceLine> lines_between(const char* begin, const char* end) {
  std::optional<Unit> unit = unit_at(begin);
  Dwarf_Lines* rows = nullptr;
  std::size_t count = 0;
  if (!unit || dwarf_getsrclines(&unit->die, &rows, &count) != 0) return {};
  const Dwarf_Addr first = reinterpret_cast<Dwarf_Addr>(begin) - unit->bias;
  const Dwarf_Addr last = reinterpret_cast<Dwarf_Addr>(end) - unit->bias;
  const auto address_of = [&](std::size_t i) {
    Dwarf_Addr address = 0;
    dwarf_lineaddr(dwarf_onesrcline(rows, i), &address);
    return address;
  };
  const auto indices = std::views::iota(std::size_t{0}, count);
  // The first row may begin before.
  const auto behind = std::ranges::upper_bound(indices, first, {}, address_of);
  std::vector<SourceLine> found;
  for (std::size_t i = std::max<std::ptrdiff_t>(behind - indices.begin(), 1) - 1;
       i < count && address_of(i) < last; ++i) {
    const SourceLine line = line_of(dwarf_onesrcline(rows, i));
    if (!line.file.empty()) found.push_back(line);
  }
  return found;
}

const std::vector<InlinedCall>& inlined_calls(const char* code) {
  static const std::vector<InlinedCall> kNone;
  std::optional<Unit> unit = unit_at(code);
  return unit ? calls_in(*unit) : kNone;
}

std::string name_of_function(const void* address) {
  const std::string symbol = symbol_at(address);
  return symbol.empty() ? "a kernel" : without_decoration(demangled(symbol));
}

std::string name_of_symbol(const std::string& symbol) {
  return without_decoration(demangled(symbol));
}

std::string name_of_variable(const void* address) {
  const std::string symbol = symbol_at(address);
  return symbol.starts_with("_ZZ") ? "" : without_decoration(demangled(symbol));
}

}  // namespace rmsnorm::cpu_device
