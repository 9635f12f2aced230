#include "common/cpu_device/watch/bounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <regex>
#include <utility>

#include "common/cpu_device/runtime/device_memory.hpp"
#include "common/cpu_device/runtime/source_lines.hpp"
#include "common/cpu_device/scheduler/block.hpp"

namespace rmsnorm::cpu_device {
namespace {

std::string plural(std::uintptr_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
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

/// What its address has to be a multiple of.
int alignment_of(const Access& access) {
  return access.is_bulk ? std::min(access.bytes, static_cast<int>(kBulkBytes)) : access.bytes;
}

/// "bins", where cudaMalloc(&bins, bytes) is being called; else the place.
std::string name_of_allocation() {
  const SourceLine line = user_line(backtrace());
  const std::regex variable(R"([Mm]alloc\w*\s*\([^&;]*&\s*([\w.\[\]]+)\s*,)");
  static std::map<SourceLine, std::ptrdiff_t> calls;  // one line may have several
  const std::string text = source_text(line);
  const std::sregex_iterator first(text.begin(), text.end(), variable);
  if (const std::ptrdiff_t count = std::distance(first, {}); count > 0)
    return (*std::next(first, calls[line]++ % count))[1];
  return line.file.empty() ? "workspace" : "memory of " + place_text(line);
}

bool is_aligned(std::uintptr_t address, const Access& access) {
  return address % static_cast<std::uintptr_t>(alignment_of(access)) == 0;
}

}  // namespace

bool is_in(const void* address, const void* begin, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  return at >= first && at - first < bytes;
}

std::string element_text(const KnownMemory& memory, std::uintptr_t address) {
  const std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(memory.data);
  return fmt::format(
      "{}[{}]", memory.name, offset / static_cast<std::uintptr_t>(memory.element_bytes));
}

/// Reports what a GPU would return as an error. The arguments begin with who does what.
void Bounds::report(
    cudaError_t error, const Mistake& what, const Access& access,
    std::vector<FormatArg> args) const {
  runtime_.errors.set_fault(error);
  args.insert(args.begin(), {running->current(), verb(access.kind), access.bytes});
  running->report(what, access.pc, args);
}

void Bounds::start(std::vector<KnownMemory> tensors) {
  names_lines_ = tensors.empty();
  tensors_ = std::move(tensors);
  has_ranks_ = std::ranges::any_of(
      tensors_, [](const KnownMemory& memory) { return memory.reach != Reach::all; });
}

int Bounds::own_rank() const {
  return has_ranks_ ? static_cast<int>(running->block_index().y) : 0;
}

const SharedPiece& Bounds::shared(const Access& access) const {
  const SharedMemory& memory = running->shared();
  const std::size_t offset = memory.offset_of(access.address);
  const SharedPiece& piece = memory.nearest(offset);
  const std::size_t end = piece.begin + piece.bytes;
  const bool begins_inside = offset >= piece.begin && offset < end;
  if (begins_inside && !is_aligned(offset, access)) {
    report(
        cudaErrorMisalignedAddress, mistakes::kMisalignedShared, access,
        {piece.name, alignment_of(access)});
    running->stop();
  }
  if (!begins_inside || offset + static_cast<std::size_t>(access.bytes) > end) {
    const bool is_dynamic = SharedMemory::is_dynamic(piece);
    report(
        cudaErrorIllegalAddress, is_dynamic ? mistakes::kOutsideDynamic : mistakes::kOutsideShared,
        access, {distance_text(offset, piece.begin, piece.bytes, piece.element_bytes, piece.name)});
    running->stop();
  }
  return piece;
}

void Bounds::allocated(const void* data, std::size_t bytes) {
  tensors_.push_back({names_lines_ ? name_of_allocation() : "workspace", data, bytes, 4, false});
}

void Bounds::freed(const void* data) {
  std::erase_if(tensors_, [&](const KnownMemory& memory) { return memory.data == data; });
}

KnownMemory* Bounds::find(const void* address) {
  for (KnownMemory& memory : tensors_) {
    if (is_in(address, memory.data, memory.bytes)) return &memory;
  }
  // Memory of the kernel's own, from before. But around the tensors lie guards, which are nobody's.
  const Allocation* found = runtime_.memory.find(address);
  if (found == nullptr || std::any_of(tensors_.begin(), tensors_.end(), [&](const auto& tensor) {
        return is_in(tensor.data, found->data, found->bytes);
      })) {
    return nullptr;
  }
  tensors_.push_back({"workspace", found->data, found->bytes, 4});
  return &tensors_.back();
}

KnownMemory& Bounds::global(const Access& access) {
  const auto at = reinterpret_cast<std::uintptr_t>(access.address);
  KnownMemory* const found = find(access.address);
  // Elements are what a thread moves at once, if no vector.
  if (names_lines_ && found != nullptr && access.bytes <= 8) found->element_bytes = access.bytes;
  if (found != nullptr && !is_aligned(at, access)) {
    report(
        cudaErrorMisalignedAddress, mistakes::kMisalignedGlobal, access,
        {found->name, alignment_of(access)});
    running->stop();
  }
  if (found == nullptr || at + static_cast<std::uintptr_t>(access.bytes) >
                              reinterpret_cast<std::uintptr_t>(found->data) + found->bytes) {
    constexpr cudaError_t kError = cudaErrorIllegalAddress;
    if (at < kNullBytes) {
      report(kError, mistakes::kNullPointer, access, {});
    } else if (!is_device_address(access.address)) {
      report(kError, mistakes::kMemoryOfHost, access, {});
    } else {
      report(kError, mistakes::kOutsideGlobal, access, {place_in_global(at, access.bytes)});
    }
    running->stop();
  }
  if (found->reach == Reach::own_rank && found->rank != own_rank()) {
    report(
        cudaErrorIllegalAddress, mistakes::kOfOtherRank, access,
        {element_text(*found, at), found->rank});
    running->stop();
  }
  return *found;
}

std::string Bounds::name_of(const void* address) const {
  for (const KnownMemory& tensor : tensors_) {
    if (is_in(address, tensor.data, tensor.bytes)) return tensor.name;
  }
  return "memory";
}

/// ", 2 elements past the end of x (8192 elements)", of the nearest tensor.
std::string Bounds::place_in_global(std::uintptr_t at, int bytes) const {
  const KnownMemory* nearest = nullptr;
  std::uintptr_t least = std::uintptr_t{1} << 40;
  for (const KnownMemory& tensor : tensors_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
    const std::uintptr_t distance =
        at < begin ? begin - at : (at < begin + tensor.bytes ? 0 : at - begin - tensor.bytes);
    if (distance < least) nearest = &tensor, least = distance;
  }
  if (nearest == nullptr) return " at an address that no cudaMalloc has given";
  const int element_bytes = names_lines_ ? std::min(bytes, 8) : nearest->element_bytes;
  return ", " + distance_text(
                    at, reinterpret_cast<std::uintptr_t>(nearest->data), nearest->bytes,
                    static_cast<std::size_t>(element_bytes), nearest->name);
}

}  // namespace rmsnorm::cpu_device
