/// \file
/// The CUDA runtime API on the CPU: memory, streams, launches and errors.

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <utility>

#include "common/cpu_device/access.hpp"
#include "common/cpu_device/crash.hpp"
#include "common/cpu_device/device_memory.hpp"
#include "common/cpu_device/grid.hpp"
#include "common/cpu_device/memory.hpp"
#include "common/cpu_device/sampler.hpp"
#include "common/cpu_device/shared_memory.hpp"
#include "common/cpu_device/source_lines.hpp"
#include "common/cpu_device/watcher.hpp"

/// A queue of work. Nobody works on it but whoever waits for it.
///
/// The default stream and all others but the non-blocking ones wait for each other: they share one
/// queue, which is an order that CUDA allows.
struct CUstream_st {
  std::deque<std::function<void()>> work;
  bool has_own_queue = false;
};

/// A point in a stream's work.
struct CUevent_st {
  bool is_destroyed = false;     ///< work may still wait for it: it is kept
  CUstream_st* queue = nullptr;  ///< whose; null: it was never recorded
  int wanted = 0;                ///< how often it was recorded
  int reached = 0;               ///< how often that point was reached
};

namespace rmsnorm::cpu_device {
namespace {

constexpr int kRegisters = 65536;
constexpr std::size_t kSharedBytesOfSm = std::size_t{228} << 10;
constexpr std::size_t kSharedBytesReserved = 1024;  // of each block
constexpr unsigned kMaxGridY = 65535;
constexpr unsigned kMaxGridX = 0x7fffffff;
constexpr std::size_t kMostBesideSample = 1 << 28;  // bytes
constexpr unsigned kMaxBlockZ = 64;

/// A call that was refused.
struct FailedCall {
  std::string why = {};  ///< "cudaFree(): ..."; "": there was none
  std::vector<const void*> callers = {};
};

/// Everything that CUDA remembers between two calls.
struct Device {
  std::map<const char*, Allocation> allocations;
  CUstream_st default_stream;
  std::vector<std::unique_ptr<CUstream_st>> streams;
  std::vector<std::unique_ptr<CUevent_st>> events;
  std::map<const void*, std::size_t> dynamic_limits;        // of kernels that asked for more
  std::map<const void*, std::size_t> static_bytes;          // of kernels that have run
  std::set<const void*> large_clusters;                     // kernels that may have them
  int most_of_cluster = kMaxCluster;                        // blocks, whatever a kernel may have
  cudaError_t cluster_error = cudaErrorInvalidClusterSize;  // of a launch with larger ones
  std::map<const void*, int> clusters;                      // of kernels that name them themselves
  std::map<std::string, int> registers;                     // of a thread, by the kernel's name
  cudaError_t last_error = cudaSuccess;
  cudaError_t of_last_launch = cudaSuccess;
  FailedCall failed;  // that left it
  cudaError_t fault = cudaSuccess;
  std::int64_t waits = 0;
  int calls_until_failure = -1;    // none is to come
  FailedCall made_to_fail;         // that one
  bool others_hurry = false;       // all streams but one work as soon as they can
  cudaStream_t patient = nullptr;  // that one
};

Device& device() {
  static Device device;
  return device;
}

/// Notes an error that is nobody's mistake here.
cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) device().last_error = error;
  return error;
}

/// Whether this call is the one that is to fail.
bool has_to_fail(const char* call) {
  int& calls = device().calls_until_failure;
  if (calls < 0 || calls-- > 0) return false;
  device().made_to_fail = {call, callers()};
  return true;
}

std::string text_of(const FailedCall& call) {
  if (call.why.empty()) return "";
  const SourceLine line = readers_line(call.callers);
  return line.file.empty() ? call.why : fmt::format("{}: {}", place_text(line), call.why);
}

/// Null for a stream that does not exist.
CUstream_st* queue_of(cudaStream_t stream) {
  Device& d = device();
  if (stream == nullptr) return &d.default_stream;
  const bool exists = std::any_of(
      d.streams.begin(), d.streams.end(), [&](const auto& own) { return own.get() == stream; });
  if (!exists) return nullptr;
  return stream->has_own_queue ? stream : &d.default_stream;
}

