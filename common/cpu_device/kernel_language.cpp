/// \file
/// What the built-in functions of a kernel lead to.

#include "common/cpu_device/kernel_language.hpp"

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/grid.hpp"
#include "common/cpu_device/memory.hpp"
#include "common/cpu_device/ptx.hpp"
#include "common/cpu_device/shared_memory.hpp"
#include "common/cpu_device/watcher.hpp"

namespace rmsnorm::cpu_device {

int barrier(Place place, bool predicate) {
  if (is_left_out(place)) return predicate ? 1 : 0;
  return running->barrier(place, predicate);
}

void wait_for_kernel_before() {
  watcher().kernel_before_ended();
}

void trigger(Place place) {
  watcher().triggered(place);
}

void sync_lanes(std::uint32_t mask, Place place) {
  running->meet(Meeting::sync, mask, 0, 0, place);
}

std::uint32_t shuffle(std::uint32_t mask, std::uint32_t value, int source, Place place) {
  return running->meet(Meeting::shuffle, mask, value, source, place);
}

std::uint32_t ballot(std::uint32_t mask, bool value, Place place) {
  return running->meet(Meeting::ballot, mask, value ? 1 : 0, 0, place);
}

std::uint32_t exchange(
    std::uint32_t mask, std::uint32_t value, std::array<std::uint32_t, 32>& all, Place place) {
  return running->meet(Meeting::exchange, mask, value, 0, place, &all);
}

std::uint32_t active_lanes(Place place) {
  return running->gather(place);
}

void pause() {
  running->pause();
}

char* shared_begin() {
  return shared_memory().begin();
}

int lane() {
  return running->lane();
}

int warp() {
  return running->warp();
}

void check_launch_bounds(Place place, int threads, int, int) {
  if (running->threads() <= threads) return;
  set_fault(cudaErrorLaunchOutOfResources);
  running->report_launch_bounds(threads, place);
}

void check_cluster(Place place, int blocks) {
  const int now = cluster_blocks();
  if (now == blocks) return;
  if (now == 1 && gridDim.x % static_cast<unsigned>(blocks) == 0)
    grid_runner().want_cluster(blocks);
  set_fault(cudaErrorInvalidClusterSize);
  running->report_cluster(blocks, now, place);
}

void report_distance(int distance, Place place) {
  running->report_distance(distance, place);
}

bool check_storage(const void* storage, Place place) {
  if (shared_memory().contains(storage)) {
    const std::size_t offset = shared_memory().offset_of(storage);
    const SharedPiece& piece = shared_memory().nearest(offset);
    if (offset >= piece.begin && offset - piece.begin < piece.bytes) return true;
  }
  running->report_storage_outside(storage, place);
  return false;
}

void use_warp_storage(const void* storage, Place place) {
  if (check_storage(storage, place)) running->use_warp_storage(storage, place);
}

void grid_barrier(Place place) {
  grid_runner().barrier(place);
}

int cluster_blocks() {
  const Cluster* const cluster = grid_runner().cluster();
  return cluster == nullptr ? 1 : cluster->blocks();
}

int cluster_rank() {
  return cluster_blocks() == 1 ? 0 : grid_runner().rank();
}

void cluster_arrive(bool is_ordered, Place place) {
  if (is_left_out(place)) return;
  if (cluster_blocks() > 1) grid_runner().cluster()->arrive(cluster_rank(), is_ordered, place);
}

void cluster_wait(Place place) {
  if (is_left_out(place)) return;
  if (cluster_blocks() == 1) return static_cast<void>(running->barrier(place));
  grid_runner().cluster()->wait(cluster_rank(), place);
}

void* map_shared(void* address, int rank) {
  if (cluster_blocks() == 1) return address;
  return grid_runner().cluster()->map(cluster_rank(), rank, address);
}

int rank_of_shared(const void* address) {
  if (cluster_blocks() == 1) return 0;
  return grid_runner().cluster()->find(cluster_rank(), address).rank;
}

void fence(Scope scope) {
  watcher().fence(scope);
}

void look(const void* flag) {
  running->look(flag);
}

void touch_atomically(const void* caller, const void* address, int bytes, Scope scope) {
  running->look(address);
  if (grid_runner().is_order_changed()) running->give_way();
  watcher().access({caller, address, bytes, Touch::atomic, false, scope});
}

}  // namespace rmsnorm::cpu_device
