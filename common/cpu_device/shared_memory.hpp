#pragma once
/// \file
/// The shared memory of the block that is running. Every variable has a gap before and after it, so
/// that an access beyond its end lands where nothing is.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "common/cpu_device/hazard.hpp"
#include "common/cpu_device/way.hpp"

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
      const char* name, Place place, const bool* padding);
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
  static bool is_dynamic(const SharedPiece& piece);

  /// For all variables of a launch.
  static constexpr std::size_t kMemoryBytes = std::size_t{2} << 20;
  static constexpr std::size_t kFirstByte = std::size_t{256} << 20;  ///< before it is nothing
  /// With what lies around it.
  static constexpr std::size_t kRangeBytes = kFirstByte + kMemoryBytes + kFirstByte;

 private:
  const SharedPiece& place(
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

/// The device has one.
inline SharedMemory& shared_memory() {
  static SharedMemory memory;
  return memory;
}

/// For each byte of a T whether it is padding; clang cannot tell.
template <class T>
std::array<bool, sizeof(T)> padding_of() {
  std::array<bool, sizeof(T)> is_padding{};
#if defined(__GNUC__) && !defined(__clang__)
  if constexpr (std::is_class_v<T> && std::is_trivially_copyable_v<T>) {
    alignas(T) unsigned char bytes[sizeof(T)];
    std::memset(bytes, 0xff, sizeof(T));
    __builtin_clear_padding(reinterpret_cast<T*>(bytes));
    for (std::size_t i = 0; i < sizeof(T); ++i) is_padding[i] = bytes[i] == 0;
  }
#endif
  return is_padding;
}

/// What `__shared__ T name;` becomes.
template <class T, std::size_t alignment = alignof(T)>
T& shared(
    SharedVariable& variable, const char* name,
    Place place = {__builtin_FILE(), __builtin_LINE()}) {
  using Element = std::remove_all_extents_t<T>;
  if (variable.launch != shared_memory().launch()) {
    const auto before = way;  // only one thread comes this one
    const auto padding = padding_of<std::remove_cv_t<Element>>();
    shared_memory().reserve(
        variable, sizeof(T), alignment, sizeof(Element), name, place, padding.data());
    way = before;
  }
  return *static_cast<T*>(variable.data);
}

/// What `extern __shared__ T name[];` becomes.
template <class T>
T* dynamic_shared(const char* name) {
  return static_cast<T*>(shared_memory().dynamic(sizeof(T), name));
}

}  // namespace rmsnorm::cpu_device
