#include "common/cpu_device/watch/sentences.hpp"

#include <fmt/args.h>
#include <fmt/format.h>

#include <iterator>
#include <variant>

#include "common/cpu_device/runtime/source_lines.hpp"

namespace rmsnorm::cpu_device {
namespace {

using enum Mistake;

constexpr const char* kSameForAll =
    "Every thread of a block has to reach the same __syncthreads(): take it out of the branch, or "
    "let the threads that have nothing to do come along";
constexpr const char* kSameForWarp =
    "The threads of a warp have to reach the same bar.sync or bar.arrive: let whole warps take a "
    "branch, or take it out";
constexpr const char* kMask =
    "Let all lanes that the mask names make this call, or name in it only those that do: "
    "0xffffffff is for code that the whole warp reaches";
constexpr const char* kNumbersAgree = "A GPU refuses such a launch: let the numbers agree";
constexpr const char* kBytesAgree =
    "Let the barrier expect as many bytes as are copied or stored with it";
constexpr const char* kReachAll = "Every thread of every block has to reach each cluster barrier";
constexpr const char* kCompare = "Compare the index with the size before the access";
constexpr const char* kInput =
    "It is an input: others may read it at the same time, and want it unchanged";
constexpr const char* kBarrier = "Put __syncthreads() between the two";
constexpr const char* kRaceInBlock =
    "a race: thread {} {} {} here, thread {} {} it at {}, and no barrier is between them";
constexpr const char* kRaceOfBlocks =
    "a race: this block {} {} here, another {} it at {}, and nothing orders the two";

constexpr Sentence kSentences[] = {
    // Threads that meet.
    {other_barrier, "thread {} waits at this __syncthreads(), and thread {} at another, at {}",
     kSameForAll},
    {other_call_of_barrier,
     "thread {} waits at this __syncthreads(), called at {}, and thread {} at the same, called at "
     "{}",
     kSameForAll},
    {other_named_barrier,
     "thread {} comes to this barrier, and thread {} of its warp at another, at {}", kSameForWarp},
    {other_call_of_named_barrier,
     "thread {} comes to this barrier, called at {}, and thread {} of its warp at the same, called "
     "at {}",
     kSameForWarp},
    {returned_before_barrier, "thread {} has returned, and {} for it at this __syncthreads()",
     kSameForAll},
    {unnamed_lane, "thread {} calls {} with a mask, {}, that does not name its own lane, {}",
     kMask},
    {other_meeting,
     "lane {} of warp {} meets lane {} here, which is in another call ({}, mask {}, at {}) than "
     "its "
     "own ({}, mask {})",
     kMask},
    {returned_lanes, "the mask of this shuffle names {} of warp {}, which {} returned", kMask},
    {absent_source,
     "lane {} of warp {} takes a value from lane {}, which takes no part in this shuffle",
     "Take a value only from a lane that makes this call, too, and that its mask names"},
    {distance, "lane {} shuffles over a distance of {}, which leaves the warp",
     "A warp has 32 lanes, so distances are 0 to 31: sums of more threads go through shared "
     "memory"},
    {deadlock, "lane {} of warp {} waits in {} for {}, which never {}", kMask},
    {deadlock_at_barrier,
     "lane {} of warp {} waits in {} for {}, which never {}: lane {} waits at the __syncthreads() "
     "at {}",
     kMask},
    // The launch is not what the kernel is made for.
    {launch_bounds,
     "the launch has {} threads in a block, and the kernel's __launch_bounds__ promise {} at most",
     kNumbersAgree},
    {cluster_dims,
     "the kernel's __cluster_dims__ ask for clusters of {} blocks, and the launch has {}",
     kNumbersAgree},
    // Barriers that count.
    {no_count,
     "thread {} arrives at a barrier that does not know yet how many threads it waits for",
     "Let one thread call init(&barrier, threads), and put __syncthreads() behind it"},
    {no_arrival, "thread {} waits at a barrier for {} threads, of which {} never arrive",
     "Let as many threads arrive as the barrier expects"},
    {bytes_never_come, "thread {} waits at a barrier for {} bytes that never come", kBytesAgree},
    {bytes_not_expected,
     "thread {} waits at a barrier to which {} bytes came that it does not expect", kBytesAgree},
    {bulk_size, "thread {} copies {} bytes, which are no multiple of {}",
     "cp.async.bulk moves whole vectors of 16 bytes: copy the rest in another way"},
    {left_before_transfer,
     "a {} into shared memory of block {}{} is on its way when that has returned",
     "Let the block wait at the barrier that counts its bytes"},
    // Clusters.
    {arrives_twice, "thread {} arrives at the cluster barrier twice",
     "Between two arrivals, a thread has to wait"},
    {waits_without_arrival, "thread {} waits at a cluster barrier where it has not arrived",
     "Let it arrive first"},
    {block_returned,
     "block {} of the cluster has returned, and others wait for it at this cluster barrier",
     kReachAll},
    {never_arrives, "thread {} waits at a cluster barrier for threads that never arrive",
     kReachAll},
    {left_before_access,
     "a thread of block {} of the cluster {} shared memory of block {}, which may have returned",
     "A block's shared memory ends with it: let all wait at a cluster barrier behind the last "
     "access"},
    {not_begun, "thread {} {} shared memory of block {} of the cluster, which may not have begun",
     "Let all blocks of the cluster wait at a cluster barrier first"},
    // Shared memory.
    {no_room,
     "'{}' makes {} bytes of __shared__ variables, and {} bytes are dynamic: a block has {} bytes "
     "for variables and {} in all",
     "Take less, or take it in turns"},
    {storage_beyond, "thread {} reduces with a TempStorage that is beyond {}",
     "Compare the index with the size of the array"},
    {storage_outside, "thread {} reduces with a TempStorage that is not in shared memory",
     "Declare it __shared__: the threads exchange their values through it"},
    {storage_of_two_warps,
     "warp {} uses the TempStorage {} here, warp {} uses it at {}, and no barrier is between them",
     "Give each warp a TempStorage of its own, or put __syncthreads() between the two"},
    // Where a thread loads and stores.
    {index_beyond, "thread {} uses index {} of an array of type {}", kCompare, true},
    {outside_shared, "thread {} {} {} bytes, {}", kCompare},
    {outside_dynamic, "thread {} {} {} bytes, {}",
     "Its size in bytes is the third argument between <<< and >>>: compare the index with it"},
    {misaligned_shared,
     "thread {} {} {} bytes of shared memory at {}, at an address that is no multiple of {}",
     "Move {2} bytes at once only from and to multiples of {2}"},
    {outside_global, "thread {} {} {} bytes{}", kCompare},
    {misaligned_global, "thread {} {} {} bytes of {} at an address that is no multiple of {}",
     "A {2}-byte access needs a {2}-byte address, in every row: say that the problem is "
     "unsupported, or move single elements"},
    {null_pointer, "thread {} {} {} bytes through a null pointer",
     "What a problem lacks is null: look before the access"},
    {memory_of_host, "thread {} {} {} bytes of the host's memory",
     "A kernel's pointers lead to what cudaMalloc gave: a copy has to be there"},
    {variable_of_host, "thread {} {} {}, a variable of the host",
     "Make it a __device__ or __constant__ variable, a constant or an argument"},
    {input_written, "thread {} {} {}", kInput},
    {input_filled, "a copy or a memset changes {}", kInput},
    {unwritten_shared, "thread {} reads {}, which no thread of this block has written before",
     "Shared memory begins with no value: let a thread write it first", true},
    {unwritten_global, "thread {} reads {}, which no thread has written before",
     "An output or a workspace begins with no value: write it first", true},
    {stale_read_only,
     "thread {} reads {} through the cache of what never changes, but this launch wrote it at {}",
     "__ldg() is for what no thread of the launch writes: read it without"},
    {no_wait,
     "thread {} {} {} bytes of {} before cudaGridDependencySynchronize(): the kernel before may "
     "still be {} it",
     "The launch may overlap the one before it: let the thread wait first"},
    {host_access, "the host's code {} {}, which is in the device's memory",
     "Let a kernel do it, or hand over what the host needs as an argument"},
    {freed_before_use, "{} begins when its memory has been freed",
     "Free it behind that, on the same stream: cudaFreeAsync()"},
    // Races.
    {race_in_block, kRaceInBlock, kBarrier},
    {stores_in_block, kRaceInBlock,
     "Let one of the threads write it, or give each an element of its own"},
    {race_in_cluster, kRaceOfBlocks, "Put a barrier of the cluster between the two"},
    {race_of_blocks, kRaceOfBlocks,
     "Blocks run in any order, also at the same time: use a second launch or, to hand a value on, "
     "write it, call __threadfence(), and then change a flag that the other block reads, both "
     "atomically"},
    {stores_of_blocks, kRaceOfBlocks,
     "Blocks run in any order, also at the same time: give each memory of its own, or add with "
     "atomicAdd()"},
    {atomic_of_block, kRaceOfBlocks,
     "What ends in _block, or has its scope, is atomic for the threads of one block alone"},
    // Crashes.
    {crash_division, "{} divides a whole number by zero", "Look at it before"},
    {crash_instruction, "{} runs into what is no instruction",
     "Does each function return a value?"},
    {crash_null, "{} uses a null pointer", "What a problem lacks is null: look before the access"},
    {crash_stack, "{} needs more than {} KiB for its local variables",
     "Is an array too large, or an index beyond it, or does a function call itself?"},
    {crash_address, "{} uses an address that is nobody's",
     "Is a pointer or an index not what it should be, or its memory freed before?"},
};

/// Each kind has its sentence, at its number.
constexpr bool is_complete() {
  for (std::size_t i = 0; i < std::size(kSentences); ++i) {
    if (static_cast<std::size_t>(kSentences[i].mistake) != i) return false;
  }
  return std::size(kSentences) == static_cast<std::size_t>(count_);
}
static_assert(is_complete());

std::string text_of(const Word& word) {
  if (const auto* number = std::get_if<std::int64_t>(&word.value)) {
    return fmt::format("{}", *number);
  }
  if (const auto* text = std::get_if<std::string>(&word.value)) return *text;
  if (const auto* location = std::get_if<SourceLocation>(&word.value))
    return place_text(line_of(*location));
  return place_text(line_of_call(std::get<const void*>(word.value)));
}

bool is_place(const Word& word) {
  return std::holds_alternative<SourceLocation>(word.value) ||
         std::holds_alternative<const void*>(word.value);
}

}  // namespace

const Sentence& sentence_of(Mistake mistake) {
  return kSentences[static_cast<std::size_t>(mistake)];
}

std::string worded(const char* text, const std::vector<Word>& words) {
  fmt::dynamic_format_arg_store<fmt::format_context> all;
  for (const Word& word : words) all.push_back(text_of(word));
  return fmt::vformat(text, all);
}

std::string places_in(const std::vector<Word>& words) {
  std::string places;
  for (const Word& word : words) {
    if (is_place(word)) places += " " + text_of(word);
  }
  return places;
}

}  // namespace rmsnorm::cpu_device
