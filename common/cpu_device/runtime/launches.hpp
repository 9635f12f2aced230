#pragma once
/// \file
/// Launches: whether the device can carry them out, and what is known of their kernels.

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "common/cpu_device/runtime/errors.hpp"
#include "common/cpu_device/runtime/start_kernel.hpp"
#include "common/cpu_device/runtime/streams.hpp"
#include "common/cpu_device/scheduler/grid.hpp"

namespace rmsnorm::cpu_device {

inline constexpr int kRegisters = 65536;                                 ///< of a multiprocessor
inline constexpr std::size_t kSharedBytesOfSm = std::size_t{228} << 10;  ///< likewise
inline constexpr std::size_t kSharedBytesReserved = 1024;  ///< of each block, of those
inline constexpr unsigned kMaxGridX = 0x7fffffff;          ///< blocks
inline constexpr unsigned kMaxGridY = 65535;               ///< also in z
inline constexpr unsigned kMaxBlockZ = 64;                 ///< threads

/// The launches of a device.
class Launches {
 public:
  /// Run by these grids, on these streams. Notes what goes wrong.
  Launches(GridRunner& grid, Errors& errors, Streams& streams)
      : grid_(grid), errors_(errors), streams_(streams) {}

  /// Puts a call on its stream if the device can carry it out.
  void add(const Launch& launch, std::shared_ptr<Call> call);
  cudaError_t error_of_last() const { return of_last_; }  ///< cudaSuccess if it could

  /// The dynamic shared memory that a kernel can have beside so much of its own.
  std::size_t dynamic_limit(const void* kernel, std::size_t static_bytes) const;
  /// The shared memory that the kernel declares. If it has never run, it is run, in one block and
  /// in a process of its own.
  std::size_t static_bytes_of(Call& call);
  /// Blocks of so many threads, and with so much dynamic shared memory, that fit on a
  /// multiprocessor; registers are not known.
  int blocks_that_fit(Call& call, int threads, std::size_t dynamic_bytes);
  /// Whether the blocks of a cooperative launch fit on the device together; if not, that is noted.
  bool fits_together(const Launch& launch, Call& call);

  /// Lets a kernel have so much dynamic shared memory.
  cudaError_t allow_dynamic(const void* kernel, int bytes);
  /// Lets it have clusters of any size.
  void allow_large_clusters(const void* kernel) { large_clusters_.insert(kernel); }
  void forget_allowed();  ///< what kernels may have

  /// Lets no cluster have more blocks, and launches that ask for more return an error; 0: as many
  /// as ever.
  void limit_clusters(int blocks, cudaError_t error);
  /// Says how many registers nvcc gives a thread of a kernel, by the kernel's symbol.
  void set_registers(const std::string& symbol, int count);

 private:
  cudaError_t check(const Launch& launch, Call& call);
  int registers_of(const Call& call) const;
  bool run_grid(Call& call, const Launch& launch);
  void run(const Launch& launch, Call& call);
  std::size_t probe_static_bytes(Call& call);

  GridRunner& grid_;
  Errors& errors_;
  Streams& streams_;
  std::map<const void*, std::size_t> dynamic_limits_;        // of kernels that asked for more
  std::map<const void*, std::size_t> static_bytes_;          // of kernels that have run
  std::set<const void*> large_clusters_;                     // kernels that may have them
  int most_of_cluster_ = kMaxCluster;                        // blocks, whatever a kernel may have
  cudaError_t cluster_error_ = cudaErrorInvalidClusterSize;  // of a launch with larger ones
  std::map<const void*, int> clusters_;                      // of kernels that name them themselves
  std::map<std::string, int> registers_;                     // of a thread, by the kernel's name
  cudaError_t of_last_ = cudaSuccess;
};

}  // namespace rmsnorm::cpu_device
