/// \file
/// ./rmsnorm check cannot be fooled: it rejects every kernel in tests/mutants, each for the right
/// reason, and no lesson.

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/files.hpp"
#include "common/contract/registry.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/records/result.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/gpu_support.hpp"
#include "tests/repository.hpp"

namespace fs = std::filesystem;
using namespace rmsnorm;
using namespace tests;

namespace {

/// Whether a device can show a mistake.
enum class Shows {
  always,
  not_run,         ///< no problem leads there, and that is said
  beyond_32_bits,  ///< if there is memory for more than 2^31 elements
  at_times,        ///< a GPU shows what comes of it, which depends on who comes first
  never,           ///< a GPU tells neither which lines have run nor what a launch asks of it
};

/// How a mistake shows on one device.
struct Symptom {
  std::string says;         ///< how the complaint begins, or a part of it; see below
  std::string on = {};      ///< the first problem that shows it, if it is always the same
  std::string advice = {};  ///< of the CPU device, if no mistake was seen that explains the result
  Shows shows = Shows::always;
};

struct Mutant {
  std::string name;
  Symptom on_cpu;
  Symptom on_gpu = on_cpu;
};

const std::string kFirst = "row 0, column 0: expected ";
const std::string kFirstUnwritten = "row 0, column 0 was not written (expected ";
const std::string kRefused = "the launch failed: invalid configuration argument";
const std::string kRefusedByGpu = "the launch failed: invalid ";
const Symptom kUnseen = {"", "", "", Shows::at_times};
const Symptom kNever = {"", "", "", Shows::never};
const Symptom kLineNotRun = {
    "NOT CHECKED  MISTAKE was never run by any of ", "", "", Shows::not_run};
const std::string kLarge = "8264705 x 520, of which few blocks ran";
const std::string kNoMistakeSeen = "no mistake was seen on the way: ";
const std::string kBound =
    kNoMistakeSeen + "is an index or a bound of a loop off, or the formula wrong?";
const std::string kUnset = kNoMistakeSeen + "is a variable read before it is written?";
const std::string kOwn = kUnset + " One without __shared__ is each thread's own";
const std::string kShared =
    kNoMistakeSeen +
    "threads meet at a __syncthreads() and share no memory: is a __shared__ missing?";
const std::string kSumOfInf =
    "a sum of this row is Inf, for which the formula gives 0 here; NaN comes of Inf - Inf, as in a "
    "sum with a correction (Kahan, Welford), or of 0 * Inf";

// "MISTAKE" stands for "tests/mutants/NAME.edit:5", the line with the mark "// <-- mistake"; "SEEN"
// and "OTHER" likewise.
const Mutant kMutants[] = {
    {"array_of_4096_rows",
     {"MISTAKE: thread 0 uses index 4096 of an array of type 'float [4096]'", "4097 x 128"},
     kUnseen},
    {"array_too_short",
     {"SEEN: thread 64 writes 4 bytes, 1 element past the end of staged (320 elements)", "2 x 321"},
     {"row 0, column 320: expected ", "2 x 321"}},
    {"backward_adds_mean", {"dx's row 0, column 0: expected ", "1 x 4", kBound}},
    {"backward_atomics",
     {"the second launch left other bits in dx and dweight than the first", "3 x 4"},
     {"the second launch left other bits in dx and dweight than the first", "", "",
      Shows::at_times}},
    {"backward_forgets_bias", {"dx's row 0, column 0: expected ", "3 x 4, fp32, 1 + the weight"}},
    {"backward_forgets_mean", {"dx's row 0, column 0: expected ", "1 x 4", kBound}},
    {"backward_forgets_rstd", {"dweight's column 0: expected ", "1 x 4", kBound}},
    {"backward_last_block", {"dweight's column 0: expected ", "1 x 4", kOwn}},
    {"backward_no_rows", {"dweight's column 0 was not written (expected 0)", "0 x 4", kUnset}},
    {"backward_own_rstd", {"dx's row 0, column 0: expected ", "1 x 4", kBound}},
    {"backward_sum_in_half", {"dweight's column ", "64 x 4096, bf16"}},
    {"backward_warps_in_any_order",
     {"the second launch left other bits in dx and dweight than the first", "65 x 512"},
     {"the second launch left other bits in dx and dweight than the first", "", "",
      Shows::at_times}},
    {"backward_weighs_dweight", {"dweight's column 0: expected ", "1 x 4", kBound}},
    // The CPU device sees the constants and tries numbers between them first.
    {"band_of_numbers", {kFirst}, {kFirst, "9 x 1024, every second row far from 0"}},
    {"between_sizes", {"with 30001 rows, row 0, column 0: expected ", kLarge}, kNever},
    {"bias_in_half", {"row 0, column 3: expected ", "3 x 128, bf16, 1 + the weight"}},
    {"changes_x",
     {"MISTAKE: thread 0 writes x[0]", "1 x 1"},
     {"changed memory outside y", "1 x 1"}},
    {"claims_few", {"row ", "9 x 1024, one number in every row"}},
    {"claims_many", {kFirst, "1 x 1", kBound}},
    {"claims_too_many",
     {"sum_depth() claims 1048576 additions for the sum of a row, which has 1 terms", "0 x 1"}},
    {"clips_y", {"row 0, column "}},
    {"cluster_leaves_early",
     {"MISTAKE: a thread of block 1 of the cluster writes shared memory of block 0, which may have "
      "returned",
      "2 x 20000"},
     kUnseen},
    {"cluster_no_first_barrier",
     {"MISTAKE: thread 1 writes shared memory of block 1 of the cluster, which may not have begun",
      "2 x 20000"},
     kUnseen},
    {"cluster_no_second_barrier",
     {"MISTAKE: a race: thread 32 writes partial[1] here, thread 1 reads it at OTHER, and no",
      "2 x 20000"},
     kUnseen},
    {"cluster_own_block",
     {"SEEN: thread 10 reads partial[10], which no thread of this block has written before",
      "2 x 20000"},
     kUnseen},
    {"cluster_receivers_place",
     {"MISTAKE: a race: this block writes partial[0] of another block here, another writes it at",
      "2 x 20000"},
     kUnseen},
    {"cluster_same_part", {kFirst, "2 x 20000", kBound}},
    {"cluster_skips_every_test",
     {"MISTAKE: thread 260 reads 16 bytes, 1 element past the end of x (40000 elements)",
      "2 x 20000"},
     {": expected "}},
    {"columns_of_16_bits", {"row 0, column 65536 was not written (expected ", "2 x 65544", kOwn}},
    {"copies_null",
     {"the launch failed: invalid argument (MISTAKE: cudaMemcpyAsync(): the source is a null "
      "pointer)",
      "1 x 1"},
     {kRefusedByGpu}},
    {"corrects_sum",
     {"row 0, column 1: expected 0, got nan", "9 x 1024, an Inf in every third row", kSumOfInf}},
    {"crashes_later",
     {"MISTAKE: thread 0 uses a null pointer (kernel rms_norm_warp_reduce, block 0, thread 0)",
      "1 x 1"},
     {"the kernel: an illegal memory access was encountered"}},
    {"crashes_on_host", {"MISTAKE: the host's code uses a null pointer. ", "1 x 1"}, kUnseen},
    {"default_seed", {kFirst, "7 x 37, seed 0"}},
    {"default_stream",
     {"the launch puts work on another stream than the one that it is given", "1 x 1"},
     kUnseen},
    {"eight_bits_first_vector", {"scale's row 1, column 0: expected ", "3 x 256", kBound}},
    {"eight_bits_idle_rows", {"the end of scale", "1 x 4"}},
    {"eight_bits_largest_of_warp", {"scale's row 0, column 0: expected ", "1 x 1000", kBound}},
    {"eight_bits_no_limit", {"scale's row 0, column 0: expected ", "1 x 4", kBound}},
    {"eight_bits_no_weight", {"scale's row 0, column 0: expected ", "1 x 32", kBound}},
    {"eight_bits_one_array",
     {"MISTAKE: a race: thread 0 writes partial[0] here, thread 32 reads it at OTHER, and no",
      "1 x 1000"},
     kUnseen},
    {"eps_hard_coded", {kFirst, "7 x 37, eps 0"}},
    {"eps_has_floor", {kFirst, "9 x 1024, eps 0, every row small"}},
    {"eps_in_sum", {kFirst, "1 x 2", kBound}},
    {"eps_missing", {kFirst, "1 x 1", kBound}},
    {"eps_of_5120", {kFirst, "1 x 5120, eps 0.01"}, kNever},
    {"eps_on_root", {kFirst, "1 x 1", kBound}},
    {"falls_back", {"row 0, column 0: expected "}, kNever},
    {"far_out_of_bounds",
     {"MISTAKE: thread 0 reads 4 bytes, 42949", "1 x 1"},
     {"mutant/far_out_of_bounds: the kernel: an illegal memory access was encountered"}},
    // A GPU's logarithm loses more digits than the fp32 logarithm of the CPU device.
    {"fast_power",
     {"row 2, column 0: expected ", "9 x 1024, every second row large"},
     {kFirst, "7 x 37, eps 1e+30"}},
    {"first_launch_only", {"(at the second launch; the first was right)", "1 x 1"}},
    {"forgets_bias", {kFirst, "3 x 4, fp32, 1 + the weight"}},
    {"forgets_weight", {kFirst, "1 x 1", kBound}},
    {"grid_of_no_blocks", {kRefused, "0 x 1"}, {kRefusedByGpu, "0 x 1"}},
    {"half_lanes", {kFirst, "1 x 31", kBound}},
    {"half_mask",
     {"MISTAKE: lane 0 of warp 0 takes a value from lane 16, which takes no part in this shuffle",
      "1 x 1"},
     kUnseen},
    {"hidden_plus_one", {kFirst, "1 x 1", kBound}},
    {"host_reads_weight",
     {"MISTAKE: the host's code reads weight, which is in the device's memory", "1 x 1"},
     kUnseen},
    {"keeps_pointers", {"(at the second launch; the first was right)", "1 x 1"}},
    {"keeps_residual", {"residual's row 0, column 0: expected ", "1 x 4", kBound}},
    {"keeps_weight", {"(at the second launch; the first was right)", "1 x 1"}},
    {"large_blocks_on_large_gpus",
     {"SEEN: thread 256 writes 4 bytes, 1 element past the end of partial (8 elements)",
      "3 x 1, on 132 multiprocessors"},
     kUnseen},
    {"last_column_again", {kFirst, "1 x 1", kBound}},
    {"last_partial_warp", {kFirst, "1 x 1", kBound}},
    {"last_row", {"row 64, column 0 was not written (expected ", "65 x 4", kUnset}},
    {"layer_norm", {kFirst, "1 x 1", kOwn}},
    {"leaks", {"each launch allocates memory that nobody frees", "1 x 1"}, kUnseen},
    {"leaks_events", {"each launch makes a stream or an event", "1 x 1"}, kUnseen},
    {"loses_error", {"an error that a call before the launch had left is lost", "1 x 1"}, kNever},
    {"mixes_rows", {kFirst, "3 x 4", kBound}},
    {"multiples_of_128",
     {"SEEN: thread 1 reads 4 bytes, 1 element past the end of x (1 element)", "1 x 1"},
     {kFirst, "1 x 1"}},
    {"nan_at_3333",
     {"row 0, column 0: expected nan, got 0", "1 x 3333, eps 0.01, a NaN in one row"},
     kNever},
    {"neighbour_weight", {kFirst, "1 x 2", kBound}},
    {"next_row",
     {"MISTAKE: thread 1 writes 4 bytes, 1 element past the end of y (1 element)", "1 x 1"},
     {"wrote 31 elements after the end of y, the first at y[rows * hidden + 0]", "1 x 1"}},
    {"next_row_times_zero", {"row 0, column 0: expected ", "9 x 1024, NaN in every odd row"}},
    {"no_barrier_after_partial",
     {"MISTAKE: a race: thread 32 writes partial[1] here, thread 1 reads it at OTHER, and no",
      "1 x 1"},
     kUnseen},
    {"no_barrier_before_reuse",
     {"MISTAKE: a race: thread 0 writes partial[0] here, thread ", "3 x 1"},
     kUnseen},
    {"no_power_of_two", {kFirst, "1 x 3", kBound}},
    {"norms_rounded_sum", {"row 0, column ", "64 x 4096, bf16"}},
    {"offset_32_bit",
     {"with 5000011 rows, SEEN: thread 0 reads 4 bytes, 2019962616 elements before the start of x",
      kLarge},
     {"mutant/offset_32_bit: the kernel: an illegal memory access was encountered", "", "",
      Shows::beyond_32_bits}},
    {"offset_unsigned", {": expected ", kLarge}, kNever},
    {"one_bit_pattern", kLineNotRun, kNever},
    {"one_column_too_many",
     {"SEEN: thread 1 reads 4 bytes, 1 element past the end of x (1 element)", "1 x 1"},
     {kFirst, "1 x 1"}},
    {"only_x_aligned",
     {"SEEN: thread 26 reads 16 bytes of weight at an address that is no multiple of 16",
      "7 x 1000, with tensors that begin 0, 1, 2, ... elements behind a 16-byte boundary"},
     {"mutant/only_x_aligned: the kernel: misaligned address"}},
    {"only_y_unaligned",
     {"SEEN: thread 26 writes 16 bytes of y at an address that is no multiple of 16",
      "3 x 1024, with y alone 4 bytes behind a 16-byte boundary"},
     {"mutant/only_y_unaligned: the kernel: misaligned address"}},
    {"own_array",
     {"MISTAKE: thread 0 uses index 4 of an array of type 'float [4]'", "1 x 1025"},
     kUnseen},
    {"own_total", {"row 0, column 32: expected ", "1 x 33", kOwn}, kUnseen},
    {"own_tree", {kFirst, "1 x 1", kShared}, kUnseen},
    {"puts_x_back", {"MISTAKE: thread 0 writes x[0]", "1 x 1"}, kUnseen},
    {"reuses_pinned",
     {"(at the second launch, with another behind it on the stream; the first was right)", "3 x 1"},
     kUnseen},
    {"rounds_before_weight", {"row 0, column ", "64 x 4096, bf16"}},
    {"rounds_to_bf16", {kFirst, "1 x 1", kBound}},
    {"rows_and_columns", {kFirst}, kNever},
    {"rows_in_grid_y",
     {kRefused, kLarge},
     {"the launch failed: invalid", "4194305 x 513", "", Shows::beyond_32_bits}},
    {"rows_of_16_bits",
     {"row 8264704 was not written: the last blocks do that where there are 30001 rows", kLarge},
     {"row 65536, column 0 was not written (expected ", "4194305 x 513", "",
      Shows::beyond_32_bits}},
    {"rows_of_a_full_grid",
     {"with 30001 rows, SEEN: a race: thread 0 writes partial[0] here, thread ", kLarge},
     kUnseen},
    {"scratch_in_y", {"MISTAKE: a race: thread 1 reads y[0] here", "1 x 2"}, {": expected "}},
    {"sets_weight", {"a copy or a memset changes weight. ", "1 x 1"}, kUnseen},
    {"sizes_by_hash", kLineNotRun, kNever},
    {"skips_zeros",
     {"row 0, column 0: expected nan, got 0",
      "9 x 1024, zeros in every second row and every third weight NaN"}},
    {"sum_in_fp16", {"row 3, column 0: expected ", "65 x 4096", kOwn}},
    {"sum_in_half", {"row 0, column ", "64 x 4096, bf16"}},
    {"swallows_nan", {"row 7, column 0: expected nan, got ", "9 x 1024, a NaN in one row"}},
    {"swaps_halves", {kFirst, "64 x 4096, bf16"}},
    {"table_of_sizes", {kFirst}, kNever},
    {"tail_of_vectors", {kFirstUnwritten, "1 x 1", kOwn}},
    {"too_many_threads", {kRefused, "1 x 1"}, {kRefusedByGpu, "1 x 1"}},
    {"truncates", {"row 0, column ", "64 x 4096, bf16"}},
    {"trusts_active_mask",
     {"SEEN: lane 0 of warp 0 takes a value from lane 16, which takes no part in this shuffle",
      "1 x 1"},
     kUnseen},
    {"two_barriers",
     {"OTHER: thread 28 waits at this __syncthreads(), and thread 27 at another, at MISTAKE",
      "1 x 1"},
     kUnseen},
    {"unset_shared_memory",
     {"MISTAKE: thread 0 reads partial[0], which no thread of this block has written before",
      "1 x 1"},
     {": expected "}},
    {"unset_sum", {kFirst, "1 x 1", kOwn}, kUnseen},
    {"vectors_at_any_address",
     {"SEEN: thread 0 reads 16 bytes of x at an address that is no multiple of 16",
      "3 x 4, with tensors that begin 4 bytes behind a 16-byte boundary"},
     {"mutant/vectors_at_any_address: the kernel: misaligned address"}},
    {"waits_for_nobody", {kFirst, "1 x 1"}, kUnseen},
    {"waits_for_stream", {"the launch waits for the device: ", "1 x 1"}, kUnseen},
    {"waits_in_two_branches",
     {"MISTAKE: thread 0 waits at this __syncthreads(), called at OTHER, and thread 27 at the "
      "same, called at SEEN",
      "1 x 1"},
     kUnseen},
    {"weight_of_x_type", {kFirst, "64 x 4096, fp16/fp32"}},
    {"writes_nan", {"nan, off by nan", "1 x 1", kOwn}},
    {"writes_nothing", {kFirstUnwritten, "1 x 1", kUnset}},
    {"wrong_above_5000", {kFirst}, kNever},
    {"wrong_for_525", {kFirst, "2 x 525", kBound}},
    {"wrong_for_777_rows", {kFirst, "777 x 128, eps 0.01"}, kNever},
    {"zero_weight", {"row 0, column 0: expected nan, got 0", "9 x 1024, NaN in every even row"}},
};

/// The edit of a lesson that makes it.
std::string file_of(const Mutant& mutant) {
  return "tests/mutants/" + mutant.name + ".edit";
}

/// The text with "FILE:LINE" for each name of a mark.
std::string with_places(std::string text, const Mutant& mutant) {
  const std::vector<std::string> lines = lines_of(top() / file_of(mutant));
  for (const auto& [name, mark] :
       {std::pair("MISTAKE", "// <-- mistake"), std::pair("SEEN", "// <-- seen"),
        std::pair("OTHER", "// <-- other")}) {
    const std::size_t at = text.find(name);
    if (at == text.npos) continue;
    const auto has_mark = [&](const std::string& line) { return line.ends_with(mark); };
    REQUIRE(std::count_if(lines.begin(), lines.end(), has_mark) == 1);
    const auto line = std::find_if(lines.begin(), lines.end(), has_mark) - lines.begin() + 1;
    text.replace(at, std::string(name).size(), file_of(mutant) + ":" + std::to_string(line));
  }
  return text;
}

/// Checks that the mutant is rejected as the table says, or comes through where it says so.
void check(const Mutant& mutant) {
  const Symptom& expected = is_cpu_device() ? mutant.on_cpu : mutant.on_gpu;
  if (expected.shows == Shows::beyond_32_bits && !fits_on_gpu(4194305, 513)) return;
  // A kernel that hangs is ended. The problems before the first that shows it would take long.
  std::vector<std::string> command = {
      "timeout", "300", RMSNORM_CHECK_PROGRAM, "mutant/" + mutant.name};
  if (!expected.on.empty()) command.insert(command.end(), {"--only", expected.on});
  const Finished finished = run(command);
  INFO(finished.out << finished.err);
  const std::string said = on_one_line(finished.out);
  const std::string says = on_one_line(with_places(expected.says, mutant));
  if (expected.shows == Shows::at_times) {
    CHECK(finished.exit_code != kBadUsage);
  } else if (expected.shows == Shows::never) {
    CHECK(finished.exit_code == kAllVerified);
  } else if (expected.shows == Shows::not_run) {
    CHECK(finished.exit_code == kNotChecked);
    CHECK_THAT(said, contains(says) && !contains("PASS"));
    CHECK_THAT(said, contains(" problems else right on "));
  } else {
    CHECK(finished.exit_code == kLessonWrong);
    // "SLUG  FAIL  on 3 x 5:", then the complaint; without the first if the GPU is lost.
    REQUIRE(lines_in(finished.out).size() >= 2);
    const std::string complaint =
        said.substr(std::min({said.find(" FAIL on "), said.find("FAIL mutant/"), said.size()}));
    const std::size_t at = complaint.find(says);
    INFO("it has to say: " << says);
    REQUIRE(at != complaint.npos);
    // In the first of the device's complaints: each ends with the kernel and an advice.
    CHECK_THAT(complaint.substr(0, at), !contains(" (kernel ") && !contains(kNoMistakeSeen));
    if (!expected.on.empty()) CHECK(complaint.starts_with(" FAIL on " + expected.on + ":"));
    if (!is_cpu_device()) return;
    if (expected.advice.empty()) {
      CHECK_THAT(said, !contains(kNoMistakeSeen));
    } else {
      CHECK_THAT(said + " ", contains(" " + on_one_line(expected.advice) + " "));
    }
  }
}

/// Holds the lessons whose slugs begin so to what the mutants fail. Variants have to do what
/// test_lessons.cpp demands.
void check_what_begins_with(const std::string& begin) {
  NEEDS_GPU();
  if (is_cpu_device()) NEEDS_COUNTS();
  std::set<std::string> slugs;
  for (const Implementation& lesson : all_implementations()) {
    const std::string slug = lesson.slug;
    if (!is_variant(slug) && slug.starts_with(begin)) slugs.insert(slug);
  }
  REQUIRE(!slugs.empty());
  for (const std::string& slug : slugs) {
    const Finished finished = run({RMSNORM_CHECK_PROGRAM, slug});
    CAPTURE(slug, finished.out, finished.err);
    CHECK(finished.exit_code == kAllVerified);
    CHECK_THAT(finished.out, contains(" PASS  on "));
  }
}

}  // namespace

