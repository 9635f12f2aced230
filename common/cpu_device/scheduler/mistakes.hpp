#pragma once
/// \file
/// Mistakes: what can be wrong with a kernel, and with the calls around it, and what is said about
/// it.

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/cpu_device/scheduler/source_location.hpp"

namespace rmsnorm::cpu_device {

/// A kind of mistake.
struct Mistake {
  const char* what;         ///< what happened, without a full stop; {} stands for an argument
  const char* advice;       ///< one sentence, without a full stop, with the same arguments
  bool is_symptom = false;  ///< another mistake may be behind it, to be named first
};

/// Format argument of a sentence. A source location becomes "FILE:LINE".
struct FormatArg {
  template <std::integral Number>
  FormatArg(Number number) : value(static_cast<std::int64_t>(number)) {}  ///< in decimals
  FormatArg(const char* text) : value(std::string(text)) {}               ///< as it is
  FormatArg(std::string text) : value(std::move(text)) {}                 ///< likewise
  FormatArg(SourceLocation location) : value(location) {}                 ///< in the source
  /// The line of the call that returns there.
  static FormatArg of_call(const void* pc) { return FormatArg(pc); }

  std::variant<std::int64_t, std::string, SourceLocation, const void*> value;  ///< one of these

 private:
  explicit FormatArg(const void* pc) : value(pc) {}
};

/// Where it showed: a source location, or the return address of a call.
using Where = std::variant<SourceLocation, const void*>;

/// All kinds.
namespace mistakes {

inline constexpr const char* kSameForAll =
    "Every thread of a block has to reach the same __syncthreads(): take it out of the branch, or "
    "let the threads that have nothing to do come along";
inline constexpr const char* kSameForWarp =
    "The threads of a warp have to reach the same bar.sync or bar.arrive: let whole warps take a "
    "branch, or take it out";
inline constexpr const char* kMask =
    "Let all lanes that the mask names make this call, or name in it only those that do: "
    "0xffffffff is for code that the whole warp reaches";
inline constexpr const char* kNumbersAgree = "A GPU refuses such a launch: let the numbers agree";
inline constexpr const char* kBytesAgree =
    "Let the barrier expect as many bytes as are copied or stored with it";
inline constexpr const char* kReachAll =
    "Every thread of every block has to reach each cluster barrier";
inline constexpr const char* kCompare = "Compare the index with the size before the access";
inline constexpr const char* kInput =
    "It is an input: others may read it at the same time, and want it unchanged";
inline constexpr const char* kBarrier = "Put __syncthreads() between the two";
inline constexpr const char* kInBlock =
    "a race: thread {} {} {} here, thread {} {} it at {}, and no barrier is between them";
inline constexpr const char* kOfBlocks =
    "a race: this block {} {} here, another {} it at {}, and nothing orders the two";

// Barriers and warp collectives.
inline constexpr Mistake kOtherBarrier{
    "thread {} waits at this __syncthreads(), and thread {} at another, at {}", kSameForAll};
inline constexpr Mistake kOtherCallOfBarrier{
    "thread {} waits at this __syncthreads(), called at {}, and thread {} at the same, called at "
    "{}",
    kSameForAll};
inline constexpr Mistake kOtherNamedBarrier{
    "thread {} comes to this barrier, and thread {} of its warp at another, at {}", kSameForWarp};
inline constexpr Mistake kOtherCallOfNamedBarrier{
    "thread {} comes to this barrier, called at {}, and thread {} of its warp at the same, called "
    "at {}",
    kSameForWarp};
inline constexpr Mistake kReturnedBeforeBarrier{
    "thread {} has returned, and {} for it at this __syncthreads()", kSameForAll};
inline constexpr Mistake kBarrierOfSome{
    "{} of the block's {} threads came to this __syncthreads(), the others returned without it, so "
    "it does not order the two of the race",
    kSameForAll};
inline constexpr Mistake kUnnamedLane{
    "thread {} calls {} with a mask, {}, that does not name its own lane, {}", kMask};
inline constexpr Mistake kOtherCollective{
    "lane {} of warp {} meets lane {} here, which is in another call ({}, mask {}, at {}) than "
    "its own ({}, mask {})",
    kMask};
inline constexpr Mistake kReturnedLanes{
    "the mask of this shuffle names {} of warp {}, which {} returned", kMask};
inline constexpr Mistake kAbsentSource{
    "lane {} of warp {} takes a value from lane {}, which takes no part in this shuffle",
    "Take a value only from a lane that makes this call, too, and that its mask names"};
inline constexpr Mistake kDistance{
    "lane {} shuffles over a distance of {}, which leaves the warp",
    "A warp has 32 lanes, so distances are 0 to 31: sums of more threads go through shared "
    "memory"};
inline constexpr Mistake kDeadlock{"lane {} of warp {} waits in {} for {}, which never {}", kMask};
inline constexpr Mistake kDeadlockAtBarrier{
    "lane {} of warp {} waits in {} for {}, which never {}: lane {} waits at the __syncthreads() "
    "at {}",
    kMask};
inline constexpr Mistake kWaitsInVain{
    "thread {} waits here for a value that no thread is left to write: all others wait, too, or "
    "have returned",
    "Let a thread write it before it waits itself; a value that counts on may have passed: wait "
    "for at least that"};
inline constexpr Mistake kBlocksNotResident{
    "thread {} waits here for other blocks, and {} of {} have not begun: as many as fit are on the "
    "device, and all of them wait",
    "Blocks may wait for each other only where all fit on the GPU together: "
    "cudaLaunchCooperativeKernel() refuses a launch of more"};
inline constexpr Mistake kGridNotCooperative{
    "thread {} comes to a barrier of the grid, and the launch is not cooperative",
    "Launch it with cudaLaunchCooperativeKernel(), which takes no more blocks than fit on the GPU "
    "together"};
inline constexpr Mistake kAssertion{
    "thread {}: the assertion '{}' does not hold", "Look at what it says, and at who breaks it"};
inline constexpr Mistake kBarrierCount{
    "thread {} waits at a barrier for {} threads, which are no whole warps",
    "The count of a bar.sync or bar.arrive is a multiple of 32"};
// Launch configurations.
inline constexpr Mistake kLaunchBounds{
    "the launch has {} threads in a block, and the kernel's __launch_bounds__ promise {} at most",
    kNumbersAgree};
inline constexpr Mistake kClusterDims{
    "the kernel's __cluster_dims__ ask for clusters of {} blocks, and the launch has {}",
    kNumbersAgree};
// Barriers that count arrivals.
inline constexpr Mistake kNoCount{
    "thread {} arrives at a barrier that does not know yet how many threads it waits for",
    "Let one thread call init(&barrier, threads), and put __syncthreads() behind it"};
inline constexpr Mistake kNoArrival{
    "thread {} waits at a barrier for {} threads, of which {} never arrive",
    "Let as many threads arrive as the barrier expects"};
inline constexpr Mistake kBytesNeverCome{
    "thread {} waits at a barrier for {} bytes that never come", kBytesAgree};
inline constexpr Mistake kBytesNotExpected{
    "thread {} waits at a barrier to which {} bytes came that it does not expect", kBytesAgree};
inline constexpr Mistake kNarrowAcquire{
    "thread {} waits for what block {} of the cluster has sent, with an acquire that reaches its "
    "own block alone",
    "The default is .acquire.cta: write mbarrier.try_wait.parity.acquire.cluster"};
inline constexpr Mistake kBulkSize{
    "thread {} copies {} bytes, which are no multiple of {}",
    "cp.async.bulk moves whole vectors of 16 bytes: copy the rest in another way"};
inline constexpr Mistake kLeftBeforeTransfer{
    "a {} into shared memory of block {}{} is on its way when that has returned",
    "Let the block wait at the barrier that counts its bytes"};
// Clusters.
inline constexpr Mistake kArrivesTwice{
    "thread {} arrives at the cluster barrier twice", "Between two arrivals, a thread has to wait"};
inline constexpr Mistake kWaitsWithoutArrival{
    "thread {} waits at a cluster barrier where it has not arrived", "Let it arrive first"};
inline constexpr Mistake kBlockReturned{
    "block {} of the cluster has returned, and others wait for it at this cluster barrier",
    kReachAll};
inline constexpr Mistake kNeverArrives{
    "thread {} waits at a cluster barrier for threads that never arrive", kReachAll};
inline constexpr Mistake kLeftBeforeAccess{
    "a thread of block {} of the cluster {} shared memory of block {}, which may have returned",
    "A block's shared memory ends with it: let all wait at a cluster barrier behind the last "
    "access"};
inline constexpr Mistake kNotBegun{
    "thread {} {} shared memory of block {} of the cluster, which may not have begun",
    "Let all blocks of the cluster wait at a cluster barrier first"};
// Shared memory.
inline constexpr Mistake kNoRoom{
    "'{}' makes {} bytes of __shared__ variables, and {} bytes are dynamic: a block has {} bytes "
    "for variables and {} in all",
    "Take less, or take it in turns"};
inline constexpr Mistake kStorageBeyond{
    "thread {} reduces with a TempStorage that is beyond {}",
    "Compare the index with the size of the array"};
inline constexpr Mistake kStorageOutside{
    "thread {} reduces with a TempStorage that is not in shared memory",
    "Declare it __shared__: the threads exchange their values through it"};
inline constexpr Mistake kStorageOfTwoWarps{
    "warp {} uses the TempStorage {} here, warp {} uses it at {}, and no barrier is between them",
    "Give each warp a TempStorage of its own, or put __syncthreads() between the two"};
// Loads and stores.
inline constexpr Mistake kIndexBeyond{
    "thread {} uses index {} of an array of type {}", kCompare, true};
inline constexpr Mistake kOutsideShared{"thread {} {} {} bytes, {}", kCompare};
inline constexpr Mistake kOutsideDynamic{
    "thread {} {} {} bytes, {}",
    "Its size in bytes is the third argument between <<< and >>>: compare the index with it"};
inline constexpr Mistake kMisalignedShared{
    "thread {} {} {} bytes of shared memory at {}, at an address that is no multiple of {}",
    "Move {2} bytes at once only from and to multiples of {2}"};
inline constexpr Mistake kOutsideGlobal{"thread {} {} {} bytes{}", kCompare};
inline constexpr Mistake kMisalignedGlobal{
    "thread {} {} {} bytes of {} at an address that is no multiple of {}",
    "A {2}-byte access needs a {2}-byte address, in every row: say that the problem is "
    "unsupported, or move single elements"};
inline constexpr Mistake kOfOtherRank{
    "thread {} {} {} bytes of {}, which belongs to rank {}",
    "blockIdx.y is a block's own rank: what others need has to be in a workspace"};
inline constexpr Mistake kNullPointer{
    "thread {} {} {} bytes through a null pointer",
    "What a problem lacks is null: look before the access"};
inline constexpr Mistake kMemoryOfHost{
    "thread {} {} {} bytes of the host's memory",
    "A kernel's pointers lead to what cudaMalloc gave: a copy has to be there"};
inline constexpr Mistake kVariableOfHost{
    "thread {} {} {}, a variable of the host",
    "Make it a __device__ or __constant__ variable, a constant or an argument"};
inline constexpr Mistake kInputWritten{"thread {} {} {}", kInput};
inline constexpr Mistake kInputFilled{"a copy or a memset changes {}", kInput};
inline constexpr Mistake kUnwrittenShared{
    "thread {} reads {}, which no thread of this block has written before",
    "Shared memory begins with no value: let a thread write it first", true};
inline constexpr Mistake kCopyUnderWay{
    "thread {} reads {}, which the copy that was begun at {} has yet to write",
    "Let the thread that began it wait for it (__pipeline_wait_prior(), cp.async.wait_group), and "
    "all others at a barrier behind that"};
inline constexpr Mistake kUnwrittenGlobal{
    "thread {} reads {}, which no thread has written before",
    "An output or a workspace begins with no value: write it first", true};
inline constexpr Mistake kStaleReadOnly{
    "thread {} reads {} through the cache of what never changes, but this launch wrote it at {}",
    "__ldg() is for what no thread of the launch writes: read it without"};
inline constexpr Mistake kNoWait{
    "thread {} {} {} bytes of {} before cudaGridDependencySynchronize(): the kernel before may "
    "still be {} it",
    "The launch may overlap the one before it: let the thread wait first"};
inline constexpr Mistake kHostAccess{
    "the host's code {} {}, which is in the device's memory",
    "Let a kernel do it, or hand over what the host needs as an argument"};
inline constexpr Mistake kCopyNotMade{
    "the host's code {} memory that a copy on a stream has still to {}",
    "Wait for the stream first: cudaStreamSynchronize()"};
inline constexpr Mistake kFreedBeforeUse{
    "{} begins when its memory has been freed",
    "Free it behind that, on the same stream: cudaFreeAsync()"};
// Races.
inline constexpr Mistake kRaceInBlock{kInBlock, kBarrier};
inline constexpr Mistake kRaceInWarp{
    kInBlock, "Put __syncwarp() between the two: shuffles and votes do not order memory"};
inline constexpr Mistake kStoresInBlock{
    kInBlock, "Let one of the threads write it, or give each an element of its own"};
inline constexpr Mistake kRaceInCluster{kOfBlocks, "Put a barrier of the cluster between the two"};
inline constexpr Mistake kRaceOfBlocks{
    kOfBlocks,
    "Blocks run in any order, also at the same time: use a second launch or, to hand a value on, "
    "write it, call __threadfence() (between GPUs __threadfence_system()), and then change a flag "
    "that the other block reads, both atomically; where other threads of the block wrote it, "
    "__syncthreads() comes first"};
inline constexpr Mistake kNoFenceBehind{
    "a race: a thread {} {} here, and another {} it at {}: the flag between the two is read at {}, "
    "with no fence behind it",
    "Call __threadfence() where the flag has been seen, between GPUs __threadfence_system(), or "
    "read it with memory_order_acquire"};
inline constexpr Mistake kNarrowScope{
    "a race: a thread {} {} here, and another {} it at {}: the flag between the two, read at {}, "
    "or a fence beside it is not for both of them",
    "Between blocks, take __threadfence(), and atomic operations of the whole device: what ends in "
    "_block is for the threads of one block alone; between GPUs, take those of the system"};
inline constexpr Mistake kChangesOfBlocks{
    kOfBlocks,
    "Blocks run in any order, also at the same time: give each memory of its own, add with "
    "atomicAdd(), or use a second launch"};
inline constexpr Mistake kAtomicOfBlock{
    kOfBlocks,
    "What ends in _block, or has its scope, is atomic for the threads of one block alone, and what "
    "has that of the device, for one GPU"};
// No mistakes.
inline constexpr Mistake kReliesOnBarrier{
    "threads read what this atomic operation says is done behind a barrier, before which its "
    "thread has called no fence",
    "CUDA's memory model wants __threadfence() behind the atomic operation; NVIDIA's programming "
    "guide does without"};
inline constexpr Mistake kOldValue{
    "thread {} may read the value here from before the store at {}",
    "Call __threadfence() between what the store says is done and the store, and behind this "
    "load"};
// Crashes.
inline constexpr Mistake kCrashDivision{"{} divides a whole number by zero", "Look at it before"};
inline constexpr Mistake kCrashInstruction{
    "{} runs into what is no instruction", "Does each function return a value?"};
inline constexpr Mistake kCrashNull{
    "{} uses a null pointer", "What a problem lacks is null: look before the access"};
inline constexpr Mistake kCrashStack{
    "{} needs more than {} KiB for its local variables",
    "Is an array too large, or an index beyond it, or does a function call itself?"};
inline constexpr Mistake kCrashAddress{
    "{} uses an address that is nobody's",
    "Is a pointer or an index not what it should be, or its memory freed before?"};

}  // namespace mistakes

}  // namespace rmsnorm::cpu_device
