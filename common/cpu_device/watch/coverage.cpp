/// \file
/// The functions that a compiler calls under -fsanitize-coverage=trace-pc,trace-cmp: at the
/// beginning of each basic block, a *place* of the code, and before each comparison.

#include "common/cpu_device/interface/coverage.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "common/cpu_device/device.hpp"
#include "common/cpu_device/runtime/source_lines.hpp"
#include "common/cpu_device/scheduler/arrival.hpp"

extern "C" void __sanitizer_cov_trace_pc();

namespace rmsnorm {
namespace {

/// When a place has run.
enum Mark : unsigned char { kNever, kNow, kEarlier, kBeforeAll };

/// Of the bytes of the program's code, some of which are places.
Mark marks[64 << 20];  // from the start: kernels register before main()

std::size_t offset_of(const void* pc) {
  return static_cast<std::size_t>(static_cast<const char*>(pc) - &__executable_start);
}

/// Where they are, in the order in which they have run.
std::vector<std::size_t>& places() {
  static std::vector<std::size_t> found;
  return found;
}

/// The first time that a place runs. Not inlined: each block of the code comes to its caller.
[[gnu::noinline, gnu::cold]] void mark(std::size_t place) {
  marks[place] = kNow;
  places().push_back(place);
}

/// The code from one place of a function to the next.
struct Piece {
  const char* begin;
  const char* pc;  // what its call returns to
  const char* end;
  Mark mark;
  std::pair<const void*, std::string> function;  // its compilation unit, and its symbol
  const char* entry;                             // of the function, by which the unit is found
  bool is_cold;  // what only an exception or abort() leads to, as the compiler has decided
};

/// All of the program, in their order.
std::vector<Piece> all_pieces() {
  const std::vector<cpu_device::CallSite> calls =
      cpu_device::calls_of(reinterpret_cast<const void*>(&__sanitizer_cov_trace_pc));
  std::vector<Piece> found;
  for (const auto& [first, end, symbol, unit] : cpu_device::all_functions()) {
    if (!found.empty() && first < found.back().end) continue;  // another name of the same
    // The compiler may take a function apart: "sum.part.0" is a part of "sum".
    const std::pair function(unit, symbol.substr(0, symbol.find('.')));
    const bool is_cold = symbol.find(".cold") != std::string::npos;
    bool is_first = true;
    for (auto call = std::ranges::lower_bound(calls, first, {}, &cpu_device::CallSite::begin);
         call != calls.end() && call->returns <= end; ++call) {
      const char* const pc = call->returns;
      if (offset_of(pc) >= sizeof marks) return found;
      if (!std::exchange(is_first, false)) found.back().end = call->begin;
      found.push_back({call->begin, pc, end, marks[offset_of(pc)], function, first, is_cold});
    }
  }
  return found;
}

/// The different numbers on one side of a comparison, if they are few.
struct Few {
  static constexpr int kMost = 8;
  std::array<double, kMost> numbers{};
  int count = 0;  // one more than kMost: they are many