TEST_CASE("check rejects every mutant for the right reason") {
  NEEDS_GPU();
  if (is_cpu_device() && !can_watch()) SKIP_TEST("this build cannot watch kernels");
  for (const Mutant& mutant : kMutants) {
    DYNAMIC_SECTION(mutant.name) {
      check(mutant);
    }
  }
}

TEST_CASE("check accepts every twin of a mutant, which does as much and is right", "[whole]") {
  NEEDS_GPU();
  int twins = 0;
  for (const fs::directory_entry& file : fs::directory_iterator(top() / "tests" / "twins")) {
    const Finished finished = run({RMSNORM_CHECK_PROGRAM, "twin/" + file.path().stem().string()});
    CAPTURE(file.path(), finished.out, finished.err);
    CHECK(finished.exit_code == kAllVerified);
    ++twins;
  }
  CHECK(twins >= 3);
}

TEST_CASE("a check of one problem accepts every twin of a mutant") {
  NEEDS_GPU();
  for (const fs::directory_entry& file : fs::directory_iterator(top() / "tests" / "twins")) {
    const Finished finished =
        run({RMSNORM_CHECK_PROGRAM, "twin/" + file.path().stem().string(), "--only", "64 x 4096"});
    CAPTURE(file.path(), finished.out, finished.err);
    CHECK(finished.exit_code == kAllVerified);
  }
}

