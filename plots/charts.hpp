#pragma once
/// \file
/// All charts: of the lessons' results, of what peers.py measured, of what limits a kernel, of a
/// GPU's memories, and of the CPU device's counts.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/records/machine_row.hpp"
#include "common/records/result.hpp"
#include "common/records/trace_csv.hpp"
#include "plots/chart.hpp"
#include "plots/limits.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {

// --- the results, a bar for each implementation

/// The name of a condition's chart: "progression_prefill", and "progression_decode_warm" where the
/// regime was timed in more than one state of the cache.
std::string progression_name(const std::vector<Result>& results, const Condition& condition);

/// The chart of one condition, from the results of one operation: a bar for each implementation
/// that was timed, a word for one that was not. Its title is the largest step of the ladder
/// or, where none is large, the whole of it.
Chart progression_chart(const std::vector<Result>& results, const Condition& condition);

/// What a row costs, as the ladder counts it.
enum class Counted { sectors, requests, wavefronts, barriers };

/// What a lesson's chart compares: the lesson with an earlier one or a variant, where its idea
/// shows. `compared` chooses the types, as it does for predictions.
struct Rung {
  const char* lesson;
  const char* before;
  const char* regime;
  Cache cache = Cache::cold;
  const char* idea = nullptr;  ///< in few words; without it, the ladder's chart leaves it out
  Counted about = Counted::sectors;
};

/// The lessons whose pages have a chart of their own.
inline constexpr Rung kRungs[] = {
    {"02_naive", "02_naive/thread_per_row", "prefill", Cache::cold, "neighbours read neighbours"},
    {"03_shared_memory", "02_naive", "prefill", Cache::cold, "x is read once"},
    {"04_warp_reduce", "03_shared_memory", "decode", Cache::warm, "shuffles, not barriers",
     Counted::barriers},
    {"05_cub_warp_reduce", "04_warp_reduce", "decode", Cache::warm, "CUB's warp reduction",
     Counted::wavefronts},
    {"06_float4", "05_cub_warp_reduce", "decode", Cache::cold, "vectors of 16 bytes",
     Counted::requests},
    {"07_multi_row", "06_float4", "heads", Cache::cold, "rows share a block", Counted::barriers},
    {"08_registers", "07_multi_row", "decode", Cache::warm, "the row in registers",
     Counted::wavefronts},
    {"09_cache_policy", "08_registers", "prefill", Cache::cold, "the L2 evicts x last"},
    {"10_half_precision", "09_cache_policy", "prefill", Cache::cold, "16 bits instead of 32"},
    {"11_unaligned_rows", "10_half_precision", "heads", Cache::cold, "rows at any address"},
    {"12_launch_overlap", "10_half_precision", "decode", Cache::cold, "launches overlap"},
    {"13_residual_add", "13_residual_add/two_kernels", "prefill", Cache::cold,
     "sum and norm in one"},
    {"14_backward", "14_backward/two_passes", "backward", Cache::cold, "gradients in one pass"},
    {"15_clusters", "12_launch_overlap", "wide", Cache::cold, "blocks share a row"},
    {"16_eight_bits", "10_half_precision", "prefill", Cache::cold, "8 bits, a scale per row"},
    {"17_several_gpus", "17_several_gpus/apart", "decode"},
};

/// A lesson's chart: the lesson, what it is compared with and its variants in colour, the lessons
/// before it and the library in grey. Later lessons have predictions of their own, and are left
/// out. Nothing if the two were not timed.
std::optional<Chart> lesson_chart(const std::vector<Result>& results, const Rung& rung);

// --- sweeps

/// What changes along a sweep's x axis.
struct Sweep {
  const char* name;  ///< of the chart
  const char* regime;
  std::int64_t Result::*x;  ///< rows or hidden
  const char* x_name;
  const char* unit;         ///< of x, in a sentence
  const char* constant;     ///< what stays the same
  const char* coloured[3];  ///< the implementations in colour; the title compares the first two
  bool has_others = true;   ///< also shows the other lessons, in grey
};

/// The sweep over the number of rows, all of one length.
inline constexpr Sweep kOverRows{
    kRowsSweep,
    kRowsSweep,
    &Result::rows,
    "rows",
    "rows",
    "hidden 4096",
    {"12_launch_overlap", "02_naive", "librmsnorm"}};

