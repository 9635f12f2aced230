/// \file
/// What the built-in functions of a kernel lead to.

#include "common/cpu_device/language/kernel_language.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "common/cpu_device/device.hpp"
#include "common/cpu_device/language/ptx.hpp"
#include "common/cpu_device/language/shared.hpp"
#include "common/cpu_device/runtime/crash.hpp"
#include "common/cpu_device/scheduler/block.hpp"
#include "common/cpu_device/scheduler/grid.hpp"

namespace rmsnorm::cpu_device {

int barrier(SourceLocation location, bool predicate) {
  if (is_omitted_barrier(location)) return predicate ? 1 : 0;
  return running->barrier(location, predicate);
}

void grid_dependency_synchronize() {
  running->observer().grid_dependency_synced();
}

void trigger(SourceLocation location) {
  running->observer().launch_completion_triggered(location);
}

void sync_warp(std::uint32_t mask, SourceLocation location) {
  running->collective(Collective::sync, mask, 0, 0, location);
}

std::uint32_t shuffle(
    std::uint32_t mask, std::uint32_t value, int source, SourceLocation location) {
  return running->collective(Collective::shuffle, mask, value, source, location);
}

std::uint32_t ballot(std::uint32_t mask, bool value, SourceLocation location) {
  return running->collective(Collective::ballot, mask, value ? 1 : 0, 0, location);
}

std::uint32_t exchange(
    std::uint32_t mask, std::uint32_t value, std::array<std::uint32_t, 32>& all,
    SourceLocation location) {
  return running->collective(Collective::exchange, mask, value, 0, location, &all);
}

std::uint32_t activemask(SourceLocation location) {
  return running->activemask(location);
}

void yield() {
  running->yield();
}

char* shared_begin() {
  return device().shared.begin();
}

const void* with_policy(const void* address, CachePolicy policy) {
  if (!in_watched_kernel) return address;
  const NotWatching guard;
  return device().watch.views().view(address, policy);
}

std::uint64_t launch_number() {
  return device().shared.launch();
}

void reserve_shared(
    SharedVariable& variable, std::size_t bytes, std::size_t alignment, std::size_t element_bytes,
    const char* name, SourceLocation location, const bool* padding) {
  running->shared().reserve(variable, bytes, alignment, element_bytes, name, location, padding);
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

void check_launch_bounds(SourceLocation location, int threads, int, int) {
  if (running->threads() <= threads) return;
  device().runtime.errors.set_fault(cudaErrorLaunchOutOfResources);
  running->report(mistakes::kLaunchBounds, location, {running->threads(), threads});
  running->stop();
}

void check_cluster(SourceLocation location, int blocks) {
  const int now = cluster_blocks();
  if (now == blocks) return;
  const NotWatching guard;
  if (now == 1 && gridDim.x % static_cast<unsigned>(blocks) == 0)
    running->grid().want_cluster(blocks);
  device().runtime.errors.set_fault(cudaErrorInvalidClusterSize);
  running->report(
      mistakes::kClusterDims, location,
      {blocks,
       now == 1 ? fmt::format("{} blocks", gridDim.x) : fmt::format("clusters of {}", now)});
  running->stop();
}

void report_distance(int distance, SourceLocation location) {
  running->report(mistakes::kDistance, location, {running->lane(), distance});
}

bool check_storage(const void* storage, SourceLocation location) {
  const NotWatching guard;
  const SharedMemory& shared = running->shared();
  if (!shared.contains(storage)) {
    running->report(mistakes::kStorageOutside, location, {running->current()});
    return false;
  }
  const std::size_t offset = shared.offset_of(storage);
  const SharedPiece& piece = shared.nearest(offset);
  if (offset >= piece.begin && offset - piece.begin < piece.bytes) return true;
  running->report(mistakes::kStorageBeyond, location, {running->current(), piece.name});
  return false;
}

void use_warp_storage(const void* storage, SourceLocation location) {
  if (check_storage(storage, location)) running->use_warp_storage(storage, location);
}

void grid_barrier(SourceLocation location) {
  running->grid().barrier(location);
}

int cluster_blocks() {
  const Cluster* const cluster = running->grid().cluster();
  return cluster == nullptr ? 1 : cluster->blocks();
}

int cluster_rank() {
  return cluster_blocks() == 1 ? 0 : running->grid().rank();
}

void cluster_arrive(bool is_ordered, SourceLocation location) {
  if (is_omitted_barrier(location)) return;
  if (cluster_blocks() > 1) running->grid().cluster()->arrive(cluster_rank(), is_ordered, location);
}

void cluster_wait(SourceLocation location) {
  if (is_omitted_barrier(location)) return;
  if (cluster_blocks() == 1) return static_cast<void>(running->barrier(location));
  running->grid().cluster()->wait(cluster_rank(), location);
}

void* map_shared(void* address, int rank) {
  if (cluster_blocks() == 1) return address;
  return running->grid().cluster()->map(cluster_rank(), rank, address);
}

int rank_of_shared(const void* address) {
  if (cluster_blocks() == 1) return 0;
  return running->grid().cluster()->find(cluster_rank(), address).rank;
}

void fence(Scope scope, bool is_sc) {
  device().grid.observer().fence(scope, is_sc);  // maybe the host's
}

void atomically_changed() {
  ++changes;
}

void on_atomic(const void* caller, const void* address, int bytes, Strength strength) {
  running->on_atomic({caller, address, bytes, AccessKind::atomic, true, strength});
}

void on_atomic_change(const void* caller, const void* address, int bytes, Strength strength) {
  if (in_watched_kernel) {
    device().watch.atomic_changes({caller, address, bytes, AccessKind::atomic, true, strength});
  }
}

void on_strong_load(const void* caller, const void* address, int bytes, Strength strength) {
  if (running != nullptr) running->spin(caller, address);
  if (in_watched_kernel)
    device().watch.access({caller, address, bytes, AccessKind::load, true, strength});
}

void on_strong_store(const void* caller, const void* address, int bytes, Strength strength) {
  if (running != nullptr) running->on_strong_store(caller);
  if (in_watched_kernel)
    device().watch.access({caller, address, bytes, AccessKind::store, true, strength});
}

}  // namespace rmsnorm::cpu_device

// Of <cassert>, instead of the C library's.
extern "C" void __assert_fail(
    const char* assertion, const char* file, unsigned line, const char*) noexcept {
  using namespace rmsnorm::cpu_device;
  if (is_in_kernel()) {
    const NotWatching guard;
    const SourceLocation location{file, static_cast<int>(line)};
    running->report(mistakes::kAssertion, location, {running->current(), assertion});
    device().runtime.errors.set_fault(cudaErrorAssert);
    running->stop();
  }
  fmt::print(stderr, "{}:{}: the assertion '{}' does not hold\n", file, line, assertion);
  std::abort();
}
