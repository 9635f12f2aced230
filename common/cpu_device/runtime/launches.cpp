#include "common/cpu_device/runtime/launches.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/cpu_device/device.hpp"
#include "common/cpu_device/runtime/crash.hpp"
#include "common/cpu_device/runtime/source_lines.hpp"

namespace rmsnorm::cpu_device {

std::size_t Launches::dynamic_limit(const void* kernel, std::size_t static_bytes) const {
  const auto found = dynamic_limits_.find(kernel);
  return found == dynamic_limits_.end() ? kSharedBytes - std::min(kSharedBytes, static_bytes)
                                        : std::min(found->second, kSharedBytesOptin - static_bytes);
}

/// Registers of a thread, which gets eight at a time; 0: nobody has said how many it needs.
int Launches::registers_of(const Call& call) const {
  constexpr int kTogether = 8;
  if (registers_.empty()) return 0;
  const auto known = registers_.find(name_of_function(call.kernel()));
  if (known == registers_.end()) return 0;
  return (known->second + kTogether - 1) / kTogether * kTogether;
}

/// Why the device cannot carry out a launch, if it cannot.
cudaError_t Launches::check(const Launch& launch, Call& call) {
  const auto& [grid, block, shared_bytes, stream, may_overlap, cluster, is_cooperative] = launch;
  const auto refuse_launch = [&](cudaError_t error, const std::string& why) {
    return errors_.refuse(
        error, fmt::format("the launch of {}: {}", name_of_function(call.kernel()), why));
  };
  const auto text_of = [](dim3 size) {
    if (size.y == 1 && size.z == 1) return fmt::format("{}", size.x);
    return fmt::format("{} x {} x {}", size.x, size.y, size.z);
  };
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
    return refuse_launch(
        cudaErrorInvalidConfiguration,
        fmt::format("a grid of {} blocks, and a grid has one at least", text_of(grid)));
  }
  if (grid.x > kMaxGridX || grid.y > kMaxGridY || grid.z > kMaxGridY) {
    return refuse_launch(
        cudaErrorInvalidConfiguration, fmt::format(
                                           "a grid of {} blocks, and it has {} x {} x {} at most",
                                           text_of(grid), kMaxGridX, kMaxGridY, kMaxGridY));
  }
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads < 1 || threads > kMaxThreads || block.z > kMaxBlockZ) {
    return refuse_launch(
        cudaErrorInvalidConfiguration,
        fmt::format(
            "a block of {} threads, and it has 1 to {}, of which z counts {} at most",
            text_of(block), kMaxThreads, kMaxBlockZ));
  }
  const bool may_be_large = large_clusters_.contains(call.kernel());
  const int most = std::min(most_of_cluster_, may_be_large ? kMaxCluster : kMaxPortableCluster);
  if (cluster < 1 || cluster > most) {
    return refuse_launch(
        cluster_error_, fmt::format(
                            "a cluster of {} blocks, and it has 1 to {}{}", cluster, most,
                            most == kMaxCluster ? "" : ", or more by cudaFuncSetAttribute()"));
  }
  if (grid.x % static_cast<unsigned>(cluster) != 0) {
    return refuse_launch(
        cudaErrorInvalidClusterSize,
        fmt::format("{} blocks are no multiple of a cluster of {}", grid.x, cluster));
  }
  if (const int registers = registers_of(call);
      threads * static_cast<std::uint64_t>(registers) > kRegisters) {
    return refuse_launch(
        cudaErrorLaunchOutOfResources,
        fmt::format(
            "{0} threads of {1} registers, and a block has {2}: __launch_bounds__({0}) lets nvcc "
            "take fewer",
            threads, registers, kRegisters));
  }
  const std::size_t room =
      shared_bytes == 0 ? 0 : dynamic_limit(call.kernel(), static_bytes_of(call));
  if (shared_bytes > room) {
    return refuse_launch(
        cudaErrorInvalidValue,
        fmt::format(
            "it asks for {} bytes of dynamic shared memory, and {} are left: more than {} KiB in "
            "all need cudaFuncSetAttribute()",
            shared_bytes, room, kSharedBytes >> 10));
  }
  return streams_.queue_of(stream) == nullptr ? streams_.refuse_stream("a launch") : cudaSuccess;
}

/// Runs a grid: again if only its kernel knew that it has clusters. False if that ended early.
bool Launches::run_grid(Call& call, const Launch& launch) {
  const dim3 grid = launch.grid;
  int cluster = launch.cluster;
  if (const auto known = clusters_.find(call.kernel());
      known != clusters_.end() && cluster == 1 &&
      grid.x % static_cast<unsigned>(known->second) == 0) {
    cluster = known->second;
  }
  const auto run = [&](int blocks) {
    return grid_.run(
        grid, launch.block, [&] { call.run(); }, blocks, launch.is_cooperative);
  };
  if (run(cluster)) return true;
  const int wanted = grid_.take_wanted_cluster();
  if (wanted == 0) return false;
  clusters_[call.kernel()] = wanted;
  return run(wanted);
}

void Launches::run(const Launch& launch, Call& call) {
  if (errors_.has_fault()) return;  // a GPU would not do anything any more
  grid_.shared().begin_launch(launch.shared_bytes);
  grid_.observer().launch_begins(call.kernel(), &call, call.bytes(), launch.may_overlap);
  const CrashGuard guard(grid_.observer(), Code::kernel);
  const bool is_done = run_grid(call, launch);
  grid_.observer().launch_ended();
  if (is_done) {
    std::size_t& known = static_bytes_[call.kernel()];
    known = std::max(known, grid_.shared().static_bytes());  // not every launch declares all
  } else if (!errors_.has_fault()) {
    errors_.set_fault(cudaErrorLaunchFailure);
  }
}

