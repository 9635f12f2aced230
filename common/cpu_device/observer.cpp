#include "common/cpu_device/observer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "common/cpu_device/memory.hpp"
#include "common/cpu_device/shared_memory.hpp"
#include "common/cpu_device/source_lines.hpp"

// The program's code and static data, by the linker.
extern "C" const char __executable_start;
extern "C" const char _end;

namespace rmsnorm::cpu_device {
namespace {

constexpr std::uintptr_t kSectorBytes = 32;
constexpr std::uintptr_t kBanks = 32;
constexpr std::uintptr_t kWordBytes = 4;
/// A thread that does the same more often than this without meeting the others waits for them: what
/// is not counted yet must fit in memory.
constexpr int kMostPending = 4096;

bool is_in(const void* address, const void* begin, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  return at >= first && at - first < bytes;
}

const char* verb(Touch touch) {
  switch (touch) {
    case Touch::load:
      return "reads";
    case Touch::store:
      return "writes";
    case Touch::atomic:
      return "atomically changes";
  }
  return "";
}

std::string place_text(const SourceLine& line) {
  return fmt::format("{}:{}", line.file, line.line);
}

std::string plural(std::uintptr_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// "staged[12]", or the name alone for a variable that is no array.
std::string element_text(const SharedPiece& piece, std::size_t offset) {
  if (piece.bytes == piece.element_bytes) return piece.name;
  return fmt::format("{}[{}]", piece.name, (offset - piece.begin) / piece.element_bytes);
}

/// "2 elements past the end of x (8192 elements)"; the address is outside.
std::string distance_text(
    std::uintptr_t address, std::uintptr_t begin, std::size_t bytes, std::size_t element_bytes,
    const std::string& name) {
  const std::string size = plural(bytes / element_bytes, "element");
  if (address < begin) {
    const std::uintptr_t elements = (begin - address + element_bytes - 1) / element_bytes;
    return fmt::format("{} before the start of {} ({})", plural(elements, "element"), name, size);
  }
  const std::uintptr_t end = begin + bytes;
  const std::uintptr_t past = address < end ? 0 : (address - end) / element_bytes;
  return fmt::format("{} past the end of {} ({})", plural(past + 1, "element"), name, size);
}

}  // namespace

void Observer::start(std::vector<Tensor> tensors) {
  tensors_ = std::move(tensors);
  names_.clear();
  sites_.clear();
  site_of_.clear();
  pending_.clear();
  meetings_.clear();
  blocks_ = 0;
  is_watching = true;
}

Observation Observer::stop() {
  is_watching = false;
  // Several instructions may come from one line.
  std::map<std::pair<std::pair<std::string, int>, std::pair<std::string, std::string>>, LineCount>
      lines;
  for (const Site& site : sites_) {
    const SourceLine source = line_of_call(site.pc);
    const std::string kind =
        std::string(site.is_shared ? "shared" : "global") + (site.is_store ? " store" : " load");
    LineCount& line = lines[{{source.file, source.line}, {kind, names_[site.what]}}];
    line.file = source.file;
    line.line = source.line;
    line.kind = kind;
    line.what = names_[site.what];
    line.bytes = std::max(line.bytes, site.bytes);
    line.requests += site.requests;
    line.lanes += site.lanes;
    line.sectors += site.sectors;
    line.wavefronts += site.wavefronts;
    line.conflicts += site.conflicts;
  }
  Observation observation;
  observation.blocks = blocks_;
  for (auto& [key, line] : lines) observation.lines.push_back(std::move(line));
  for (const auto& [key, meetings] : meetings_) {
    LineCount line;
    line.kind = key.first;
    line.file = key.second.first;
    line.line = key.second.second;
    line.requests = meetings.times;
    line.lanes = meetings.lanes;
    observation.lines.push_back(std::move(line));
  }
  return observation;
}

void Observer::launch_begins(
    const void* kernel, const void* arguments, std::size_t argument_bytes) {
  kernel_ = kernel;
  arguments_ = static_cast<const char*>(arguments);
  argument_bytes_ = argument_bytes;
}

std::string Observer::kernel() const {
  return name_of_function(kernel_);
}

void Observer::block_begins() {
  if (!is_watching) return;
  ++blocks_;
  races_.begin_block();
}

void Observer::block_ends() {
  if (!is_watching) return;
  for (int warp = 0; warp < kMaxWarps; ++warp) count(warp);
}

/// The lanes that wait because they did the same too often have all done it equally often.
void Observer::all_paused() {
  if (!is_watching) return;
  for (std::size_t site = 0; site < sites_.size(); ++site) {
    for (int warp = 0; warp < kMaxWarps; ++warp) {
      if (pending_[site][warp].used >= kMostPending) count(site, warp);
    }
  }
}

void Observer::barrier_passed(Place place, int threads) {
  if (!is_watching) return;
  for (int warp = 0; warp < kMaxWarps; ++warp) count(warp);
  races_.barrier();
  Meetings& meetings = meetings_[{"barrier", {short_name(place.file), place.line}}];
  ++meetings.times;
  meetings.lanes += threads;
}

void Observer::lanes_met(Meeting kind, int warp, std::uint32_t lanes, Place place) {
  if (!is_watching) return;
  if (kind == Meeting::sync) races_.sync_warp(warp, lanes);
  if (lanes == 0xffffffff) count(warp);
  if (kind != Meeting::shuffle) return;
  Meetings& meetings = meetings_[{"shuffle", {short_name(place.file), place.line}}];
  ++meetings.times;
  meetings.lanes += std::popcount(lanes);
}

void Observer::access(const void* pc, const void* address, int bytes, Touch touch) {
  if (!in_watched_kernel) return;
  const NotWatching pause;  // the library's templates may come from an observed file
  if (block_runner().stacks().contains(address)) return;  // the thread's own variables
  if (shared_memory().contains(address)) return shared_access(pc, address, bytes, touch);
  if (is_in(address, arguments_, argument_bytes_)) return;
  const auto program_bytes = static_cast<std::size_t>(&_end - &__executable_start);
  if (is_in(address, &__executable_start, program_bytes)) return;  // threadIdx and the like
  global_access(pc, address, bytes, touch);
}

void Observer::shared_access(const void* pc, const void* address, int bytes, Touch touch) {
  const std::size_t offset = shared_memory().offset_of(address);
  const SharedPiece* piece = shared_memory().nearest(offset);
  if (piece == nullptr || offset < piece->begin ||
      offset + static_cast<std::size_t>(bytes) > piece->begin + piece->bytes) {
    report_outside(pc, address, bytes, touch);
  }
  if (offset % static_cast<std::size_t>(bytes) != 0) report_outside(pc, address, bytes, touch);

  const RaceDetector::Finding finding =
      races_.access(pc, block_runner().current(), offset - SharedMemory::kFirstByte, bytes, touch);
  if (finding.is_race) report_race(finding.other, pc, offset, touch);
  if (finding.is_unwritten && hazards().is_new("unwritten " + place_text(line_of_call(pc)))) {
    Hazard found = hazard(pc);
    found.what = fmt::format(
        "thread {} reads {}, which no thread of this block has written before",
        block_runner().current(), element_text(*piece, offset));
    found.advice = "Shared memory begins with no value: let a thread write it first";
    found.is_symptom = true;  // or one thread does, too late: then there is a race as well
    hazards().add(found);
  }
  record(pc, true, touch, bytes, name(piece->name), offset);
}

void Observer::global_access(const void* pc, const void* address, int bytes, Touch touch) {
  const Tensor* tensor = nullptr;
  Tensor allocation;
  for (const Tensor& candidate : tensors_) {
    if (is_in(address, candidate.data, candidate.bytes)) tensor = &candidate;
  }
  if (tensor == nullptr) {
    // A workspace of the kernel's own. But around the tensors lie guards, which are nobody's.
    const Allocation* found = find_allocation(address);
    const bool has_tensors =
        found != nullptr && std::any_of(tensors_.begin(), tensors_.end(), [&](const Tensor& t) {
          return is_in(t.data, found->data, found->bytes);
        });
    if (found != nullptr && !has_tensors) {
      allocation = {"workspace", found->data, found->bytes, bytes};
      tensor = &allocation;
    }
  }
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const bool is_inside =
      tensor != nullptr && at + static_cast<std::uintptr_t>(bytes) <=
                               reinterpret_cast<std::uintptr_t>(tensor->data) + tensor->bytes;
  if (!is_inside || at % static_cast<std::uintptr_t>(bytes) != 0) {
    report_outside(pc, address, bytes, touch);
  }
  record(pc, false, touch, bytes, name(tensor->name), at);
}

/// Out of bounds or misaligned: on a GPU, the kernel could not go on either.
void Observer::report_outside(const void* pc, const void* address, int bytes, Touch touch) {
  Hazard found = hazard(pc);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::string who =
      fmt::format("thread {} {} {} bytes", block_runner().current(), verb(touch), bytes);
  set_fault(cudaErrorIllegalAddress);
  if (shared_memory().contains(address)) {
    const std::size_t offset = shared_memory().offset_of(address);
    const SharedPiece* piece = shared_memory().nearest(offset);
    if (piece != nullptr && offset >= piece->begin && offset < piece->begin + piece->bytes &&
        offset % static_cast<std::size_t>(bytes) != 0) {
      found.what = fmt::format(
          "{} of shared memory at {}, at an address that is no multiple of {}", who, piece->name,
          bytes);
      found.advice =
          fmt::format("Move {} bytes at once only from and to multiples of {}", bytes, bytes);
      set_fault(cudaErrorMisalignedAddress);
    } else if (piece == nullptr) {
      found.what = who + " of shared memory, of which it has declared none";
      found.advice = "Declare it, or ask for it at the launch";
    } else {
      found.what = fmt::format(
          "{}, {}", who,
          distance_text(offset, piece->begin, piece->bytes, piece->element_bytes, piece->name));
      found.advice = shared_memory().is_dynamic(*piece)
                         ? "Its size in bytes is the third argument between <<< and >>>: compare "
                           "the index with it"
                         : "Compare the index with the size before the access";
    }
  } else {
    const Tensor* nearest = nullptr;
    std::uintptr_t least = 0;
    for (const Tensor& tensor : tensors_) {
      const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
      const std::uintptr_t distance =
          at < begin ? begin - at : (at < begin + tensor.bytes ? 0 : at - begin - tensor.bytes);
      if (nearest == nullptr || distance < least) nearest = &tensor, least = distance;
    }
    constexpr std::uintptr_t kFar = std::uintptr_t{1} << 40;
    const bool is_misaligned = at % static_cast<std::uintptr_t>(bytes) != 0;
    if (nearest != nullptr && least == 0 && is_misaligned &&
        is_in(address, nearest->data, nearest->bytes)) {
      found.what = fmt::format(
          "{} of {} at an address that is no multiple of {}", who, nearest->name, bytes);
      found.advice = fmt::format(
          "A {}-byte access needs a {}-byte address, in every row: refuse the problem, or move "
          "single elements",
          bytes, bytes);
      set_fault(cudaErrorMisalignedAddress);
    } else if (nearest != nullptr && least < kFar) {
      found.what = fmt::format(
          "{}, {}", who,
          distance_text(
              at, reinterpret_cast<std::uintptr_t>(nearest->data), nearest->bytes,
              static_cast<std::size_t>(nearest->element_bytes), nearest->name));
      found.advice = "Compare the index with the size before the access";
    } else if (is_misaligned && find_allocation(address) != nullptr) {
      found.what = fmt::format("{} at an address that is no multiple of {}", who, bytes);
      found.advice = fmt::format("A {}-byte access needs a {}-byte address", bytes, bytes);
      set_fault(cudaErrorMisalignedAddress);
    } else {
      found.what = who + " at an address that no cudaMalloc has given";
      found.advice = "Compare the index with the size before the access";
    }
  }
  if (hazards().is_new("outside " + found.what)) hazards().add(found);
  block_runner().stop();
  std::abort();  // stop() does not come back
}

void Observer::report_race(
    const RaceDetector::Conflict& other, const void* pc, std::size_t offset, Touch touch) {
  const SourceLine here = line_of_call(pc);
  const SourceLine there = line_of_call(other.pc);
  if (!hazards().is_new(
          "race " + place_text(std::min(here, there)) + place_text(std::max(here, there)))) {
    return;
  }
  const SharedPiece& piece = *shared_memory().nearest(offset);
  const int me = block_runner().current();
  Hazard found = hazard(pc);
  const bool both_write_here =
      here == there && touch == Touch::store && other.touch == Touch::store;
  found.what = fmt::format(
      "a race: thread {} {} {} here, thread {} {} it at {}, and no barrier is between them", me,
      verb(touch), element_text(piece, offset), other.thread, verb(other.touch), place_text(there));
  found.advice = both_write_here
                     ? "Let one of the threads write it, or give each an element of its own"
                     : "Put __syncthreads() between the two";
  hazards().add(found);
}

Hazard Observer::hazard(const void* pc) const {
  const SourceLine line = line_of_call(pc);
  return {
      .file = line.file,
      .line = line.line,
      .what = "",
      .advice = "",
      .kernel = kernel(),
      .block = block_runner().block_index(),
      .thread = block_runner().index_of(block_runner().current())};
}

int Observer::name(const std::string& text) {
  const auto found = std::find(names_.begin(), names_.end(), text);
  if (found != names_.end()) return static_cast<int>(found - names_.begin());
  names_.push_back(text);
  return static_cast<int>(names_.size()) - 1;
}

void Observer::record(
    const void* pc, bool is_shared, Touch touch, int bytes, int what, std::uintptr_t address) {
  const bool is_store = touch != Touch::load;
  // Addresses have 48 bits.
  const std::uint64_t key = reinterpret_cast<std::uintptr_t>(pc) << 12 ^
                            static_cast<std::uint64_t>(what) << 2 ^ (is_store ? 2u : 0u) ^
                            (is_shared ? 1u : 0u);
  const auto [found, is_new] = site_of_.try_emplace(key, static_cast<int>(sites_.size()));
  if (is_new) {
    sites_.push_back(
        {.pc = pc, .is_shared = is_shared, .is_store = is_store, .bytes = bytes, .what = what});
    pending_.emplace_back();
  }
  const int warp = block_runner().warp();
  const int lane = block_runner().lane();
  Pending& pending = pending_[found->second][warp];
  const auto n = static_cast<std::size_t>(pending.times[lane]++);
  if (n >= pending.requests.size()) pending.requests.resize(n + 1);
  pending.used = std::max(pending.used, n + 1);
  Request& request = pending.requests[n];
  request.lane[request.lanes] = static_cast<std::uint8_t>(lane);
  request.address[request.lanes] = address;
  ++request.lanes;

  if (pending.times[lane] >= kMostPending) block_runner().pause();
}

/// Counts what a warp has pending.
void Observer::count(int warp) {
  for (std::size_t site = 0; site < sites_.size(); ++site) count(site, warp);
}

void Observer::count(std::size_t site_number, int warp) {
  Pending& pending = pending_[site_number][warp];
  Site& site = sites_[site_number];
  for (std::size_t n = 0; n < pending.used; ++n) {
    Request& request = pending.requests[n];
    ++site.requests;
    site.lanes += request.lanes;
    if (site.is_shared) {
      count_wavefronts(request, site);
    } else {
      count_sectors(request, site);
    }
    request.lanes = 0;
  }
  if (pending.used > 0) pending.times.fill(0);
  pending.used = 0;
}

void Observer::count_sectors(const Request& request, Site& site) {
  std::array<std::uintptr_t, kWarpThreads> sectors;
  for (int i = 0; i < request.lanes; ++i) sectors[i] = request.address[i] / kSectorBytes;
  std::sort(sectors.begin(), sectors.begin() + request.lanes);
  site.sectors += std::unique(sectors.begin(), sectors.begin() + request.lanes) - sectors.begin();
}

/// Whether no two active lanes that differ in this bit of their number have different addresses.
bool Observer::pairs_agree(const Request& request, int bit) {
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
/// if neighbouring lanes, or the next but one, want the same.
void Observer::count_wavefronts(const Request& request, Site& site) {
  const int words = std::max(1, site.bytes / static_cast<int>(kWordBytes));
  int lanes_at_once = kWarpThreads / words;
  if (words > 1 && (pairs_agree(request, 1) || pairs_agree(request, 2))) lanes_at_once *= 2;
  for (int first = 0; first < kWarpThreads; first += lanes_at_once) {
    std::array<std::vector<std::uintptr_t>, kBanks> wanted;
    std::size_t passes = 0;
    for (int i = 0; i < request.lanes; ++i) {
      if (request.lane[i] < first || request.lane[i] >= first + lanes_at_once) continue;
      for (int k = 0; k < words; ++k) {
        const std::uintptr_t word = request.address[i] / kWordBytes + static_cast<unsigned>(k);
        std::vector<std::uintptr_t>& bank = wanted[word % kBanks];
        if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
        passes = std::max(passes, bank.size());
      }
    }
    site.wavefronts += static_cast<std::int64_t>(passes);
    if (passes > 1) site.conflicts += static_cast<std::int64_t>(passes) - 1;
  }
}

}  // namespace rmsnorm::cpu_device
