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
#include "common/cpu_device/runtime/steps.hpp"
#include "common/cpu_device/scheduler/arrival.hpp"

extern "C" void __sanitizer_cov_trace_pc();

namespace rmsnorm {
namespace {

/// When a place has run.
enum Coverage : unsigned char { kNever, kNow, kEarlier, kBeforeAll };

/// Of the bytes of the program's code, some of which are places.
Coverage marks[64 << 20];  // from the start: kernels register before main()

std::size_t offset_of(const void* pc) {
  return static_cast<std::size_t>(static_cast<const char*>(pc) - &__executable_start);
}

/// Basic blocks that have run in this problem, in order.
std::vector<std::size_t>& places() {
  static std::vector<std::size_t> found;
  return found;
}

/// The first time that a place runs. Not inlined: each block of the code comes to its caller.
[[gnu::noinline, gnu::cold]] void mark(std::size_t place) {
  static bool is_marking = false;  // the vector's own code may be a file's, which comes here, too
  if (is_marking) return;
  is_marking = true;
  marks[place] = kNow;
  places().push_back(place);
  is_marking = false;
}

/// Basic block: the code from one place of a function to the next.
struct BasicBlock {
  const char* begin;
  const char* pc;  // what its call returns to
  const char* end;
  Coverage mark;
  std::pair<const void*, std::string> function;  // its compilation unit, and its symbol
  const char* entry;                             // of the function, by which the unit is found
  bool is_cold;  // what only an exception or abort() leads to, as the compiler has decided
};

/// Basic blocks of the program, in their order.
std::vector<BasicBlock> all_basic_blocks() {
  const std::vector<cpu_device::CallSite> calls =
      cpu_device::calls_of(reinterpret_cast<const void*>(&__sanitizer_cov_trace_pc));
  std::vector<BasicBlock> found;
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

/// Distinct values on one side of a comparison, if they are few.
struct DistinctValues {
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
  bool is_full() const { return count > kMost; }
};

/// What was compared at one site. A switch has one for each of its cases.
struct Comparison {
  std::uintptr_t key = 0;  // 0: no site yet
  bool is_float = false;
  std::array<double, 2> first{};           // numbers that were compared
  std::array<bool, 2> varies{};            // whether they were others later
  std::array<DistinctValues, 2> values{};  // all of them
  std::array<bool, 3> seen{};              // less, equal, greater
  bool is_of_size = true;                  // whether each problem has one pair alone
  std::array<double, 2> nearest{};
  int problem = 0;  // in which they were nearest
};

/// The pair that a problem compared.
struct OfProblem {
  int problem;
  std::array<double, 2> numbers;
  bool operator==(const OfProblem&) const = default;
};

struct ComparisonSite : Comparison {
  std::vector<OfProblem> by_problem{};  // if `is_of_size`
  std::optional<bool> is_reader{};      // who wrote it, once that has been asked
};

auto& sites = *new std::array<ComparisonSite, 1 << 14>;  // never destroyed: code runs until the end
int current_problem = -1;                                // none
bool are_noted = true;                                   // the comparisons

/// Null if there are too many.
ComparisonSite* site_of(std::uintptr_t key) {
  const std::size_t begin = key * 0x9e3779b97f4a7c15u >> 50;
  for (std::size_t i = begin; i < begin + 64; ++i) {
    ComparisonSite& site = sites[i % std::size(sites)];
    if (site.key == key) return &site;
    if (site.key == 0) {
      site.key = key;
      return &site;
    }
  }
  return nullptr;
}

void add_to_problem(ComparisonSite& site, double a, double b) {
  if (site.by_problem.empty() || site.by_problem.back().problem != current_problem) {
    site.by_problem.push_back({current_problem, {a, b}});
  } else if (site.by_problem.back().numbers != std::array{a, b}) {
    site.is_of_size = false;
    site.by_problem = {};
  }
}

/// Not inlined: most comparisons are not noted, and their callers ask is_noting() first.
[[gnu::noinline]] void note(std::uintptr_t key, double a, double b, bool is_float) {
  if (std::isnan(a) || std::isnan(b)) return;
  ComparisonSite* const site = site_of(key);
  if (site == nullptr) return;
  const bool is_new = !(site->seen[0] || site->seen[1] || site->seen[2]);
  if (is_new) {
    site->is_float = is_float;
    site->first = {a, b};
  }
  site->varies[0] |= a != site->first[0];
  site->varies[1] |= b != site->first[1];
  site->values[0].add(a);
  site->values[1].add(b);
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
bool is_user_code(std::string_view file) {
  return !file.empty() && !cpu_device::is_own(file) && !file.starts_with("/usr/");
}

/// Also where the reader's code calls the library's, as std::upper_bound().
bool is_user_code(ComparisonSite& site) {
  if (!site.is_reader) {
    constexpr std::uintptr_t kAddress = (std::uintptr_t{1} << kAddressBits) - 1;
    const void* const pc = &__executable_start + (site.key & kAddress);
    std::string file = cpu_device::own_line_of_call(pc).file;
    if (file.starts_with("/usr/")) file = cpu_device::line_of_call(pc).file;
    site.is_reader = is_user_code(file);
  }
  return *site.is_reader;
}

}  // namespace

bool can_cover() {
  return can_watch();
}

void forget_comparisons() {
  std::fill(std::begin(sites), std::end(sites), ComparisonSite{});
}

void cover(int problem) {
  const Coverage mark = current_problem < 0 ? kBeforeAll : kEarlier;
  current_problem = problem;
  for (const std::size_t place : places()) marks[place] = mark;
  places().clear();
}

void note_comparisons(bool noted) {
  are_noted = noted;
}

std::vector<std::size_t> covered_places() {
  return places();
}

std::vector<Threshold> thresholds_not_crossed() {
  std::vector<Threshold> found;
  for (ComparisonSite& site : sites) {
    // Where all numbers change, or none, they say nothing of a size: but for a table's.
    const int constant = site.values[0].is_full() ? 1 : 0;
    const bool is_table = site.varies[0] && site.varies[1] && site.values[1 - constant].is_full() &&
                          !site.values[constant].is_full();
    const bool is_crossed = site.seen == std::array{true, true, true};
    if (!is_table && (site.varies[0] == site.varies[1] || is_crossed)) continue;
    if (!is_user_code(site)) continue;
    if (!is_table) {
      const int first = site.varies[0] ? 1 : 0;
      found.push_back({site.is_float, site.first[first], site.nearest[1 - first], site.problem});
      continue;
    }
    for (int i = 0; i < site.values[constant].count; ++i) {
      found.push_back(
          {site.is_float, site.values[constant].numbers[i], site.nearest[1 - constant],
           site.problem});
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
  for (ComparisonSite& site : sites) {
    if (site.is_float || !site.is_of_size || site.varies[0] == site.varies[1]) continue;
    if (!is_user_code(site)) continue;
    const int constant = site.varies[0] ? 1 : 0;
    SizeTest test{site.first[constant], {}};
    for (const auto& [problem, pair] : site.by_problem) {
      test.numbers.emplace_back(problem, pair[1 - constant]);
    }
    found.push_back(std::move(test));
  }
  return found;
}

void pack_comparisons(Packed& packed) {
  for (const ComparisonSite& site : sites) {
    if (site.key == 0) continue;
    packed.put(static_cast<const Comparison&>(site));
    packed.put(site.by_problem.size());
    for (const OfProblem& pair : site.by_problem) packed.put(pair);
  }
  packed.put(Comparison{});
}

void add_comparisons(Packed& packed) {
  ComparisonSite other;
  while (static_cast<Comparison&>(other) = packed.take<Comparison>(), other.key != 0) {
    other.by_problem.clear();
    for (auto left = packed.take<std::size_t>(); left > 0; --left) {
      other.by_problem.push_back(packed.take<OfProblem>());
    }
    ComparisonSite* const site = site_of(other.key);
    if (site == nullptr) continue;
    if (site->seen == std::array<bool, 3>{}) {
      *site = other;
      continue;
    }
    for (int i = 0; i < 2; ++i) {
      site->varies[i] |= other.varies[i] || other.first[i] != site->first[i];
      const int count = std::min(other.values[i].count, DistinctValues::kMost);
      for (int k = 0; k < count; ++k) site->values[i].add(other.values[i].numbers[k]);
      if (other.values[i].is_full()) site->values[i].count = DistinctValues::kMost + 1;
    }
    for (int i = 0; i < 3; ++i) site->seen[i] |= other.seen[i];
    site->is_of_size &= other.is_of_size;
    // Both begin with those of before the copy.
    const auto [own, others] = std::mismatch(
        site->by_problem.begin(), site->by_problem.end(), other.by_problem.begin(),
        other.by_problem.end());
    site->by_problem.insert(site->by_problem.end(), others, other.by_problem.end());
    if (!site->is_of_size) site->by_problem = {};
    if (std::abs(other.nearest[0] - other.nearest[1]) <
        std::abs(site->nearest[0] - site->nearest[1])) {
      site->nearest = other.nearest;
      site->problem = other.problem;
    }
  }
}

void mark_covered(std::size_t place) {
  if (marks[place] == kNever) marks[place] = kEarlier;
}

std::string cover_apart(int count, const std::function<std::string(int)>& work) {
  constexpr std::uint64_t kSteps = 100'000'000;
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
        const StepLimit limit(kSteps, [](const std::string&) { std::exit(0); });
        const std::string text = work(found->next++);
        found->add_what_ran();
        if (found->text[0] == '\0') text.copy(found->text.data(), found->text.size() - 1);
      }
      std::exit(0);
    }
    for (std::size_t i = 0; i < found->count; ++i) mark_covered(found->places[i]);
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
  std::vector<BasicBlock> blocks = all_basic_blocks();
  std::set<std::pair<const void*, std::string>> entered;
  std::map<const void*, const char*> units;  // of these functions, and one's entry of each
  for (const BasicBlock& block : blocks) {
    if (block.mark != kNow && block.mark != kEarlier) continue;
    entered.insert(block.function);
    units[block.function.first] = block.entry;
  }
  std::map<cpu_device::SourceLine, bool> lines;  // where a piece that has not run begins: false
  for (const BasicBlock& block : blocks) {
    if (block.mark != kNever || block.is_cold) continue;
    if (!every_function && !entered.contains(block.function)) continue;
    if (!cpu_device::begins_line(block.begin)) continue;  // it has none of its own
    const cpu_device::SourceLine line = cpu_device::line_of_call(block.pc);
    if (is_user_code(line.file)) lines[line] = false;
  }
  if (lines.empty()) return {};
  // Of a line there may be several pieces: instances of a template, copies in its callers.
  std::erase_if(blocks, [](const BasicBlock& block) { return block.mark == kNever; });
  for (const BasicBlock& block : blocks) {
    for (const cpu_device::SourceLine& line : cpu_device::lines_between(block.begin, block.end)) {
      if (is_user_code(line.file)) lines[line] = true;
    }
  }
  for (const auto& [unit, code] : units) {
    for (const cpu_device::InlinedCall& call : cpu_device::inlined_calls(code)) {
      const auto line = lines.find(call.line);
      if (line == lines.end() || line->second) continue;
      const auto behind = std::ranges::lower_bound(blocks, call.end, {}, &BasicBlock::begin);
      line->second = behind != blocks.begin() && std::prev(behind)->end > call.begin;
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
  cpu_device::path_hash = (cpu_device::path_hash ^ place) * 0x9e3779b97f4a7c15u;
  if (place < sizeof marks && marks[place] != kNow) [[unlikely]]
    mark(place);
  if (--cpu_device::steps_left == 0) [[unlikely]]
    cpu_device::steps_are_over(__builtin_return_address(0));
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