  void add(double number) {
    if (count > kMost || (count > 0 && numbers[0] == number)) return;
    if (std::find(numbers.begin(), numbers.begin() + count, number) != numbers.begin() + count) {
      return;
    }
    if (count < kMost) numbers[count] = number;
    ++count;
  }
  bool are_many() const { return count > kMost; }
};

/// A comparison in the code. A switch has one for each of its cases.
struct Site {
  std::uintptr_t key = 0;  // 0: no site yet
  bool is_float = false;
  std::array<double, 2> first{};  // numbers that were compared
  std::array<bool, 2> varies{};   // whether they were others later
  std::array<Few, 2> few{};       // all of them
  std::array<bool, 3> seen{};     // less, equal, greater
  std::vector<std::pair<int, std::array<double, 2>>> in_problems{};  // if each has one pair alone
  bool is_of_size = true;                                            // whether each has
  std::array<double, 2> nearest{};
  int problem = 0;                // in which they were nearest
  std::optional<bool> is_reader;  // who wrote it, once that has been asked
};

auto& sites = *new std::array<Site, 1 << 14>;  // never destroyed: code runs until the end
int current_problem = -1;                      // none
bool are_noted = true;                         // the comparisons

/// Null if there are too many.
Site* site_of(std::uintptr_t key) {
  const std::size_t begin = key * 0x9e3779b97f4a7c15u >> 50;
  for (std::size_t i = begin; i < begin + 64; ++i) {
    Site& site = sites[i % std::size(sites)];
    if (site.key == key) return &site;
    if (site.key == 0) {
      site.key = key;
      return &site;
    }
  }
  return nullptr;
}

void add_to_problem(Site& site, double a, double b) {
  if (site.in_problems.empty() || site.in_problems.back().first != current_problem) {
    site.in_problems.push_back({current_problem, {a, b}});
  } else if (site.in_problems.back().second != std::array{a, b}) {
    site.is_of_size = false;
    site.in_problems = {};
  }
}

/// Not inlined: most comparisons are not noted, and their callers ask is_noting() first.
[[gnu::noinline]] void note(std::uintptr_t key, double a, double b, bool is_float) {
  if (std::isnan(a) || std::isnan(b)) return;
  Site* const site = site_of(key);
  if (site == nullptr) return;
  const bool is_new = !(site->seen[0] || site->seen[1] || site->seen[2]);
  if (is_new) {
    site->is_float = is_float;
    site->first = {a, b};
  }
  site->varies[0] |= a != site->first[0];
  site->varies[1] |= b != site->first[1];
  site->few[0].add(a);
  site->few[1].add(b);
  if (site->is_of_size) add_to_problem(*site, a, b);
  site->seen[a < b ? 0 : a == b ? 1 : 2] = true;
  if (!is_new && std::abs(a - b) >= std::abs(site->nearest[0] - site->nearest[1])) return;
  site->nearest = {a, b};
  site->problem = current_problem;
}

bool is_noting() {
  return current_problem >= 0 && are_noted;
}

constexpr int kAddressBits = 48;  // above them, a key has the number of a switch's case

std::uintptr_t key_of(const void* pc) {
  return offset_of(pc);  // the same in each run of the program
}

/// Of a line that nobody but the harness calls, there is nothing to say.
bool is_of_reader(std::string_view file) {
  return !file.empty() && !cpu_device::is_own(file) && !file.starts_with("/usr/");
}

/// Also where the reader's code calls the library's, as std::upper_bound().
bool is_of_reader(Site& site) {
  if (!site.is_reader) {
    constexpr std::uintptr_t kAddress = (std::uintptr_t{1} << kAddressBits) - 1;
    const void* const pc = &__executable_start + (site.key & kAddress);
    std::string file = cpu_device::own_line_of_call(pc).file;
    if (file.starts_with("/usr/")) file = cpu_device::line_of_call(pc).file;
    site.is_reader = is_of_reader(file);
  }
  return *site.is_reader;
}

}  // namespace

bool can_cover() {
#ifdef RMSNORM_CPU_WATCHES
  return true;
#else
  return false;
#endif
}

void forget_comparisons() {
  std::fill(std::begin(sites), std::end(sites), Site{});
}

void cover(int problem) {
  const Mark mark = current_problem < 0 ? kBeforeAll : kEarlier;
  current_problem = problem;
  for (const std::size_t place : places()) marks[place] = mark;
  places().clear();
}

void note_comparisons(bool noted) {
  are_noted = noted;
}

std::vector<std::size_t> places_run() {
  return places();
}

std::vector<Threshold> thresholds_not_crossed() {
  std::vector<Threshold> found;
  for (Site& site : sites) {
    // Where all numbers change, or none, they say nothing of a size: but for a table's.
    const int constant = site.few[0].are_many() ? 1 : 0;
    const bool is_table = site.varies[0] && site.varies[1] && site.few[1 - constant].are_many() &&
                          !site.few[constant].are_many();
    const bool is_crossed = site.seen == std::array{true, true, true};
    if (!is_table && (site.varies[0] == site.varies[1] || is_crossed)) continue;
    if (!is_of_reader(site)) continue;
    if (!is_table) {
      const int first = site.varies[0] ? 1 : 0;
      found.push_back({site.is_float, site.first[first], site.nearest[1 - first], site.problem});
      continue;
    }
    for (int i = 0; i < site.few[constant].count; ++i) {
      found.push_back(
          {site.is_float, site.few[constant].numbers[i], site.nearest[1 - constant], site.problem});
    }
  }
  // Not in the order of their addresses, which any change of the program changes.
  std::ranges::sort(found, {}, [](const Threshold& one) {
    return std::tuple(one.is_float, one.constant, one.nearest, one.problem);
  });
  return found;
}

std::vector<SizeTest> size_tests() {
  std::vector<SizeTest> found;
  for (Site& site : sites) {
    if (site.is_float || !site.is_of_size || site.varies[0] == site.varies[1]) continue;
    if (!is_of_reader(site)) continue;
    const int constant = site.varies[0] ? 1 : 0;
    SizeTest test{site.first[constant], {}};
    for (const auto& [problem, pair] : site.in_problems) {
      test.numbers.emplace_back(problem, pair[1 - constant]);
    }
    found.push_back(std::move(test));
  }
  return found;
}

void pack_comparisons(Packed& packed) {
  for (const Site& site : sites) {
    if (site.key == 0) continue;
    packed.put(site.key);
    packed.put(site.is_float);
    packed.put(site.first);
    packed.put(site.varies);
    packed.put(site.few);
    packed.put(site.seen);
    packed.put(site.is_of_size);
    packed.put(site.nearest);
    packed.put(site.problem);
    packed.put(site.in_problems.size());
    for (const auto& [problem, numbers] : site.in_problems) {
      packed.put(problem);
      packed.put(numbers);
    }
  }
  packed.put(std::uintptr_t{0});
}

void add_comparisons(Packed& packed) {
  while (const auto key = packed.take<std::uintptr_t>()) {
    Site other;
    other.key = key;
    other.is_float = packed.take<bool>();
    other.first = packed.take<std::array<double, 2>>();
    other.varies = packed.take<std::array<bool, 2>>();
    other.few = packed.take<std::array<Few, 2>>();
    other.seen = packed.take<std::array<bool, 3>>();
    other.is_of_size = packed.take<bool>();
    other.nearest = packed.take<std::array<double, 2>>();
    other.problem = packed.take<int>();
    for (auto left = packed.take<std::size_t>(); left > 0; --left) {
      const auto problem = packed.take<int>();
      other.in_problems.emplace_back(problem, packed.take<std::array<double, 2>>());
    }
    Site* const site = site_of(key);
    if (site == nullptr) continue;
    if (site->seen == std::array<bool, 3>{}) {
      *site = std::move(other);
      continue;
    }
    for (int i = 0; i < 2; ++i) {
      site->varies[i] |= other.varies[i] || other.first[i] != site->first[i];
      const int count = std::min(other.few[i].count, Few::kMost);
      for (int k = 0; k < count; ++k) site->few[i].add(other.few[i].numbers[k]);
      if (other.few[i].are_many()) site->few[i].count = Few::kMost + 1;
    }
    for (int i = 0; i < 3; ++i) site->seen[i] |= other.seen[i];
    site->is_of_size &= other.is_of_size;
    // Both begin with those of before the copy.
    const auto [own, others] = std::mismatch(
        site->in_problems.begin(), site->in_problems.end(), other.in_problems.begin(),
        other.in_problems.end());
    site->in_problems.insert(site->in_problems.end(), others, other.in_problems.end());
    if (!site->is_of_size) site->in_problems = {};
    if (std::abs(other.nearest[0] - other.nearest[1]) <
        std::abs(site->nearest[0] - site->nearest[1])) {
      site->nearest = other.nearest;
      site->problem = other.problem;
    }
  }
}

void note_run(std::size_t place) {
  if (marks[place] == kNever) marks[place] = kEarlier;
}

std::string cover_apart(int count, const std::function<std::string(int)>& work) {
  constexpr unsigned kSeconds = 10;
  struct Found {
    int next;  // work
    std::size_t count;
    std::array<std::size_t, 1 << 16> places;
    std::array<char, 1 << 12> text;

    void add_what_ran() {
      for (; count < std::min(rmsnorm::places().size(), places.size()); ++count) {
        places[count] = rmsnorm::places()[count];
      }
    }
  };
  void* const memory =
      mmap(nullptr, sizeof(Found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return "";
  static Found* found;
  found = static_cast<Found*>(memory);
  std::fflush(nullptr);  // else the copy writes it, too
  while (found->next < count) {
    const pid_t copy = fork();
    if (copy < 0) break;
    if (copy > 0) {
      waitpid(copy, nullptr, 0);
    } else {
      for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) close(stream);
      cover(current_problem);
      std::atexit([] {  // a work may end with exit()
        found->add_what_ran();
        _exit(0);
      });
      while (found->next < count) {
        alarm(kSeconds);
        const std::string text = work(found->next++);
        found->add_what_ran();
        if (found->text[0] == '\0') text.copy(found->text.data(), found->text.size() - 1);
      }
      std::exit(0);
    }
    for (std::size_t i = 0; i < found->count; ++i) {
      Mark& mark = marks[found->places[i]];
      if (mark == kNever) mark = kEarlier;
    }
    found->count = 0;
  }
  std::string text = found->text.data();
  munmap(memory, sizeof(Found));
  return text;
}

void let_call_fail(int calls_before) {
  cpu_device::device().runtime.errors.let_fail(calls_before);
}

std::string call_that_failed() {
  return cpu_device::device().runtime.errors.call_that_failed();
}

std::vector<Lines> lines_never_run(bool every_function) {
  if (!can_cover()) return {};
  std::vector<Piece> pieces = all_pieces();
  std::set<std::pair<const void*, std::string>> entered;
  std::map<const void*, const char*> units;  // of these functions, and one's entry of each
  for (const Piece& piece : pieces) {
    if (piece.mark != kNow && piece.mark != kEarlier) continue;
    entered.insert(piece.function);
    units[piece.function.first] = piece.entry;
  }
  std::map<cpu_device::SourceLine, bool> lines;  // where a piece that has not run begins: false
  for (const Piece& piece : pieces) {
    if (piece.mark != kNever || piece.is_cold) continue;
    if (!every_function && !entered.contains(piece.function)) continue;
    if (!cpu_device::begins_line(piece.begin)) continue;  // it has none of its own
    const cpu_device::SourceLine line = cpu_device::line_of_call(piece.pc);
    if (is_of_reader(line.file)) lines[line] = false;
  }
  if (lines.empty()) return {};
  // Of a line there may be several pieces: instances of a template, copies in its callers.
  std::erase_if(pieces, [](const Piece& piece) { return piece.mark == kNever; });
  for (const Piece& piece : pieces) {
    for (const cpu_device::SourceLine& line : cpu_device::lines_between(piece.begin, piece.end)) {
      if (is_of_reader(line.file)) lines[line] = true;
    }
  }
  for (const auto& [unit, code] : units) {
    for (const cpu_device::InlinedCall& call : cpu_device::inlined_calls(code)) {
      const auto line = lines.find(call.line);
      if (line == lines.end() || line->second) continue;
      const auto behind = std::ranges::lower_bound(pieces, call.end, {}, &Piece::begin);
      line->second = behind != pieces.begin() && std::prev(behind)->end > call.begin;
    }
  }

  std::vector<Lines> found;
  bool goes_on = false;
  for (const auto& [line, has_run] : lines) {
    if (has_run) {
      goes_on = false;
    } else if (std::exchange(goes_on, true) && found.back().file == line.file) {
      found.back().last = line.line;
    } else {
      found.push_back({line.file, line.line, line.line});
    }
  }
  return found;
}

}  // namespace rmsnorm

using namespace rmsnorm;

extern "C" {

void __sanitizer_cov_trace_pc() {
  const std::size_t place = offset_of(__builtin_return_address(0));
  cpu_device::way = (cpu_device::way ^ place) * 0x9e3779b97f4a7c15u;
  if (place < sizeof marks && marks[place] != kNow) [[unlikely]]
    mark(place);
}

#define RMSNORM_COMPARISON(name, type, is_float)                                             \
  void __sanitizer_cov_trace_##name(type a, type b) {                                        \
    if (!is_noting()) return;                                                                \
    note(                                                                                    \
        key_of(__builtin_return_address(0)), static_cast<double>(a), static_cast<double>(b), \
        is_float);                                                                           \
  }

RMSNORM_COMPARISON(cmp1, std::int8_t, false)
RMSNORM_COMPARISON(cmp2, std::int16_t, false)
RMSNORM_COMPARISON(cmp4, std::int32_t, false)
RMSNORM_COMPARISON(cmp8, std::int64_t, false)
RMSNORM_COMPARISON(const_cmp1, std::int8_t, false)
RMSNORM_COMPARISON(const_cmp2, std::int16_t, false)
RMSNORM_COMPARISON(const_cmp4, std::int32_t, false)
RMSNORM_COMPARISON(const_cmp8, std::int64_t, false)
RMSNORM_COMPARISON(cmpf, float, true)
RMSNORM_COMPARISON(cmpd, double, true)

/// \param cases how many there are, of how many bits, and then each
void __sanitizer_cov_trace_switch(std::uint64_t value, const std::uint64_t* cases) {
  if (!is_noting()) return;
  for (std::uint64_t i = 1; i <= cases[0]; ++i) {
    note(
        key_of(__builtin_return_address(0)) | i << kAddressBits,
        static_cast<double>(static_cast<std::int64_t>(value)),
        static_cast<double>(static_cast<std::int64_t>(cases[i + 1])), false);
  }
}

}  // extern "C"