void work_once(CUstream_st& stream) {
  const std::function<void()> work = std::move(stream.work.front());
  stream.work.pop_front();
  work();
}

void work_off(CUstream_st& stream) {
  while (!stream.work.empty()) work_once(stream);
}

/// Until an event's point is reached that was recorded `times` times.
void work_off_until(CUevent_st& event, int times) {
  while (event.reached < times && !event.queue->work.empty()) work_once(*event.queue);
}

/// What a kernel left behind shows once, to the first who waits for it. (On a GPU it would stay.)
cudaError_t take_fault() {
  return note(std::exchange(device().fault, cudaSuccess));
}

cudaError_t wait_for(CUstream_st& queue) {
  ++device().waits;
  work_off(queue);
  return take_fault();
}

cudaError_t refuse_stream(const char* call) {
  return refuse(
      cudaErrorInvalidResourceHandle,
      fmt::format("{}: there is no such stream, or no longer", call));
}

cudaError_t add_work(const char* call, cudaStream_t stream, std::function<void()> work) {
  CUstream_st* const queue = queue_of(stream);
  if (queue == nullptr || has_to_fail(call)) return refuse_stream(call);
  queue->work.push_back(std::move(work));
  if (device().others_hurry && queue != queue_of(device().patient)) work_off(*queue);
  return cudaSuccess;
}

/// The dynamic shared memory that a kernel can have beside its variables.
std::size_t dynamic_limit(const void* kernel, std::size_t static_bytes) {
  const auto found = device().dynamic_limits.find(kernel);
  return found == device().dynamic_limits.end()
             ? kSharedBytes - std::min(kSharedBytes, static_bytes)
             : std::min(found->second, kSharedBytesOptin - static_bytes);
}

std::size_t static_bytes_of(Call& call);

/// Registers of a thread, which gets eight at a time; 0: nobody has said how many it needs.
int registers_of(const Call& call) {
  constexpr int kTogether = 8;
  if (device().registers.empty()) return 0;
  const auto known = device().registers.find(name_of_function(call.kernel()));
  if (known == device().registers.end()) return 0;
  return (known->second + kTogether - 1) / kTogether * kTogether;
}

