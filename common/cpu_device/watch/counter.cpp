#include "common/cpu_device/watch/counter.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "common/cpu_device/watch/views.hpp"

namespace rmsnorm::cpu_device {
namespace {

constexpr std::uintptr_t kBanks = 32;
constexpr std::uintptr_t kBankBytes = 4;
/// Flush threshold: a lane with this many accesses at one site yields, so that pending requests
/// stay bounded.
constexpr int kMostPending = 4096;

}  // namespace

LaunchCounts Counter::result() const {
  // Several instructions may come from one line.
  using Key = std::tuple<std::string, int, std::string, std::string, CachePolicy>;
  std::map<Key, LineCount> lines;
  for (const Site& site : sites_) {
    const SourceLine source = line_of_call(site.pc);
    constexpr const char* kSpaces[] = {"global", "peer", "poll", "signal", "shared", "remote"};
    std::string kind = site.is_bulk ? "bulk" : kSpaces[static_cast<int>(site.space)];
    const bool is_wait = site.space == Space::poll || site.space == Space::signal;
    if (!is_wait) kind += site.is_store ? " store" : " load";
    LineCount& line = lines[{source.file, source.line, kind, names_[site.what], site.policy}];
    line.file = source.file;
    line.line = source.line;
    line.kind = kind;
    line.what = names_[site.what];
    line.policy = to_string(site.policy);
    line.bytes = std::max(line.bytes, site.bytes);
    line.requests += site.requests;
    line.lanes += site.lanes;
    line.sectors += site.sectors;
    line.wavefronts += site.wavefronts;
    line.conflicts += site.conflicts;
    line.late += site.late;
  }
  LaunchCounts counts;
  counts.blocks = blocks_;
  counts.overlapping_blocks = overlapping_blocks_;
  for (auto& [key, line] : lines) counts.lines.push_back(std::move(line));
  std::map<std::pair<std::string, SourceLine>, LineCount> synchronizations;
  for (const auto& [place, counted] : synchronizations_) {
    const auto& [kind, file, number] = place;
    const SourceLine source = line_of({file, number});
    LineCount& line = synchronizations[{kind, source}];
    line.kind = kind;
    line.file = source.file;
    line.line = source.line;
    line.requests += counted.requests;
    line.lanes += counted.lanes;
  }
  for (const auto& [place, line] : synchronizations) counts.lines.push_back(line);
  return counts;
}

void Counter::flush_block() {
  for (int warp = 0; warp < kMaxWarps; ++warp) flush_warp(warp);
}

void Counter::swap_block(BlockState& other) {
  std::swap(pending_, other.pending);
  std::swap(has_met_, other.has_met);
  pending_.resize(sites_.size());
}

void Counter::all_yielded() {
  for (std::size_t site = 0; site < sites_.size(); ++site) {
    for (int warp = 0; warp < kMaxWarps; ++warp) {
      if (pending_[site][warp].used >= kMostPending) count(site, warp);
    }
  }
}

void Counter::synchronization(const char* kind, SourceLocation location, int threads) {
  if (kind == std::string_view("barrier")) has_met_ = true;
  Synchronization& found = synchronizations_[{kind, location.file, location.line}];
  ++found.requests;
  found.lanes += threads;
}

int Counter::name(const std::string& text) {
  const auto found = std::find(names_.begin(), names_.end(), text);
  if (found != names_.end()) return static_cast<int>(found - names_.begin());
  names_.push_back(text);
  return static_cast<int>(names_.size()) - 1;
}

std::size_t Counter::site_of(const Access& access, Space space, const std::string& of) {
  const int what = name(of);
  const bool is_store = access.kind != AccessKind::load;
  const bool is_atomic = access.kind == AccessKind::atomic;
  // Addresses have 48 bits.
  const std::uint64_t key = reinterpret_cast<std::uintptr_t>(access.pc) << 14 ^
                            static_cast<std::uint64_t>(access.policy) << 12 ^
                            static_cast<std::uint64_t>(what) << 5 ^ (is_atomic ? 16u : 0u) ^
                            (is_store ? 8u : 0u) ^ static_cast<unsigned>(space);
  const auto [found, is_new] = known_sites_.try_emplace(key, sites_.size());
  if (is_new) {
    sites_.push_back(
        {.pc = access.pc,
         .space = space,
         .is_store = is_store,
         .is_atomic = is_atomic,
         .is_bulk = access.is_bulk,
         .bytes = access.bytes,
         .what = what,
         .policy = access.policy});
    pending_.emplace_back();
  }
  return found->second;
}

void Counter::bulk_load(const Access& access, const std::string& of) {
  Site& site = sites_[site_of(access, Space::global, of)];
  const auto first = reinterpret_cast<std::uintptr_t>(access.address);
  const std::uintptr_t last = first + static_cast<std::uintptr_t>(access.bytes) - 1;
  ++site.requests;
  ++site.lanes;
  site.bytes = std::max(site.bytes, access.bytes);
  site.sectors += static_cast<std::int64_t>(last / kSectorBytes - first / kSectorBytes + 1);
}

void Counter::access(
    const Access& access, Space space, const std::string& of, std::uintptr_t address) {
  const std::size_t site = site_of(access, space, of);
  const int warp = running->warp();
  const int lane = running->lane();
  Pending& pending = pending_[site][warp];
  const auto n = static_cast<std::size_t>(pending.times[lane]++);
  if (n >= pending.requests.size()) pending.requests.resize(n + 1);
  pending.used = std::max(pending.used, n + 1);
  Request& request = pending.requests[n];
  request.lane[request.lanes] = static_cast<std::uint8_t>(lane);
  request.address[request.lanes] = address;
  ++request.lanes;

  if (pending.times[lane] >= kMostPending) running->yield();
}

void Counter::flush_warp(int warp) {
  for (std::size_t site = 0; site < sites_.size(); ++site) count(site, warp);
}

void Counter::count(std::size_t site_number, int warp) {
  Pending& pending = pending_[site_number][warp];
  Site& site = sites_[site_number];
  for (std::size_t n = 0; n < pending.used; ++n) {
    Request& request = pending.requests[n];
    ++site.requests;
    if (has_met_) ++site.late;
    site.lanes += request.lanes;
    if (site.space < Space::shared) count_sectors(request, site);
    if (site.space == Space::shared) count_wavefronts(request, site);
    request.lanes = 0;
  }
  if (pending.used > 0) pending.times.fill(0);
  pending.used = 0;
}

void Counter::count_sectors(const Request& request, Site& site) {
  std::array<std::uintptr_t, kWarpThreads> sectors;
  for (int i = 0; i < request.lanes; ++i) sectors[i] = request.address[i] / kSectorBytes;
  std::sort(sectors.begin(), sectors.begin() + request.lanes);
  site.sectors += std::unique(sectors.begin(), sectors.begin() + request.lanes) - sectors.begin();
}

/// Whether no two active lanes that differ in this bit of their number have different addresses.
bool Counter::pairs_agree(const Request& request, int bit) {
  std::array<std::uintptr_t, kWarpThreads> address{};
  std::uint32_t active = 0;
  for (int i = 0; i < request.lanes; ++i) {
    address[request.lane[i]] = request.address[i];
    active |= 1u << request.lane[i];
  }
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    const bool both = (active >> lane & 1) != 0 && (active >> (lane ^ bit) & 1) != 0;
    if (both && address[lane] != address[lane ^ bit]) return false;
  }
  return true;
}

