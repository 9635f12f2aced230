#pragma once
/// \file
/// What the rewriter makes of inline PTX: a function for each instruction that the device knows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/cpu_device/language/kernel_language.hpp"
#include "common/cpu_device/scheduler/async_copy.hpp"
#include "common/cpu_device/scheduler/bulk_copy.hpp"
#include "common/cpu_device/scheduler/shared_memory.hpp"

namespace rmsnorm::cpu_device {

/// Where shared memory begins.
char* shared_begin();

/// An address in the window of global memory, from the operand of an instruction.
__forceinline__ char* global_at(const volatile void* address, int offset = 0) {
  return static_cast<char*>(const_cast<void*>(address)) + offset;
}
/// The same of a number.
__forceinline__ char* global_at(std::uintptr_t address, int offset = 0) {
  return reinterpret_cast<char*>(address) + offset;
}
/// An address of another block's shared memory has this bit, from kRankBit on the block's rank, and
/// then how far it lies behind the first variable.
inline constexpr std::uintptr_t kRemote = 1u << 30;
inline constexpr int kRankBit = 24;  ///< see kRemote
/// mapa: the address of the same thing in block `rank`.
__forceinline__ std::uintptr_t map_address(std::uintptr_t address, unsigned rank) {
  return kRemote + (std::uintptr_t{rank} << kRankBit) + address - SharedMemory::kFirstByte;
}
/// The same of shared memory, of the block's own or of another one.
__forceinline__ char* shared_at(std::uintptr_t address, int offset = 0) {
  if ((address & kRemote) == 0) return shared_begin() + address + offset;
  const std::uintptr_t behind = address & ((std::uintptr_t{1} << kRankBit) - 1);
  const auto rank = static_cast<int>((address - kRemote) >> kRankBit);
  return static_cast<char*>(
      map_shared(shared_begin() + SharedMemory::kFirstByte + behind + offset, rank));
}
/// The barrier there.
__forceinline__ SplitBarrier& barrier_at(char* address) {
  return *reinterpret_cast<SplitBarrier*>(address);
}

/// Memory of so many bytes as one access.
template <std::size_t bytes>
using Whole = std::conditional_t<
    bytes == 16, uint4,
    std::conditional_t<
        bytes == 8, uint2,
        std::conditional_t<
            bytes == 4, unsigned, std::conditional_t<bytes == 2, unsigned short, unsigned char>>>>;

/// ld: parts of so many bytes, each for a register.
template <std::size_t bytes, class... Registers>
__forceinline__ void load(const char* from, Registers&... to) {
  const Whole<bytes * sizeof...(to)> all =
      *reinterpret_cast<const Whole<bytes * sizeof...(to)>*>(from);
  std::size_t i = 0;
  ((to = {}, std::memcpy(&to, reinterpret_cast<const char*>(&all) + bytes * i++, bytes)), ...);
}
/// st: likewise.
template <std::size_t bytes, class... Registers>
__forceinline__ void store(char* to, const Registers&... from) {
  Whole<bytes * sizeof...(from)> all;
  std::size_t i = 0;
  (std::memcpy(reinterpret_cast<char*>(&all) + bytes * i++, &from, bytes), ...);
  *reinterpret_cast<Whole<bytes * sizeof...(from)>*>(to) = all;
}
/// The value of a register as a T: its bits, where one is a float and the other is not.
template <class T, class Register>
__forceinline__ T as(const Register& value) {
  if constexpr (std::is_floating_point_v<T> != std::is_floating_point_v<Register>) {
    T bits{};
    std::memcpy(&bits, &value, std::min(sizeof bits, sizeof value));
    return bits;
  } else {
    return static_cast<T>(value);
  }
}
/// Of part i of a vector of so many, each of which is an access of its own.
__forceinline__ Strength of_part(Strength strength, std::size_t i, std::size_t parts) {
  strength.parts = static_cast<std::uint8_t>(i == 0 ? parts : 0);
  return strength;
}
/// ld.acquire, ld.relaxed, ld.volatile of Ts.
template <class T, class... Registers>
__forceinline__ void load_flag(const char* from, Strength strength, Registers&... to) {
  const auto* const first = reinterpret_cast<const T*>(from);
  std::size_t i = 0;
  ((to = as<Registers>(load_strong(first + i, of_part(strength, i, sizeof...(to)))), ++i), ...);
}
/// st.release, st.relaxed, st.volatile.
template <class T, class... Registers>
__forceinline__ void store_flag(char* to, Strength strength, const Registers&... from) {
  T* const first = reinterpret_cast<T*>(to);
  std::size_t i = 0;
  ((store_strong(first + i, as<T>(from), of_part(strength, i, sizeof...(from))), ++i), ...);
}
/// red on a T: gives the value before.
template <class T, bool may_fail, class Change, class... Values>
__forceinline__ T change_flag(char* at, Strength strength, Change change, const Values&... values) {
  return atomically(
      reinterpret_cast<T*>(at),
      [&](T old) { return static_cast<T>(change(old, as<T>(values)...)); }, strength, may_fail);
}
/// atom: the value before goes to a register.
template <class T, bool may_fail, class Register, class Change, class... Values>
__forceinline__ void take_flag(
    Register& before, char* at, Strength strength, Change change, const Values&... values) {
  before = as<Register>(change_flag<T, may_fail>(at, strength, change, values...));
}
/// add
inline constexpr auto change_add = [](auto old, auto value) { return old + value; };
/// exch
inline constexpr auto change_exch = [](auto, auto value) { return value; };
/// min
inline constexpr auto change_min = [](auto old, auto value) { return std::min(old, value); };
/// max
inline constexpr auto change_max = [](auto old, auto value) { return std::max(old, value); };
/// and
inline constexpr auto change_and = [](auto old, auto value) { return old & value; };
/// or
inline constexpr auto change_or = [](auto old, auto value) { return old | value; };
/// xor
inline constexpr auto change_xor = [](auto old, auto value) { return old ^ value; };
/// inc: up to a number, and then 0
inline constexpr auto change_inc = [](auto old, auto most) { return old >= most ? 0 : old + 1; };
/// dec: down to 0, and then a number
inline constexpr auto change_dec = [](auto old, auto most) {
  return old == 0 || old > most ? most : old - 1;
};
/// cas: the second number if it is the first
inline constexpr auto change_cas = [](auto old, auto expected, auto value) {
  return old == expected ? value : old;
};
/// cp.async, of which the last bytes may be zeros.
__forceinline__ void copy(char* to, const char* from, int bytes, int valid) {
  begin_copy(to, from, bytes, valid);
}
/// The same of all bytes.
__forceinline__ void copy(char* to, const char* from, int bytes) {
  begin_copy(to, from, bytes, bytes);
}
/// mbarrier.init
__forceinline__ void mbarrier_init(char* barrier, unsigned threads) {
  start_barrier(barrier_at(barrier), threads);
}
/// mbarrier.arrive.expect_tx
__forceinline__ void mbarrier_arrive_expecting(
    SourceLocation location, char* barrier, unsigned bytes) {
  arrive_expecting(barrier_at(barrier), bytes, location);
}
/// mbarrier.try_wait.parity
__forceinline__ bool mbarrier_try_wait(
    Scope scope, SourceLocation location, char* barrier, unsigned parity) {
  return try_wait(barrier_at(barrier), parity, scope, location);
}
/// cp.async.bulk
__forceinline__ void bulk_copy(
    SourceLocation location, char* to, const char* from, unsigned bytes, char* barrier) {
  begin_bulk_copy(to, from, bytes, barrier_at(barrier), location);
}
/// st.async
template <std::size_t bytes, class T>
__forceinline__ void store_async(char* to, const T& value, char* barrier) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, std::min(bytes, sizeof value));
  send(to, bits, bytes, barrier_at(barrier));
}
/// bar.sync
inline void bar_sync(SourceLocation location, unsigned number, unsigned threads = 0) {
  named_barrier(number, threads, location);
}
/// bar.arrive
inline void bar_arrive(SourceLocation location, unsigned number, unsigned threads) {
  arrive_at_named_barrier(number, threads, location);
}

}  // namespace rmsnorm::cpu_device

/// An address of shared memory as PTX takes it, in 32 bits.
inline std::size_t __cvta_generic_to_shared(const void* address) {
  return static_cast<std::size_t>(
      static_cast<const char*>(address) - rmsnorm::cpu_device::shared_begin());
}
/// The way back.
inline void* __cvta_shared_to_generic(std::size_t address) {
  return rmsnorm::cpu_device::shared_at(address);
}
/// An address of global memory as PTX takes it.
inline std::size_t __cvta_generic_to_global(const void* address) {
  return reinterpret_cast<std::size_t>(address);
}