/// Why the device cannot carry out a launch, if it cannot.
cudaError_t check(const Launch& launch, Call& call) {
  const auto& [grid, block, shared_bytes, stream, may_overlap, cluster] = launch;
  const auto refuse_launch = [&](cudaError_t error, const std::string& why) {
    return refuse(error, fmt::format("the launch of {}: {}", name_of_function(call.kernel()), why));
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
  const bool may_be_large = device().large_clusters.contains(call.kernel());
  const int most =
      std::min(device().most_of_cluster, may_be_large ? kMaxCluster : kMaxPortableCluster);
  if (cluster < 1 || cluster > most) {
    return refuse_launch(
        device().cluster_error,
        fmt::format(
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
  return queue_of(stream) == nullptr ? refuse_stream("a launch") : cudaSuccess;
}

/// Runs a grid: again if only its kernel knew that it has clusters. False if that ended early.
bool run_grid(Call& call, dim3 grid, dim3 block, int cluster) {
  if (const auto known = device().clusters.find(call.kernel());
      known != device().clusters.end() && cluster == 1 &&
      grid.x % static_cast<unsigned>(known->second) == 0) {
    cluster = known->second;
  }
  if (grid_runner().run(
          grid, block, [&] { call.run(); }, cluster))
    return true;
  const int wanted = grid_runner().take_wanted_cluster();
  if (wanted == 0) return false;
  device().clusters[call.kernel()] = wanted;
  return grid_runner().run(
      grid, block, [&] { call.run(); }, wanted);
}

void run(const Launch& launch, Call& call) {
  if (device().fault != cudaSuccess) return;  // a GPU would not do anything any more
  shared_memory().begin_launch(launch.shared_bytes);
  watcher().launch_begins(call.kernel(), &call, call.bytes(), launch.may_overlap);
  const CrashGuard guard(Code::kernel);
  if (run_grid(call, launch.grid, launch.block, launch.cluster)) {
    std::size_t& known = device().static_bytes[call.kernel()];
    known = std::max(known, shared_memory().static_bytes());  // not every launch declares all
  } else if (device().fault == cudaSuccess) {
    set_fault(cudaErrorLaunchFailure);
  }
}

/// Runs a kernel (with arguments that may all be zero) in a process that may crash or hang; gives
/// the shared memory that the kernel declared until then.
std::size_t learn_static_bytes(Call& call) {
  void* const page =
      mmap(nullptr, sizeof(std::size_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 0;
  auto* const bytes = static_cast<volatile std::size_t*>(page);
  *bytes = 0;
  const pid_t child = fork();
  if (child == 0) {
    constexpr unsigned kSeconds = 2;
    alarm(kSeconds);
    Watcher::ignore();
    shared_memory().begin_launch(0);
    shared_memory().publish_static_bytes(bytes);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) close(stream);
    for (const int blocks : {1, kMaxCluster}) {  // of clusters, it may have no single block
      if (run_grid(call, dim3(static_cast<unsigned>(blocks)), dim3(kWarpThreads), 1)) break;
    }
    _exit(0);
  }
  if (child > 0) waitpid(child, nullptr, 0);
  const std::size_t found = *bytes;
  munmap(page, sizeof(std::size_t));
  return found;
}

std::size_t static_bytes_of(Call& call) {
  const auto [known, is_new] = device().static_bytes.try_emplace(call.kernel(), 0);
  if (is_new) known->second = learn_static_bytes(call);
  return known->second;
}

/// Whether device memory that begins at `data` has that many bytes; host memory is not known.
bool is_long_enough(const void* data, std::size_t bytes) {
  const Allocation* allocation = find_allocation(data);
  if (allocation == nullptr) return true;
  const auto* end = allocation->data + allocation->bytes;
  return bytes <= static_cast<std::size_t>(end - static_cast<const char*>(data));
}

/// Why a copy cannot be made; "" if it can.
std::string complaint_about_copy(
    const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (to == nullptr) return "the destination is a null pointer";
  if (from == nullptr) return "the source is a null pointer";
  if (!is_long_enough(to, bytes)) return fmt::format("the destination has no {} bytes", bytes);
  if (!is_long_enough(from, bytes)) return fmt::format("the source has no {} bytes", bytes);
  const auto is_of_host = [](const void* data) { return find_allocation(data) == nullptr; };
  const auto is_of_device = [](const void* data) {
    const Allocation* found = find_allocation(data);
    return found != nullptr && found->type == cudaMemoryTypeDevice;
  };
  const bool is_to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool is_from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault) return "";
  if (is_to_device ? is_of_host(to) : is_of_device(to)) {
    return fmt::format(
        "the destination is the {}'s memory, and the direction says otherwise",
        is_to_device ? "host" : "device");
  }
  if (is_from_device ? is_of_host(from) : is_of_device(from)) {
    return fmt::format(
        "the source is the {}'s memory, and the direction says otherwise",
        is_from_device ? "host" : "device");
  }
  return "";
}

/// What a call does that comes later, when its memory has gone.
void report_freed(const char* call, const std::vector<const void*>& callers) {
  const SourceLine line = readers_line(callers);
  set_fault(cudaErrorIllegalAddress);
  hazards().add(fmt::format("freed {}{}", call, place_text(line)), [&] {
    return Hazard{
        .file = line.file,
        .line = line.line,
        .what = fmt::format("{} begins when its memory has been freed", call),
        .advice = "Free it behind that, on the same stream: cudaFreeAsync()",
        .kernel = {},
        .block = {},
        .thread = {}};
  });
}

std::size_t physical_memory(int pages) {
  return static_cast<std::size_t>(sysconf(pages)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// Copies and the like, while few blocks of a large launch run.
cudaError_t beside_sample() {
  sampler().obstruct("it copies or sets memory besides");
  return cudaSuccess;
}

/// Copies on a stream, for the call of this name.
cudaError_t copy(
    const char* call, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
    cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (sampler().is_on()) return beside_sample();
  if (const std::string why = complaint_about_copy(to, from, bytes, kind); !why.empty()) {
    return refuse(cudaErrorInvalidValue, fmt::format("{}: {}", call, why));
  }
  const bool is_to_device = find_allocation(to) != nullptr;
  const bool is_from_device = find_allocation(from) != nullptr;
  // What is neither the device's nor pinned is read before the call returns.
  const auto* const begin = static_cast<const char*>(from);
  const bool is_read_now = is_to_device && !is_from_device;
  const std::vector<char> staged(begin, is_read_now ? begin + bytes : begin);
  return add_work(call, stream, [=, from_where = callers()] {
    const bool is_freed = (is_to_device && find_allocation(to) == nullptr) ||
                          (is_from_device && find_allocation(from) == nullptr);
    if (is_freed) return report_freed(call, from_where);
    std::memmove(to, is_read_now ? staged.data() : from, bytes);
    watcher().filled(to, bytes);
  });
}

/// Sets bytes on a stream, likewise.
cudaError_t set(const char* call, void* data, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (sampler().is_on()) return beside_sample();
  const auto refuse_memory = [&](const char* why) {
    return refuse(cudaErrorInvalidValue, fmt::format("{}: {}", call, why));
  };
  if (data == nullptr) return refuse_memory("a null pointer");
  if (find_allocation(data) == nullptr) return refuse_memory("it is not the device's memory");
  if (!is_long_enough(data, bytes)) {
    return refuse_memory(fmt::format("the memory has no {} bytes", bytes).c_str());
  }
  return add_work(call, stream, [=, from_where = callers()] {
    if (find_allocation(data) == nullptr) return report_freed(call, from_where);
    std::memset(data, value, bytes);
    watcher().filled(data, bytes);
  });
}

cudaError_t refuse_pitch(const char* call, std::size_t bytes) {
  return refuse(
      cudaErrorInvalidValue,
      fmt::format("{}: rows of {} bytes are longer than the pitch", call, bytes));
}

/// The same for rows, each `pitch` behind the one before.
cudaError_t copy_rows(
    const char* call, void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
    std::size_t bytes, std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes > to_pitch || bytes > from_pitch) return refuse_pitch(call, bytes);
  for (std::size_t row = 0; row < rows; ++row) {
    const cudaError_t copying = copy(
        call, static_cast<char*>(to) + row * to_pitch,
        static_cast<const char*>(from) + row * from_pitch, bytes, kind, stream);
    if (copying != cudaSuccess) return copying;
  }
  return cudaSuccess;
}

/// Likewise.
cudaError_t set_rows(
    const char* call, void* data, std::size_t pitch, int value, std::size_t bytes, std::size_t rows,
    cudaStream_t stream) {
  if (bytes > pitch) return refuse_pitch(call, bytes);
  for (std::size_t row = 0; row < rows; ++row) {
    const cudaError_t setting =
        set(call, static_cast<char*>(data) + row * pitch, value, bytes, stream);
    if (setting != cudaSuccess) return setting;
  }
  return cudaSuccess;
}

/// Waits for the default stream, if what was put there is to be done at once.
cudaError_t wait_after(cudaError_t putting) {
  return putting == cudaSuccess ? wait_for(device().default_stream) : putting;
}

cudaError_t refuse_event(const char* call) {
  return refuse(
      cudaErrorInvalidResourceHandle,
      fmt::format("{}: there is no such event, or no longer", call));
}

bool is_event(cudaEvent_t event) {
  return std::any_of(device().events.begin(), device().events.end(), [&](const auto& own) {
    return own.get() == event && !own->is_destroyed;
  });
}

/// Adds an allocation.
cudaError_t allocate(const char* call, void** data, std::size_t bytes, cudaMemoryType type) {
  *data = nullptr;
  if (has_to_fail(call)) return note(cudaErrorMemoryAllocation);
  if (bytes == 0) return cudaSuccess;
  // Linux would promise more than there is.
  const std::size_t most = sampler().is_on() ? kMostBesideSample : physical_memory(_SC_PHYS_PAGES);
  char* const memory = bytes > most ? nullptr : take_device_memory(bytes);
  if (memory == nullptr) {
    return refuse(
        cudaErrorMemoryAllocation, fmt::format("{}: there are no {} bytes left", call, bytes));
  }
  *data = memory;
  device().allocations[memory] = {memory, bytes, type};
  if (type == cudaMemoryTypeDevice) watcher().allocated(memory, bytes);  // the host fills others
  return cudaSuccess;
}

/// Gives back what allocate() gave.
cudaError_t release(const char* call, void* data) {
  const auto found = device().allocations.find(static_cast<char*>(data));
  if (found == device().allocations.end() || found->second.is_symbol) {
    return refuse(
        cudaErrorInvalidValue,
        fmt::format("{}: it was not allocated, is a part of what was, or is free already", call));
  }
  watcher().freed(data);
  give_back_device_memory(found->second.data, found->second.bytes);
  device().allocations.erase(found);
  return cudaSuccess;
}

}  // namespace

void limit_clusters(int blocks, cudaError_t error) {
  device().most_of_cluster = blocks > 0 ? blocks : kMaxCluster;
  device().cluster_error = error;
}

void set_registers(const std::string& symbol, int count) {
  int& known = device().registers[name_of_symbol(symbol)];
  known = std::max(known, count);
}

void let_fail(int calls_before) {
  device().calls_until_failure = calls_before;
  if (calls_before >= 0) device().made_to_fail = {};
}

std::string call_that_failed() {
  return text_of(device().made_to_fail);
}

cudaError_t refuse(cudaError_t error, std::string why) {
  device().failed = {std::move(why), callers()};
  return note(error);
}

std::string take_failed_call() {
  return text_of(std::exchange(device().failed, {}));
}

const Allocation* find_allocation(const void* address) {
  const auto* byte = static_cast<const char*>(address);
  auto after = device().allocations.upper_bound(byte);
  if (after == device().allocations.begin()) return nullptr;
  const Allocation& candidate = std::prev(after)->second;
  return byte < candidate.data + candidate.bytes ? &candidate : nullptr;
}

HostCalls host_calls() {
  const Device& d = device();
  std::size_t queued = d.default_stream.work.size();
  for (const auto& stream : d.streams) queued += stream->work.size();
  const auto events = std::count_if(
      d.events.begin(), d.events.end(), [](const auto& event) { return !event->is_destroyed; });
  return {
      .waits = d.waits,
      .allocations = std::ssize(d.allocations),
      .handles = std::ssize(d.streams) + events,
      .queued = static_cast<std::int64_t>(queued)};
}

void let_others_hurry(bool hurry, cudaStream_t patient) {
  device().others_hurry = hurry;
  device().patient = patient;
}

void set_fault(cudaError_t error) {
  device().fault = error;
}

void enqueue(const Launch& launch, std::shared_ptr<Call> call) {
  cudaError_t& error = device().of_last_launch;
  error = check(launch, *call);
  if (error != cudaSuccess) return;
  error = add_work("a launch", launch.stream, [launch, call] { run(launch, *call); });
}

cudaError_t error_of_last_launch() {
  return device().of_last_launch;
}

cudaError_t attributes_of(cudaFuncAttributes* attributes, std::shared_ptr<Call> empty) {
  const std::size_t static_bytes = static_bytes_of(*empty);
  *attributes = {
      .sharedSizeBytes = static_bytes,
      .maxThreadsPerBlock = kMaxThreads,
      .maxDynamicSharedSizeBytes = static_cast<int>(dynamic_limit(empty->kernel(), static_bytes))};
  return cudaSuccess;
}

int blocks_that_fit(std::shared_ptr<Call> empty, int threads, std::size_t dynamic_bytes) {
  if (threads < 1 || threads > kMaxThreads) return 0;
  const std::size_t bytes = static_bytes_of(*empty) + dynamic_bytes + kSharedBytesReserved;
  if (bytes > kSharedBytesOptin + kSharedBytesReserved) return 0;
  return std::min(blocks_of_sm(threads), static_cast<int>(kSharedBytesOfSm / bytes));
}

bool fits_together(const Launch& launch, int blocks_of_multiprocessor) {
  const dim3 grid = launch.grid;
  const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
  const int most = multiprocessors * blocks_of_multiprocessor;
  if (blocks <= static_cast<std::size_t>(most)) return true;
  refuse(
      cudaErrorCooperativeLaunchTooLarge,
      fmt::format(
          "a cooperative launch: {} blocks of this size fit on the device together, not {}", most,
          blocks));
  return false;
}

int print(const char* format, ...) {
  constexpr int kMost = 20;
  static int printed = 0;
  if (is_in_kernel() && printed > kMost) return 0;
  if (is_in_kernel() && printed++ == kMost) {
    std::printf("\nwhat kernels print from here on is not shown\n");
    return 0;
  }
  va_list arguments;
  va_start(arguments, format);
  const int written = std::vprintf(format, arguments);
  va_end(arguments);
  return written;
}

char* address_of_symbol(const void* symbol, std::size_t bytes) {
  auto* const data = static_cast<char*>(const_cast<void*>(symbol));
  device().allocations[data] = {data, bytes, cudaMemoryTypeDevice, true};
  return data;
}

}  // namespace rmsnorm::cpu_device

using namespace rmsnorm::cpu_device;

/// An error's name, and what it means.
struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
static constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorUnsupportedPtxVersion, "cudaErrorUnsupportedPtxVersion",
     "the provided PTX was compiled with an unsupported toolchain."},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"},
    {cudaErrorInvalidClusterSize, "cudaErrorInvalidClusterSize", "Invalid cluster size"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
};

static const char* of_error(cudaError_t wanted, const char* ErrorText::*member) {
  for (const ErrorText& known : kErrors) {
    if (known.error == wanted) return known.*member;
  }
  return "unrecognized error code";
}

const char* cudaGetErrorName(cudaError_t error) {
  return of_error(error, &ErrorText::name);
}

const char* cudaGetErrorString(cudaError_t error) {
  return of_error(error, &ErrorText::text);
}

cudaError_t cudaGetLastError() {
  return std::exchange(device().last_error, cudaSuccess);
}

cudaError_t cudaPeekAtLastError() {
  return device().last_error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* number) {
  *number = 0;
  return has_to_fail("cudaGetDevice()") ? note(cudaErrorNoDevice) : cudaSuccess;
}

static cudaError_t refuse_device(const char* call, int number) {
  return refuse(
      cudaErrorInvalidDevice, fmt::format("{}: there is no device {}, but device 0", call, number));
}

cudaError_t cudaSetDevice(int number) {
  return number == 0 ? cudaSuccess : refuse_device("cudaSetDevice()", number);
}

constexpr int kComputeMajor = 9;  // as an H200 has it

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  const char* const call = "cudaGetDeviceProperties()";
  if (number != 0 || has_to_fail(call)) return refuse_device(call, number);
  asked_for_multiprocessors = true;
  *properties = {
      .name = "CPU device",
      .totalGlobalMem = physical_memory(_SC_PHYS_PAGES),
      .sharedMemPerBlock = kSharedBytes,
      .sharedMemPerBlockOptin = kSharedBytesOptin,
      .warpSize = kWarpThreads,
      .maxThreadsPerBlock = kMaxThreads,
      .major = kComputeMajor,
      .minor = 0,
      .multiProcessorCount = multiprocessors,
      .l2CacheSize = 0,
      .maxThreadsPerMultiProcessor = kMaxThreadsOfSm,
      .maxBlocksPerMultiProcessor = kMaxBlocksOfSm,
      .sharedMemPerMultiprocessor = kSharedBytesOfSm,
      .reservedSharedMemPerBlock = kSharedBytesReserved,
      .regsPerBlock = kRegisters,
      .regsPerMultiprocessor = kRegisters,
      .maxThreadsDim = {1024, 1024, 64},
      .maxGridSize = {kMaxGridX, kMaxGridY, kMaxGridY},
      .cooperativeLaunch = 1};
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int number) {
  const char* const call = "cudaDeviceGetAttribute()";
  if (number != 0 || has_to_fail(call)) return refuse_device(call, number);
  if (attribute == cudaDevAttrMultiProcessorCount) {
    asked_for_multiprocessors = true;
    *value = multiprocessors;
    return cudaSuccess;
  }
  static const std::map<cudaDeviceAttr, int> kAttributes = {
      {cudaDevAttrMaxThreadsPerBlock, kMaxThreads},
      {cudaDevAttrMaxSharedMemoryPerBlock, kSharedBytes},
      {cudaDevAttrWarpSize, kWarpThreads},
      {cudaDevAttrComputeCapabilityMajor, kComputeMajor},
      {cudaDevAttrComputeCapabilityMinor, 0},
      {cudaDevAttrMaxBlockDimX, kMaxThreads},
      {cudaDevAttrMaxGridDimX, kMaxGridX},
      {cudaDevAttrMaxGridDimY, kMaxGridY},
      {cudaDevAttrMaxRegistersPerBlock, kRegisters},
      {cudaDevAttrMaxRegistersPerMultiprocessor, kRegisters},
      {cudaDevAttrL2CacheSize, 0},
      {cudaDevAttrMaxThreadsPerMultiProcessor, kMaxThreadsOfSm},
      {cudaDevAttrMaxBlocksPerMultiprocessor, kMaxBlocksOfSm},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, kSharedBytesOfSm},
      {cudaDevAttrCooperativeLaunch, 1},
      {cudaDevAttrMemoryPoolsSupported, 1},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, kSharedBytesOptin}};
  const auto found = kAttributes.find(attribute);
  if (found == kAttributes.end()) {
    return refuse(
        cudaErrorInvalidValue,
        fmt::format("cudaDeviceGetAttribute(): the CPU device has no attribute {}", +attribute));
  }
  *value = found->second;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  ++device().waits;
  work_off(device().default_stream);
  for (const auto& stream : device().streams) work_off(*stream);
  return take_fault();
}

