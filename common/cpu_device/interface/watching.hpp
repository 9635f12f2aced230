#pragma once
/// \file
/// What the CPU device sees while a kernel runs: mistakes, and what each source line costs. A GPU
/// cannot be watched like that.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct CUstream_st;  // cudaStream_t points to it

namespace rmsnorm {

/// What global memory moves at once.
inline constexpr int kSectorBytes = 32;

/// What one source line did during one launch, for one kind of operation.
///
/// A request is what a warp asks at once: one instruction, carried out by up to 32 lanes.
struct LineCount {
  std::string file;             ///< as the compiler was given it
  int line = 0;                 ///< 1 is the first
  std::string kind;             ///< one of kKinds
  std::string what;             ///< the tensor or the shared variable; "" for all other kinds
  int bytes = 0;                ///< that one lane moves at once; 0 for all other kinds
  std::int64_t requests = 0;    ///< of all warps; for barriers and triggers: of all blocks
  std::int64_t lanes = 0;       ///< that took part in them, in all
  std::int64_t sectors = 0;     ///< of kSectorBytes, that the requests touch; global memory only
  std::int64_t wavefronts = 0;  ///< passes through the 32 banks that they take; shared memory only
  std::int64_t conflicts = 0;   ///< those of the wavefronts that bank conflicts cost
  std::int64_t late = 0;        ///< those of the requests after a barrier of their block
  std::string policy = "";      ///< for the L2: "evict_last" or "evict_first"; "" is the normal one

  bool operator==(const LineCount&) const = default;  ///< all alike
};

/// The kinds of LineCount, in the order in which a reader meets them.
///
/// Of the memory of another rank, it is a peer load or store. Where there are ranks, a strong load
/// of the own memory is a poll: there are as many as it takes to wait for the value. A strong store
/// of one word, or an atomic operation, is a signal.
///
/// Remote is the shared memory of the other blocks of a cluster. Where lanes of one instruction are
/// at that of their own block, these are a shared load or store beside it; but st.async is a remote
/// store as a whole.
///
/// A trigger lets the next kernel begin, when each thread of a block has called it or has returned.
/// It is late if one of them wrote to global memory before.
inline constexpr const char* kKinds[] = {
    "global load",  "global store", "peer load",   "peer store",   "poll",
    "signal",       "bulk load",    "shared load", "shared store", "remote load",
    "remote store", "barrier",      "shuffle",     "trigger",      "late trigger"};

/// Where there are ranks, GPUs of which each has memory of its own: which of them may touch some.
/// The ranks are blocks of one grid then, and blockIdx.y is a block's rank.
enum class Reach {
  all,       ///< any, as if it were its own
  peers,     ///< any; for each but its owner, it is a peer's memory
  own_rank,  ///< one
};

/// Memory that a kernel is given: a tensor.
struct KnownMemory {
  std::string name;          ///< "x"
  const void* data;          ///< on the device
  std::size_t bytes;         ///< in all
  int element_bytes;         ///< of one element
  bool has_values = true;    ///< from the start: a kernel may read it before it writes it
  bool may_change = true;    ///< a kernel may write to it
  Reach reach = Reach::all;  ///< for which ranks it is
  int rank = 0;              ///< whose it is, unless it is for all alike
};

/// What threads of a warp did together, or a barrier of their block.
struct Step {
  /// One of them.
  struct Thread {
    int number;       ///< counted through the block
    std::int64_t at;  ///< where it loads or stores: bytes behind the tensor's or variable's first;
                      ///< of a shuffle: the thread whose value it gets
    float value;      ///< the fp32 that it stores or, in a shuffle, had before; else 0
  };
  std::string kind;             ///< one of kKinds
  std::string file;             ///< as LineCount has it
  int line = 0;                 ///< likewise
  std::string what;             ///< likewise
  int bytes = 0;                ///< likewise
  std::vector<Thread> threads;  ///< in order; of a barrier none: they all wait for each other
};

/// One launch.
struct LaunchCounts {
  std::vector<LineCount> lines;         ///< one for each line that did something
  std::int64_t blocks = 0;              ///< of the launch
  std::int64_t overlapping_blocks = 0;  ///< those whose launch may overlap the one before
  bool polls = false;  ///< whether a thread has read a flag other than by an atomic operation
  std::vector<Step> steps = {};  ///< of its first block, if they were to be recorded; each warp's
                                 ///< are in order, and all are between the right barriers
};

/// Whether this build can watch kernels: for the CPU device, but not under AddressSanitizer.
bool can_watch();

/// Watches the launches from now on, if this build can. A kernel may touch these tensors in global
/// memory, and nothing else. Steps are recorded if that is asked for: it takes much memory.
void start_watching(std::vector<KnownMemory> tensors, bool records_steps = false);

/// Ends it, and gives what was counted.
LaunchCounts stop_watching();

/// While watching: whether the host's code is to be watched, too. It may not touch device memory.
void watch_host(bool watched);

/// What the host has asked of the device until now, where the device can tell; else nothing.
struct HostCalls {
  std::int64_t waits = 0;        ///< for what lies on a stream
  std::int64_t allocations = 0;  ///< that nobody has freed
  std::int64_t handles = 0;      ///< streams and events that nobody has destroyed
  std::int64_t queued = 0;       ///< work on a stream that nobody has waited for
};
HostCalls host_calls();  ///< since the program began

/// Which call of the runtime returned the last error, where, and why: "FILE:LINE: cudaFree(): ...";
/// "" if none has since the last call of this function, or where the device cannot tell.
std::string take_failed_call();

/// What is said in front of the sentence with which a crash in a launch ends the program.
void say_before_crash(const std::string& text);

/// In which order things run that CUDA leaves open. By default, all run in the usual order.
struct RunOrder {
  int blocks = 0;              ///< 1: they begin from the last to the first; other numbers: another
  int threads = 0;             ///< of a block: likewise
  bool old_values = false;     ///< loads of flags get them, where CUDA's memory model allows it
  bool eager_streams = false;  ///< all but a given one work as soon as they can
  std::uint64_t turn_from = 0;   ///< of the atomic operations at which another block could go on,
  std::uint64_t turn_until = 0;  ///< the first at which it does, and the first again at which not
};
/// The order of a number: all of the above but for 0, old values in every second one.
RunOrder run_order(int number);
/// Lets later launches run so.
void change_order(const RunOrder& order, CUstream_st* given);
/// Likewise.
inline void change_order(int number, CUstream_st* given) {
  change_order(run_order(number), given);
}
/// How often another block could have gone on at an atomic operation since the program began.
std::uint64_t possible_turns();
/// Where the first few did, each as "block 1 waits at FILE:LINE, block 0 goes on".
std::vector<std::string> first_turns();

/// Lets no later launch have clusters of more blocks, as a part of a GPU may hold no more; 0: as
/// many as ever. Launches that ask for more return the cudaError_t of this number.
void limit_clusters(int blocks, int error = 912 /* cudaErrorInvalidClusterSize */);

/// The mistakes that the device has seen since the last call, each as one line with the place and
/// an advice. Barriers and shuffles are always watched, loads and stores while watching.
std::vector<std::string> take_hazards();

/// What of the launches since the last call is correct only because GPUs order more than CUDA's
/// memory model promises: a line each, as above.
std::vector<std::string> take_notes();

/// Loads since the last call that got an old value, which CUDA's memory model allows: likewise.
std::vector<std::string> take_old_loads();

}  // namespace rmsnorm
