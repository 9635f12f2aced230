#include "common/cpu_device/scheduler/shared_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "common/base/sanitizer.hpp"
#include "common/cpu_device/scheduler/block.hpp"

namespace rmsnorm::cpu_device {
namespace {

constexpr std::uint32_t kNothing = 0x7fa5a5a5;  // a NaN

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

SharedMemory::SharedMemory() {
  void* const all =
      mmap(nullptr, kRangeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(all);
  mprotect(memory_ + kFirstByte, kMemoryBytes, PROT_READ | PROT_WRITE);
  make_inaccessible(memory_ + kFirstByte, kMemoryBytes);
  dynamic_ = {.name = "dynamic memory", .begin = kDynamicBegin, .bytes = 0, .element_bytes = 1};
}

void SharedMemory::begin_launch(std::size_t dynamic_bytes) {
  for (const SharedPiece& piece : pieces_) make_inaccessible(memory_ + piece.begin, piece.bytes);
  pieces_.clear();
  ++launch_;
  dynamic_bytes_ = dynamic_bytes;
  static_bytes_ = 0;
  end_ = kFirstByte;
  dynamic_.bytes = dynamic_bytes;
  pieces_.push_back(dynamic_);
  make_accessible(memory_ + kDynamicBegin, dynamic_bytes);
}

void SharedMemory::begin_block() {
  for (const SharedPiece& piece : pieces_) fill(piece);
}

std::size_t SharedMemory::save(char* to) const {
  for (const SharedPiece& piece : pieces_) {
    std::copy_n(memory_ + piece.begin, piece.bytes, to + piece.begin - kFirstByte);
  }
  return pieces_.size();
}

void SharedMemory::restore(const char* from, std::size_t variables) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const SharedPiece& piece = pieces_[i];
    if (i < variables) {
      std::copy_n(from + piece.begin - kFirstByte, piece.bytes, memory_ + piece.begin);
    } else {
      fill(piece);
    }
  }
}

void SharedMemory::fill(const SharedPiece& piece) {
  char* data = memory_ + piece.begin;
  for (std::size_t i = 0; i + sizeof kNothing <= piece.bytes; i += sizeof kNothing) {
    std::memcpy(data + i, &kNothing, sizeof kNothing);
  }
}

/// Places a piece behind the last one. Its banks are those it would have without the gaps.
const SharedPiece& SharedMemory::location(
    std::string name, std::size_t bytes, std::size_t alignment, std::size_t element_bytes) {
  static_bytes_ = round_up(static_bytes_, alignment);
  const std::size_t begin = round_up(end_ + kGap, kRowOfBanks) + static_bytes_ % kRowOfBanks;
  end_ = begin + bytes;
  pieces_.push_back({std::move(name), begin, bytes, element_bytes});
  make_accessible(memory_ + begin, bytes);
  fill(pieces_.back());
  return pieces_.back();
}

void* SharedMemory::reserve(
    SharedVariable& variable, std::size_t bytes, std::size_t alignment, std::size_t element_bytes,
    const char* name, SourceLocation source, const bool* padding) {
  const NotWatching guard;
  const std::size_t all = round_up(static_bytes_, alignment) + bytes;
  if (all > kSharedBytes || all + dynamic_bytes_ > kSharedBytesOptin ||
      end_ + bytes + 3 * kGap > kDynamicBegin) {
    running->report(
        mistakes::kNoRoom, source, {name, all, dynamic_bytes_, kSharedBytes, kSharedBytesOptin});
    running->stop();
  }
  const SharedPiece& piece = location(name, bytes, alignment, element_bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    if (padding[i % element_bytes]) running->observer().add_padding(piece.begin + i);
  }
  static_bytes_ = all;
  if (published_ != nullptr) *published_ = all;
  variable.data = memory_ + piece.begin;
  variable.launch = launch_;
  return variable.data;
}

void* SharedMemory::dynamic(std::size_t element_bytes, const char* name) {
  if (dynamic_.name != name) {
    const NotWatching guard;
    dynamic_.name = name;
    dynamic_.element_bytes = element_bytes;
    for (SharedPiece& piece : pieces_) {
      if (is_dynamic(piece)) piece = dynamic_;
    }
  }
  return memory_ + kDynamicBegin;
}

std::string element_text(const SharedPiece& piece, std::size_t offset) {
  if (piece.bytes == piece.element_bytes) return piece.name;
  return fmt::format("{}[{}]", piece.name, (offset - piece.begin) / piece.element_bytes);
}

const SharedPiece& SharedMemory::nearest(std::size_t offset) const {
  const auto distance = [offset](const SharedPiece& piece) {
    if (offset < piece.begin) return piece.begin - offset;
    return offset < piece.begin + piece.bytes ? 0 : offset - (piece.begin + piece.bytes) + 1;
  };
  return *std::min_element(  // the dynamic memory is there in every launch
      pieces_.begin(), pieces_.end(),
      [&](const SharedPiece& a, const SharedPiece& b) { return distance(a) < distance(b); });
}

}  // namespace rmsnorm::cpu_device