/// Nothing is left but the variables of kernels, which keep their values here.
cudaError_t cudaDeviceReset() {
  const cudaError_t before = cudaDeviceSynchronize();
  Device& d = device();
  std::vector<void*> memory;
  for (const auto& [begin, allocation] : d.allocations) {
    if (!allocation.is_symbol) memory.push_back(allocation.data);
  }
  for (void* const data : memory) release("cudaDeviceReset()", data);
  d.streams.clear();
  for (const auto& event : d.events) event->is_destroyed = true;
  d.dynamic_limits.clear();
  d.large_clusters.clear();
  return before;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return allocate("cudaMalloc()", data, bytes, cudaMemoryTypeDevice);
}

cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t stream) {
  const char* const call = "cudaMallocAsync()";
  if (queue_of(stream) == nullptr) return refuse_stream(call);
  return allocate(call, data, bytes, cudaMemoryTypeDevice);
}

cudaError_t cudaMallocManaged(void** data, std::size_t bytes, unsigned) {
  return allocate("cudaMallocManaged()", data, bytes, cudaMemoryTypeManaged);
}

cudaError_t cudaMallocHost(void** data, std::size_t bytes, unsigned) {
  return allocate("cudaMallocHost()", data, bytes, cudaMemoryTypeHost);
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  return cudaMallocHost(data, bytes);
}

cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  const cudaError_t before = cudaDeviceSynchronize();
  const cudaError_t freed = release("cudaFree()", data);
  return freed == cudaSuccess ? before : freed;
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  if (data == nullptr) return cudaSuccess;
  const char* const call = "cudaFreeAsync()";
  return add_work(call, stream, [call, data] { release(call, data); });
}

cudaError_t cudaFreeHost(void* data) {
  return cudaFree(data);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t before = wait_for(device().default_stream);
  if (before != cudaSuccess) return before;
  return wait_after(copy("cudaMemcpy()", to, from, bytes, kind, nullptr));
}

cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy("cudaMemcpyAsync()", to, from, bytes, kind, stream);
}

cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  const cudaError_t before = wait_for(device().default_stream);
  if (before != cudaSuccess) return before;
  return wait_after(set("cudaMemset()", data, value, bytes, nullptr));
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  return set("cudaMemsetAsync()", data, value, bytes, stream);
}

cudaError_t cudaMemcpy2D(
    void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t bytes,
    std::size_t rows, cudaMemcpyKind kind) {
  return wait_after(
      copy_rows("cudaMemcpy2D()", to, to_pitch, from, from_pitch, bytes, rows, kind, nullptr));
}

cudaError_t cudaMemcpy2DAsync(
    void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t bytes,
    std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_rows(
      "cudaMemcpy2DAsync()", to, to_pitch, from, from_pitch, bytes, rows, kind, stream);
}