/// Runs a kernel (with arguments that may all be zero) in a process that may crash or hang; gives
/// the shared memory that the kernel declared until then.
std::size_t Launches::probe_static_bytes(Call& call) {
  void* const page =
      mmap(nullptr, sizeof(std::size_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 0;
  auto* const bytes = static_cast<volatile std::size_t*>(page);
  *bytes = 0;
  const pid_t child = fork();
  if (child == 0) {
    constexpr unsigned kSeconds = 2;
    alarm(kSeconds);
    Observer nobody;
    grid_.observe(nobody);
    grid_.shared().begin_launch(0);
    grid_.shared().publish_static_bytes(bytes);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) close(stream);
    for (const int blocks : {1, kMaxCluster}) {  // of clusters, it may have no single block
      Launch launch(dim3(static_cast<unsigned>(blocks)), dim3(kWarpThreads));
      launch.is_cooperative = true;
      if (run_grid(call, launch)) break;
    }
    _exit(0);
  }
  if (child > 0) waitpid(child, nullptr, 0);
  const std::size_t found = *bytes;
  munmap(page, sizeof(std::size_t));
  return found;
}

std::size_t Launches::static_bytes_of(Call& call) {
  const auto [known, is_new] = static_bytes_.try_emplace(call.kernel(), 0);
  if (is_new) known->second = probe_static_bytes(call);
  return known->second;
}

void Launches::add(const Launch& launch, std::shared_ptr<Call> call) {
  of_last_ = check(launch, *call);
  if (of_last_ != cudaSuccess) return;
  of_last_ = streams_.add("a launch", launch.stream, [this, launch, call] { run(launch, *call); });
}

int Launches::blocks_that_fit(Call& call, int threads, std::size_t dynamic_bytes) {
  if (threads < 1 || threads > kMaxThreads) return 0;
  const std::size_t bytes = static_bytes_of(call) + dynamic_bytes + kSharedBytesReserved;
  if (bytes > kSharedBytesOptin + kSharedBytesReserved) return 0;
  return std::min(blocks_of_sm(threads), static_cast<int>(kSharedBytesOfSm / bytes));
}

bool Launches::fits_together(const Launch& launch, Call& call) {
  const auto& [grid, block, shared_bytes, stream, may_overlap, cluster, is_cooperative] = launch;
  const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
  const auto threads = static_cast<int>(block.x * block.y * block.z);
  const int most = grid_.multiprocessors() * blocks_that_fit(call, threads, shared_bytes);
  if (blocks <= static_cast<std::size_t>(most)) return true;
  errors_.refuse(
      cudaErrorCooperativeLaunchTooLarge,
      fmt::format(
          "a cooperative launch: {} blocks of this size fit on the device together, not {}", most,
          blocks));
  return false;
}

cudaError_t Launches::allow_dynamic(const void* kernel, int bytes) {
  const auto known = static_bytes_.find(kernel);
  const std::size_t declared = known == static_bytes_.end() ? 0 : known->second;
  if (bytes < 0 || static_cast<std::size_t>(bytes) + declared > kSharedBytesOptin) {
    return errors_.refuse(
        cudaErrorInvalidValue,
        fmt::format(
            "cudaFuncSetAttribute(): {} bytes of dynamic shared memory beside {} of __shared__ "
            "variables, and a block has {}",
            bytes, declared, kSharedBytesOptin));
  }
  dynamic_limits_[kernel] =
      std::max(static_cast<std::size_t>(bytes), kSharedBytes - std::min(kSharedBytes, declared));
  return cudaSuccess;
}

void Launches::forget_allowed() {
  dynamic_limits_.clear();
  large_clusters_.clear();
}

void Launches::limit_clusters(int blocks, cudaError_t error) {
  most_of_cluster_ = blocks > 0 ? blocks : kMaxCluster;
  cluster_error_ = error;
}

void Launches::set_registers(const std::string& symbol, int count) {
  int& known = registers_[name_of_symbol(symbol)];
  known = std::max(known, count);
}

// What launches and calls in a program lead to.

void enqueue(const Launch& launch, std::shared_ptr<Call> call) {
  device().runtime.launches.add(launch, std::move(call));
}

cudaError_t error_of_last_launch() {
  return device().runtime.launches.error_of_last();
}

cudaError_t attributes_of(cudaFuncAttributes* attributes, std::shared_ptr<Call> empty) {
  Launches& launches = device().runtime.launches;
  const std::size_t static_bytes = launches.static_bytes_of(*empty);
  const std::size_t most = launches.dynamic_limit(empty->kernel(), static_bytes);
  *attributes = {
      .sharedSizeBytes = static_bytes,
      .maxThreadsPerBlock = kMaxThreads,
      .maxDynamicSharedSizeBytes = static_cast<int>(most)};
  return cudaSuccess;
}

int blocks_that_fit(std::shared_ptr<Call> empty, int threads, std::size_t dynamic_bytes) {
  return device().runtime.launches.blocks_that_fit(*empty, threads, dynamic_bytes);
}

bool fits_together(const Launch& launch, std::shared_ptr<Call> empty) {
  return device().runtime.launches.fits_together(launch, *empty);
}

}  // namespace rmsnorm::cpu_device

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  rmsnorm::cpu_device::Runtime& runtime = rmsnorm::cpu_device::device().runtime;
  if (runtime.errors.has_to_fail("cudaFuncSetAttribute()")) {
    return runtime.errors.note(cudaErrorInvalidValue);
  }
  if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed && value != 0) {
    runtime.launches.allow_large_clusters(kernel);
  }
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  return runtime.launches.allow_dynamic(kernel, value);
}