TEST_CASE("the pages of lessons 14 and 15 quote what check says of mutants of theirs") {
  const auto says = [](const std::string& name) {
    const auto mutant = std::find_if(
        std::begin(kMutants), std::end(kMutants),
        [&](const Mutant& one) { return one.name == name; });
    REQUIRE(mutant != std::end(kMutants));
    const std::string mark = "MISTAKE: ";
    const std::string& text = mutant->on_cpu.says;
    return "\n" + (text.starts_with(mark) ? text.substr(mark.size()) : text) + "\n";
  };
  const std::string backward = read_file(top() / "lessons/14_backward/README.md");
  CHECK_THAT(backward, contains(says("backward_atomics")));
  CHECK_THAT(
      backward,
      contains("cmake -D EDIT=tests/mutants/backward_atomics.edit -D COPY=build/atomics.cu "
               "-P tests/edits.cmake\n"
               "./rmsnorm check build/atomics.cu --device cpu\n"));
  const std::string clusters = read_file(top() / "lessons/15_clusters/README.md");
  CHECK_THAT(
      clusters,
      contains(says("cluster_leaves_early")) && contains(says("cluster_no_first_barrier")));
}

// Three, as each takes minutes.
TEST_CASE(
    "lessons 01 to 09 come through the check, traffic and all, that the mutants fail", "[whole]") {
  check_what_begins_with("0");
}

TEST_CASE(
    "later lessons come through the check, traffic and all, that the mutants fail", "[whole]") {
  check_what_begins_with("1");
}

TEST_CASE(
    "the library comes through the check, but for lines that it has for other layouts and GPUs",
    "[whole]") {
  NEEDS_GPU();
  if (is_cpu_device()) NEEDS_COUNTS();
  const Finished finished = run({RMSNORM_CHECK_PROGRAM, "librmsnorm"});
  CAPTURE(finished.out, finished.err);
  // The harness has contiguous tensors and one device.
  const bool is_right =
      finished.exit_code == kAllVerified || (is_cpu_device() && finished.exit_code == kNotChecked);
  CHECK(is_right);
  CHECK_THAT(finished.out, contains(" PASS  on ") || contains("else right on "));
  CHECK_THAT(finished.out, !contains("FAIL"));
}

TEST_CASE("every file of tests/mutants is a mutant of the table, and vice versa") {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(top() / "tests" / "mutants")) {
    files.push_back("tests/mutants/" + entry.path().filename().string());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> in_table;
  for (const Mutant& mutant : kMutants) in_table.push_back(file_of(mutant));
  CHECK(in_table == files);
}
