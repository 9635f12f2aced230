#pragma once
/// \file
/// The shared memory of the block that is running. Every variable has a gap before and after it, so
/// that an access beyond its end lands where nothing is.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/cpu_device/scheduler/source_location.hpp"

namespace rmsnorm::cpu_device {

/// What compute capability 9.0 gives a block by default, bytes.
inline constexpr std::size_t kSharedBytes = std::size_t{48} << 10;
/// The most that a kernel can ask for.
inline constexpr std::size_t kSharedBytesOptin = std::size_t{227} << 10;

/// Where a kernel's __shared__ declaration remembers its memory during a launch.
struct SharedVariable {
  std::uint64_t launch = 0;  ///< whose memory it is
  void* data = nullptr;      ///< its first byte
};

/// One piece of shared memory.
struct SharedPiece {
  std::string name;           ///< of the variable
  std::size_t begin;          ///< first byte, counted from the start of the device's memory
  std::size_t bytes;          ///< may be 0
  std::size_t element_bytes;  ///< of the array, or of the variable itself
};

/// "staged[12]", or the name alone for a variable that is no array. `offset` is the byte's in
/// shared memory.
std::string element_text(const SharedPiece& piece, std::size_t offset);

/// The shared memory of the block that runs.
class SharedMemory {
 public:
  SharedMemory();

  /// Forgets the variables of the launch before, and makes room for a kernel's dynamic ones.
  void begin_launch(std::size_t dynamic_bytes);
  /// Fills all variables with NaN: what a block does not write has no value.
  void begin_block();
  /// Copies all that the block has to kMemoryBytes elsewhere. Gives the number of variables.
  std::size_t save(char* to) const;
  /// Copies it back, of so many variables. The others have no value.
  void restore(const char* from, std::size_t variables);

  /// The memory of a variable, which the launch's first call for it reserves. A launch that runs
  /// out of shared memory is stopped. `padding` tells the bytes of an element that are padding.
  void* reserve(
      SharedVariable& variable, std::size_t bytes, std::size_t alignment, std::size_t element_bytes,
      const char* name, SourceLocation location, const bool* padding);
  /// The memory that a launch asks for as its third argument: always at the same address, which a
  /// declaration outside of all functions needs before there is a launch.
  void* dynamic(std::size_t element_bytes, const char* name);

  std::uint64_t launch() const { return launch_; }  ///< its number
  /// Bytes of all variables that the launch has declared so far, without the dynamic ones.
  std::size_t static_bytes() const { return static_bytes_; }

  /// From now on, static_bytes() also goes to this address, whatever becomes of the kernel.
  void publish_static_bytes(volatile std::size_t* to) { published_ = to; }

  /// Whether an address lies in shared memory, in the gaps between its variables, or so far out
  /// that a wrong index must have led there.
  bool contains(const void* address) const {
    const auto* byte = static_cast<const char*>(address);
    return byte >= memory_ && byte < memory_ + kRangeBytes;
  }
  char* begin() const { return memory_; }  ///< the start of the device's memory
  /// How many bytes an address lies behind the start of the device's memory.
  std::size_t offset_of(const void* address) const {
    return static_cast<std::size_t>(static_cast<const char*>(address) - memory_);
  }
  /// The piece that holds the byte at an offset, or else the one that is nearest to it.
  const SharedPiece& nearest(std::size_t offset) const;

  /// Whether a piece is the memory that the launch asked for.
  static bool is_dynamic(const SharedPiece& piece) { return piece.begin == kDynamicBegin; }

  /// For all variables of a launch.
  static constexpr std::size_t kMemoryBytes = std::size_t{2} << 20;
  static constexpr std::size_t kFirstByte = std::size_t{256} << 20;  ///< before it is nothing
  static constexpr std::size_t kGap = 4096;        ///< around each variable: room to be wrong in
  static constexpr std::size_t kRowOfBanks = 128;  ///< 32 banks of 4 bytes
  /// Dynamic memory always has the same place: it may be met before or after the variables.
  static constexpr std::size_t kDynamicBegin =
      kFirstByte + kMemoryBytes - kGap -
      (kSharedBytesOptin + kRowOfBanks - 1) / kRowOfBanks * kRowOfBanks;
  /// With what lies around it.
  static constexpr std::size_t kRangeBytes = kFirstByte + kMemoryBytes + kFirstByte;

 private:
  const SharedPiece& location(
      std::string name, std::size_t bytes, std::size_t alignment, std::size_t element_bytes);
  void fill(const SharedPiece& piece);

  char* memory_;  // kRangeBytes, of which kMemoryBytes from kFirstByte on can be used
  std::vector<SharedPiece> pieces_;
  std::uint64_t launch_ = 0;
  std::size_t dynamic_bytes_ = 0;
  std::size_t static_bytes_ = 0;
  SharedPiece dynamic_{};         // as the last declaration of it had it
  std::size_t end_ = kFirstByte;  // of the last piece
  volatile std::size_t* published_ = nullptr;
};

}  // namespace rmsnorm::cpu_device
