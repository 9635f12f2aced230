#pragma once
/// \file
/// The CPU device's stand-in for the CUDA Toolkit's header of this name.

#include <cooperative_groups.h>

#include "common/cpu_device/scheduler/async_copy.hpp"

namespace cooperative_groups {

/// The whole group's copy of so many bytes.
template <class Group, class T, class Bytes>
__forceinline__ void memcpy_async(const Group& group, T* to, const T* from, const Bytes& bytes) {
  rmsnorm::cpu_device::begin_copies(to, from, bytes, group.thread_rank(), group.size());
  rmsnorm::cpu_device::commit_copies();
}
/// The same in elements: the smaller number of them.
template <class Group, class T, class Room, class Elements>
__forceinline__ void memcpy_async(
    const Group& group, T* to, const Room& room, const T* from, const Elements& elements) {
  const std::size_t count = std::min<std::size_t>(room, elements);
  memcpy_async(group, to, from, count * sizeof(T));
}
template <unsigned kStages, class Group>
void wait_prior(const Group& group, RMSNORM_LOCATION) {
  rmsnorm::cpu_device::wait_for_copies(int{kStages});
  group.sync(location);
}
template <class Group>
void wait(const Group& group, RMSNORM_LOCATION) {
  wait_prior<0>(group, location);
}

}  // namespace cooperative_groups
