/// \file
/// What the built-in functions of a kernel lead to.

#include "common/cpu_device/language/kernel_language.hpp"

#include <fmt/format.h>

#include "common/cpu_device/device.hpp"
#include "common/cpu_device/language/ptx.hpp"
#include "common/cpu_device/language/shared.hpp"
#include "common/cpu_device/scheduler/block.hpp"
#include "common/cpu_device/scheduler/grid.hpp"

namespace rmsnorm::cpu_device {

int barrier(Place place, bool predicate) {
  if (is_left_out(place)) return predicate ? 1 : 0;
  return running->barrier(place, predicate);
}

void wait_for_kernel_before() {
  running->observer().kernel_before_ended();
}

void trigger(Place place) {
  running->observer().triggered(place);
}

void sync_lanes(std::uint32_t mask, Place place) {
  running->meet(Collective::sync, mask, 0, 0, place);
}

std::uint32_t shuffle(std::uint32_t mask, std::uint32_t value, int source, Place place) {
  return running->meet(Collective::shuffle, mask, value, source, place);
}

std::uint32_t ballot(std::uint32_t mask, bool value, Place place) {
  return running->meet(Collective::ballot, mask, value ? 1 : 0, 0, place);
}

std::uint32_t exchange(
    std::uint32_t mask, std::uint32_t value, std::array<std::uint32_t, 32>& all, Place place) {
  return running->meet(Collective::exchange, mask, value, 0, place, &all);
}

std::uint32_t active_lanes(Place place) {
  return running->gather(place);
}

void pause() {
  running->pause();
}

char* shared_begin() {
  return device().shared.begin();
}

const void* with_policy(const void* address, CachePolicy policy) {
  if (!in_watched_kernel) return address;
  const NotWatching pause;
  return device().watch.views().view(address, policy);
}

std::uint64_t launch_number() {
  return device().shared.launch();
}

void reserve_shared(
    SharedVariable& variable, std::size_t bytes, std::size_t alignment, std::size_t element_bytes,
    const char* name, Place place, const bool* padding) {
  running->shared().reserve(variable, bytes, alignment, element_bytes, name, place, padding);
}

void* dynamic_memory(std::size_t element_bytes, const char* name) {
  return device().shared.dynamic(element_bytes, name);  // maybe before there is a block
}

int lane() {
  return running->lane();
}

int warp() {
  return running->warp();
}

void check_launch_bounds(Place place, int threads, int, int) {
  if (running->threads() <= threads) return;
  device().runtime.errors.set_fault(cudaErrorLaunchOutOfResources);
  running->report(Mistake::launch_bounds, place, {running->threads(), threads});
  running->stop();
}

void check_cluster(Place place, int blocks) {
  const int now = cluster_blocks();
  if (now == blocks) return;
  const NotWatching pause;
  if (now == 1 && gridDim.x % static_cast<unsigned>(blocks) == 0)
    running->grid().want_cluster(blocks);
  device().runtime.errors.set_fault(cudaErrorInvalidClusterSize);
  running->report(
      Mistake::cluster_dims, place,
      {blocks,
       now == 1 ? fmt::format("{} blocks", gridDim.x) : fmt::format("clusters of {}", now)});
  running->stop();
}

void report_distance(int distance, Place place) {
  running->report(Mistake::distance, place, {running->lane(), distance});
}

bool check_storage(const void* storage, Place place) {
  const NotWatching pause;
  const SharedMemory& shared = running->shared();
  if (!shared.contains(storage)) {
    running->report(Mistake::storage_outside, place, {running->current()});
    return false;
  }
  const std::size_t offset = shared.offset_of(storage);
  const SharedPiece& piece = shared.nearest(offset);
  if (offset >= piece.begin && offset - piece.begin < piece.bytes) return true;
  running->report(Mistake::storage_beyond, place, {running->current(), piece.name});
  return false;
}

void use_warp_storage(const void* storage, Place place) {
  if (check_storage(storage, place)) running->use_warp_storage(storage, place);
}

void grid_barrier(Place place) {
  running->grid().barrier(place);
}

int cluster_blocks() {
  const Cluster* const cluster = running->grid().cluster();
  return cluster == nullptr ? 1 : cluster->blocks();
}

int cluster_rank() {
  return cluster_blocks() == 1 ? 0 : running->grid().rank();
}

void cluster_arrive(bool is_ordered, Place place) {
  if (is_left_out(place)) return;
  if (cluster_blocks() > 1) running->grid().cluster()->arrive(cluster_rank(), is_ordered, place);
}

void cluster_wait(Place place) {
  if (is_left_out(place)) return;
  if (cluster_blocks() == 1) return static_cast<void>(running->barrier(place));
  running->grid().cluster()->wait(cluster_rank(), place);
}

void* map_shared(void* address, int rank) {
  if (cluster_blocks() == 1) return address;
  return running->grid().cluster()->map(cluster_rank(), rank, address);
}

int rank_of_shared(const void* address) {
  if (cluster_blocks() == 1) return 0;
  return running->grid().cluster()->find(cluster_rank(), address).rank;
}

void fence(Scope scope) {
  device().grid.observer().fence(scope);  // maybe the host's
}

void look(const void* flag) {
  if (running != nullptr) running->look(flag);
}

void touch_atomically(const void* caller, const void* address, int bytes, Scope scope) {
  running->touch_atomically({caller, address, bytes, AccessKind::atomic, false, scope});
}

}  // namespace rmsnorm::cpu_device