/// A wavefront is one pass of the 32 banks, each of which serves one word of 4 bytes. Half of the
/// warp goes at a time with 8 bytes a lane, a quarter with 16; two halves or quarters go together
/// if neighbouring lanes, or the next but one, want the same. Lanes that change one word atomically
/// take turns.
void Counter::count_wavefronts(const Request& request, Site& site) {
  const int words = std::max(1, site.bytes / static_cast<int>(kBankBytes));
  int lanes_at_once = kWarpThreads / words;
  if (words > 1 && (pairs_agree(request, 1) || pairs_agree(request, 2))) lanes_at_once *= 2;
  for (int first = 0; first < kWarpThreads; first += lanes_at_once) {
    static std::array<std::vector<std::uintptr_t>, kBanks> wanted;  // keeps its memory
    for (std::vector<std::uintptr_t>& bank : wanted) bank.clear();
    std::size_t passes = 0;
    for (int i = 0; i < request.lanes; ++i) {
      if (request.lane[i] < first || request.lane[i] >= first + lanes_at_once) continue;
      for (int k = 0; k < words; ++k) {
        const std::uintptr_t word = request.address[i] / kBankBytes + static_cast<unsigned>(k);
        std::vector<std::uintptr_t>& bank = wanted[word % kBanks];
        const bool is_shared_pass =
            !site.is_atomic && std::find(bank.begin(), bank.end(), word) != bank.end();
        if (!is_shared_pass) bank.push_back(word);
        passes = std::max(passes, bank.size());
      }
    }
    site.wavefronts += static_cast<std::int64_t>(passes);
    if (passes > 1) site.conflicts += static_cast<std::int64_t>(passes) - 1;
  }
}

}  // namespace rmsnorm::cpu_device