cudaError_t cudaMemset2D(
    void* data, std::size_t pitch, int value, std::size_t bytes, std::size_t rows) {
  return wait_after(set_rows("cudaMemset2D()", data, pitch, value, bytes, rows, nullptr));
}

cudaError_t cudaMemset2DAsync(
    void* data, std::size_t pitch, int value, std::size_t bytes, std::size_t rows,
    cudaStream_t stream) {
  return set_rows("cudaMemset2DAsync()", data, pitch, value, bytes, rows, stream);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = physical_memory(_SC_AVPHYS_PAGES);
  *total = physical_memory(_SC_PHYS_PAGES);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const bool is_ours = find_allocation(pointer) != nullptr;
  attributes->type = is_ours ? find_allocation(pointer)->type : cudaMemoryTypeUnregistered;
  attributes->device = is_ours ? 0 : -1;
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (has_to_fail("cudaStreamCreate()")) return note(cudaErrorMemoryAllocation);
  device().streams.push_back(std::make_unique<CUstream_st>());
  *stream = device().streams.back().get();
  (*stream)->has_own_queue = flags == cudaStreamNonBlocking;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  CUstream_st* const queue = stream == nullptr ? nullptr : queue_of(stream);
  if (queue == nullptr) return refuse_stream("cudaStreamDestroy()");
  work_off(*queue);
  std::erase_if(device().streams, [&](const auto& own) { return own.get() == stream; });
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  CUstream_st* const queue = queue_of(stream);
  return queue == nullptr ? refuse_stream("cudaStreamSynchronize()") : wait_for(*queue);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  CUstream_st* const queue = queue_of(stream);
  if (queue == nullptr) return refuse_stream("cudaStreamQuery()");
  return queue->work.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (has_to_fail("cudaEventCreate()")) return note(cudaErrorMemoryAllocation);
  device().events.push_back(std::make_unique<CUevent_st>());
  *event = device().events.back().get();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!is_event(event)) return refuse_event("cudaEventDestroy()");
  event->is_destroyed = true;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const char* const call = "cudaEventRecord()";
  CUstream_st* const queue = queue_of(stream);
  if (queue == nullptr) return refuse_stream(call);
  if (!is_event(event)) return refuse_event(call);
  if (event->queue != nullptr && event->queue != queue) work_off_until(*event, event->wanted);
  event->queue = queue;
  ++event->wanted;
  return add_work(call, stream, [event] { ++event->reached; });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!is_event(event)) return refuse_event("cudaEventSynchronize()");
  ++device().waits;
  work_off_until(*event, event->wanted);
  return take_fault();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!is_event(event)) return refuse_event("cudaEventQuery()");
  return event->reached >= event->wanted ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const char* const call = "cudaStreamWaitEvent()";
  if (!is_event(event)) return refuse_event(call);
  return add_work(call, stream, [event, times = event->wanted] { work_off_until(*event, times); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return add_work("cudaLaunchHostFunc()", stream, [=] { function(data); });
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (has_to_fail("cudaFuncSetAttribute()")) return note(cudaErrorInvalidValue);
  if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed && value != 0) {
    device().large_clusters.insert(kernel);
  }
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  const auto known = device().static_bytes.find(kernel);
  const std::size_t declared = known == device().static_bytes.end() ? 0 : known->second;
  if (value < 0 || static_cast<std::size_t>(value) + declared > kSharedBytesOptin) {
    return refuse(
        cudaErrorInvalidValue,
        fmt::format(
            "cudaFuncSetAttribute(): {} bytes of dynamic shared memory beside {} of __shared__ "
            "variables, and a block has {}",
            value, declared, kSharedBytesOptin));
  }
  device().dynamic_limits[kernel] =
      std::max(static_cast<std::size_t>(value), kSharedBytes - std::min(kSharedBytes, declared));
  return cudaSuccess;
}
