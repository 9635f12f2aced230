#pragma once
/// \file
/// What the tests that need a GPU share.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/device.hpp"
#include "common/contract/lesson.hpp"
#include "common/contract/regime.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/measure/gpu.hpp"
#include "common/tensors/workload.hpp"
#include "tests/catch.hpp"

namespace tests {

/// Why no GPU can be used here, or "".
std::string why_no_gpu();

/// How the kernels are called that support long rows alone.
inline constexpr std::string_view kOfLongRows = "15_clusters/";

/// How the kernels are called that know 16 bits only.
inline constexpr std::string_view kOf16Bits = "16_eight_bits/";

/// What a launch may return whose clusters a GPU, or a part of one, does not hold.
inline constexpr cudaError_t kNoClusters[] = {
    cudaErrorInvalidClusterSize, cudaErrorInvalidConfiguration, cudaErrorLaunchOutOfResources,
    cudaErrorNotSupported};

/// The registered implementations that run on a GPU.
std::vector<rmsnorm::Implementation> gpu_implementations();

/// Calls test(implementation, workload) for each of them. There is one workload at a time, for all
/// of an operation, after prepare(workload).
void for_gpu_implementations(
    rmsnorm::WorkloadSpec spec,
    const std::function<void(const rmsnorm::Implementation&, const rmsnorm::Workload&)>& test,
    const std::function<void(const rmsnorm::Workload&)>& prepare = {});

/// Whether the GPU has memory for a problem of this shape now, with so many matrices, or the CPU
/// device the time; says so if not.
bool fits_on_gpu(int rows, int hidden, int matrices = 4);

/// This shape; for the CPU device, and under a tool that says it is slow, with fewer rows, where it
/// would take too long.
rmsnorm::Shape in_time(int rows, int hidden);

/// So many repetitions; a fourth of them for the CPU device, and under such a tool.
int in_time(int repetitions);

/// Checks that the implementation solves the workload's problem, or says why it does not support
/// it, with a sentence that begins with its folder's name. Whether it solved it. A small problem is
/// watched: where the CPU device sees a mistake, it is not solved.
bool solves_or_says_why(
    const rmsnorm::Implementation& implementation, const rmsnorm::Workload& workload,
    cudaStream_t stream = nullptr);

}  // namespace tests

/// The first line of every test that needs a GPU, or the CPU device in its place.
#define NEEDS_GPU()                                  \
  do {                                               \
    const std::string why_not = tests::why_no_gpu(); \
    if (!why_not.empty()) SKIP_TEST(why_not);        \
  } while (false)

/// The first line of a test of what only a GPU has: a clock, and a data sheet.
#define NEEDS_CLOCK()                                                       \
  do {                                                                      \
    NEEDS_GPU();                                                            \
    if (rmsnorm::is_cpu_device()) SKIP_TEST("the CPU device has no clock"); \
  } while (false)

/// The first line of a test of what the CPU device counts.
#define NEEDS_COUNTS()                                                       \
  do {                                                                       \
    if (!rmsnorm::can_watch()) SKIP_TEST("this build cannot watch kernels"); \
  } while (false)
