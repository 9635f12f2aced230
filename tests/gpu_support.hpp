#pragma once
/// \file
/// What the tests that need a GPU share.

#include <functional>
#include <string>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/contract/regime.hpp"
#include "common/measure/gpu.hpp"
#include "common/tensors/workload.hpp"
#include "tests/catch.hpp"

namespace tests {

/// Why no GPU can be used here, or "".
std::string why_no_gpu();

/// The lessons that run on a GPU and have a forward pass.
std::vector<rmsnorm::Lesson> gpu_lessons();

/// Calls test(lesson, workload) for each of them, with a residual where the lesson wants one. There
/// is one workload at a time, for all lessons that want the same tensors, after prepare(workload).
void for_gpu_lessons(
    rmsnorm::WorkloadSpec spec,
    const std::function<void(const rmsnorm::Lesson&, const rmsnorm::Workload&)>& test,
    const std::function<void(const rmsnorm::Workload&)>& prepare = {});

/// Whether the GPU has memory for a problem of this shape now, with so many tensors of it, or the
/// CPU device the time; says so if not.
bool fits_on_gpu(int rows, int hidden, int tensors = 2);

/// This shape; for the CPU device with fewer rows, where it would take too long.
rmsnorm::Shape in_time(int rows, int hidden);

/// Checks that the lesson solves the workload's problem, or refuses it with a sentence that begins
/// with its folder's name. Whether it solved it.
bool solves_or_refuses(
    const rmsnorm::Lesson& lesson, const rmsnorm::Workload& workload,
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