/// The sweep over the rows' length, with about the same number of elements everywhere.
inline constexpr Sweep kOverHidden{
    kHiddenSweep,
    kHiddenSweep,
    &Result::hidden,
    "hidden",
    "columns",
    "about 67 million elements",
    {"07_multi_row", "06_float4", "15_clusters"}};

/// The same sweep for a lesson's page: these implementations alone, and no lower part of the axis
/// that they leave empty.
constexpr Sweep of_lesson(
    Sweep sweep, const char* name, const char* first, const char* second, const char* third) {
  return {name,           sweep.regime,           sweep.x, sweep.x_name, sweep.unit,
          sweep.constant, {first, second, third}, false};
}

/// All charts of sweeps.
inline constexpr Sweep kSweeps[] = {
    kOverRows,
    kOverHidden,
    of_lesson(
        kOverHidden, "lesson_02_naive_hidden", "02_naive/thread_per_row", "02_naive", "librmsnorm"),
    of_lesson(kOverHidden, "lesson_07_multi_row_hidden", "07_multi_row", "06_float4", "librmsnorm"),
    of_lesson(
        kOverRows, "lesson_09_cache_policy_rows", "09_cache_policy", "09_cache_policy/none",
        "08_registers"),
    of_lesson(
        kOverHidden, "lesson_10_half_precision_hidden", "10_half_precision", "09_cache_policy", ""),
    of_lesson(
        kOverHidden, "lesson_15_clusters_hidden", "15_clusters", "12_launch_overlap",
        "15_clusters/cluster_sync"),
};

/// Bandwidth along a sweep in % of the roof's, a line for each implementation; nothing if no time
/// was measured. With `l2_mib`, a mark shows where x and y fill the L2.
std::optional<Chart> sweep_chart(
    const std::vector<Result>& results, const Sweep& sweep, std::optional<double> l2_mib);

/// The largest error along a sweep: of what runs on the CPU, with the bound to keep, and a band for
/// all kernels of the GPU. Nothing if the results lack either.
std::optional<Chart> error_chart(const std::vector<Result>& results, const Sweep& sweep);

// --- what peers.py measured

/// Bandwidth over the rows' length, forward in bf16 where it is a power of two: a line for each
/// implementation. The title compares ours with the best of the others. Nothing if no such case was
/// timed.
std::optional<Chart> peers_forward_chart(const std::vector<Result>& results);

/// The time of a launch where rows are few, a dot for each implementation. Nothing if no such case
/// was timed.
std::optional<Chart> peers_decode_chart(const std::vector<Result>& results);

/// The share of the roof's bandwidth in all other cases, but those in 8 bits, in dots. Nothing if
/// there are none.
std::optional<Chart> peers_other_chart(const std::vector<Result>& results);

// --- what limits a kernel

/// What kernels reach over what they have in flight: a dot for each in each regime, in fp32 and
/// bf16, and Little's law with the shortest time of all. Nothing if there are none. The chart
/// points to what they point to.
std::optional<Chart> bytes_in_flight_chart(const std::vector<Limit>& limits);

/// The same over the instructions that they need, and what the SMs can issue. Likewise.
std::optional<Chart> roofline_chart(const std::vector<Limit>& limits);

// --- a GPU's memories

/// How long a load takes over its working set, with the levels that are L1, L2 and DRAM.
/// \throws std::runtime_error as levels_of does
Chart latency_chart(const std::vector<MachineRow>& rows);

/// The bandwidth of L2 and DRAM over the bytes in flight of an SM, and Little's law with the
/// latency of a load that is alone.
/// \throws std::runtime_error as levels_of, reach_of and sms_of do
Chart in_flight_chart(const std::vector<MachineRow>& rows);

// --- the CPU device's counts

/// The ladder: what each step is about, and what that count was before it, a bar for each lesson.
/// Nothing if no lesson was counted together with what it starts from. A `card` shows less.
std::optional<Chart> ladder_chart(const std::vector<TraceRow>& trace, bool is_card = false);

}  // namespace rmsnorm::plots
