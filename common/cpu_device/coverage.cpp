/// \file
/// The functions that a compiler calls under -fsanitize-coverage=trace-pc,trace-cmp: at the
/// beginning of each basic block, a *place* of the code, and before each comparison.

#include "common/base/coverage.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "common/cpu_device/source_lines.hpp"

namespace rmsnorm {
namespace {

/// Of the bytes of the program's code, some of which are places, those that have run.
bool has_run[64 << 20];  // from the start: kernels register before main()

std::size_t offset_of(const void* pc) {
  return static_cast<std::size_t>(static_cast<const char*>(pc) - &__executable_start);
}

/// Where they are, in the order in which they have run.
std::vector<std::size_t>& places() {
  static std::vector<std::size_t> found;
  return found;
}

/// A comparison in the code. A switch has one for each of its cases.
struct Site {
  std::uintptr_t key = 0;  // 0: no site yet
  bool is_float = false;
  std::array<double, 2> first{};  // numbers that were compared
  std::array<bool, 2> varies{};   // whether they were others later
  std::array<bool, 3> seen{};     // less, equal, greater
  std::array<double, 2> nearest{};
  int problem = 0;                // in which they were nearest
  std::optional<bool> is_reader;  // who wrote it, once that has been asked
};

Site sites[1 << 14];
int current_problem = -1;  // none

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

void compare(std::uintptr_t key, double a, double b, bool is_float) {
  if (current_problem < 0 || std::isnan(a) || std::isnan(b)) return;
  Site* const site = site_of(key);
  if (site == nullptr) return;
  const bool is_new = !(site->seen[0] || site->seen[1] || site->seen[2]);
  if (is_new) {
    site->is_float = is_float;
    site->first = {a, b};
  }
  site->varies[0] |= a != site->first[0];
  site->varies[1] |= b != site->first[1];
  site->seen[a < b ? 0 : a == b ? 1 : 2] = true;
  if (!is_new && std::abs(a - b) >= std::abs(site->nearest[0] - site->nearest[1])) return;
  site->nearest = {a, b};
  site->problem = current_problem;
}

constexpr int kAddressBits = 48;  // above them, a key has the number of a switch's case

std::uintptr_t key_of(const void* pc) {
  return offset_of(pc);  // the same in each run of the program
}

/// Of a line that nobody but the harness calls, there is nothing to say.
bool is_of_reader(std::string_view file) {
  return !file.empty() && !file.starts_with("common/") && !file.starts_with("/usr/");
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
  current_problem = problem;
  for (const std::size_t place : places()) has_run[place] = false;
  places().clear();
}

std::vector<std::size_t> places_run() {
  return places();
}

std::vector<Threshold> thresholds_not_crossed() {
  std::vector<Threshold> found;
  for (Site& site : sites) {
    if (site.varies[0] == site.varies[1]) continue;  // none of both says anything of a size
    if (site.seen == std::array{true, true, true}) continue;
    if (!site.is_reader) {
      constexpr std::uintptr_t kAddress = (std::uintptr_t{1} << kAddressBits) - 1;
      const void* const pc = &__executable_start + (site.key & kAddress);
      site.is_reader = is_of_reader(cpu_device::own_line_of_call(pc).file);
    }
    if (!*site.is_reader) continue;
    const int constant = site.varies[0] ? 1 : 0;
    found.push_back(
        {site.is_float, site.first[constant], site.nearest[1 - constant], site.problem});
  }
  return found;
}

}  // namespace rmsnorm

using namespace rmsnorm;

extern "C" {

void __sanitizer_cov_trace_pc() {
  const std::size_t place = offset_of(__builtin_return_address(0));
  if (place >= sizeof has_run || has_run[place]) return;
  has_run[place] = true;
  places().push_back(place);
}

#define RMSNORM_COMPARISON(name, type, is_float)                                             \
  void __sanitizer_cov_trace_##name(type a, type b) {                                        \
    compare(                                                                                 \
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
  for (std::uint64_t i = 1; i <= cases[0]; ++i) {
    compare(
        key_of(__builtin_return_address(0)) | i << kAddressBits,
        static_cast<double>(static_cast<std::int64_t>(value)),
        static_cast<double>(static_cast<std::int64_t>(cases[i + 1])), false);
  }
}

}  // extern "C"
