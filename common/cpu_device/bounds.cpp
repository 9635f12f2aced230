#include "common/cpu_device/bounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/memory.hpp"

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

bool is_multiple_of_size(std::uintptr_t address, const Access& access) {
  return address % static_cast<std::uintptr_t>(access.bytes) == 0;
}

/// An access to shared memory that may not be; `piece` is the nearest variable, or null.
Hazard describe_shared(const Access& access, const SharedPiece* piece, std::size_t offset) {
  const std::string who = who_text(access);
  Hazard found = hazard_at(access.pc, "", "");
  if (piece == nullptr) {
    found.what = who + " of shared memory, of which it has declared none";
    found.advice = "Declare it, or ask for it at the launch";
  } else if (
      offset >= piece->begin && offset < piece->begin + piece->bytes &&
      !is_multiple_of_size(offset, access)) {
    found.what = fmt::format(
        "{} of shared memory at {}, at an address that is no multiple of {}", who, piece->name,
        access.bytes);
    found.advice = fmt::format(
        "Move {} bytes at once only from and to multiples of {}", access.bytes, access.bytes);
    set_fault(cudaErrorMisalignedAddress);
  } else {
    found.what = fmt::format(
        "{}, {}", who,
        distance_text(offset, piece->begin, piece->bytes, piece->element_bytes, piece->name));
    found.advice = shared_memory().is_dynamic(*piece)
                       ? "Its size in bytes is the third argument between <<< and >>>: compare "
                         "the index with it"
                       : "Compare the index with the size before the access";
  }
  return found;
}

/// Reports it once, and ends the grid.
[[noreturn]] void give_up(const Hazard& found) {
  hazards().add("outside " + found.what, [&] { return found; });
  block_runner().stop();
  std::abort();  // stop() does not come back
}

}  // namespace

bool is_in(const void* address, const void* begin, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  return at >= first && at - first < bytes;
}

void Bounds::start(std::vector<KnownMemory> tensors) {
  tensors_ = std::move(tensors);
}

const SharedPiece& Bounds::shared(const Access& access) const {
  const std::size_t offset = shared_memory().offset_of(access.address);
  const SharedPiece* piece = shared_memory().nearest(offset);
  const bool is_inside =
      piece != nullptr && offset >= piece->begin &&
      offset + static_cast<std::size_t>(access.bytes) <= piece->begin + piece->bytes;
  if (!is_inside || !is_multiple_of_size(offset, access)) {
    set_fault(cudaErrorIllegalAddress);
    give_up(describe_shared(access, piece, offset));
  }
  return *piece;
}

const std::string& Bounds::global(const Access& access) const {
  static const std::string kWorkspace = "workspace";
  const auto at = reinterpret_cast<std::uintptr_t>(access.address);
  const std::string* name = nullptr;
  std::uintptr_t end = 0;
  for (const KnownMemory& tensor : tensors_) {
    if (!is_in(access.address, tensor.data, tensor.bytes)) continue;
    name = &tensor.name;
    end = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.bytes;
  }
  if (name == nullptr) {
    // A workspace of the kernel's own. But around the tensors lie guards, which are nobody's.
    const Allocation* found = find_allocation(access.address);
    const bool has_tensors =
        found != nullptr &&
        std::any_of(tensors_.begin(), tensors_.end(), [&](const KnownMemory& t) {
          return is_in(t.data, found->data, found->bytes);
        });
    if (found != nullptr && !has_tensors) {
      name = &kWorkspace;
      end = reinterpret_cast<std::uintptr_t>(found->data) + found->bytes;
    }
  }
  const bool is_inside = name != nullptr && at + static_cast<std::uintptr_t>(access.bytes) <= end;
  if (!is_inside || !is_multiple_of_size(at, access)) {
    set_fault(cudaErrorIllegalAddress);
    give_up(describe_global(access));
  }
  return *name;
}

/// An access to global memory that may not be.
Hazard Bounds::describe_global(const Access& access) const {
  const std::string who = who_text(access);
  Hazard found = hazard_at(access.pc, "", "");
  const auto at = reinterpret_cast<std::uintptr_t>(access.address);
  const int bytes = access.bytes;
  const KnownMemory* nearest = nullptr;
  std::uintptr_t least = 0;
  for (const KnownMemory& tensor : tensors_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
    const std::uintptr_t distance =
        at < begin ? begin - at : (at < begin + tensor.bytes ? 0 : at - begin - tensor.bytes);
    if (nearest == nullptr || distance < least) nearest = &tensor, least = distance;
  }
  constexpr std::uintptr_t kFar = std::uintptr_t{1} << 40;
  const bool is_misaligned = !is_multiple_of_size(at, access);
  if (nearest != nullptr && least == 0 && is_misaligned &&
      is_in(access.address, nearest->data, nearest->bytes)) {
    found.what =
        fmt::format("{} of {} at an address that is no multiple of {}", who, nearest->name, bytes);
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
  } else if (is_misaligned && find_allocation(access.address) != nullptr) {
    found.what = fmt::format("{} at an address that is no multiple of {}", who, bytes);
    found.advice = fmt::format("A {}-byte access needs a {}-byte address", bytes, bytes);
    set_fault(cudaErrorMisalignedAddress);
  } else {
    found.what = who + " at an address that no cudaMalloc has given";
    found.advice = "Compare the index with the size before the access";
  }
  return found;
}

}  // namespace rmsnorm::cpu_device
