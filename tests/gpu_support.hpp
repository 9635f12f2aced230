#pragma once
/// \file
/// What the tests that need a GPU share.

#include <string>
#include <vector>

#include "common/lesson.hpp"
#include "common/workload.hpp"
#include "tests/catch.hpp"

namespace tests {

/// Why no GPU can be used here, or "".
std::string why_no_gpu();

/// The lessons that run on a GPU.
std::vector<rmsnorm::Lesson> gpu_lessons();

/// Whether a problem of this shape fits into the GPU's memory now; says so if it does not.
bool fits_on_gpu(int rows, int hidden);

/// Checks that the lesson solves the workload's problem, or refuses it with a sentence that begins
/// with its folder's name. Whether it solved it.
bool solves_or_refuses(
    const rmsnorm::Lesson& lesson, const rmsnorm::Workload& workload,
    cudaStream_t stream = nullptr);

}  // namespace tests

/// The first line of every test that needs a GPU.
#define NEEDS_GPU()                                  \
  do {                                               \
    const std::string why_not = tests::why_no_gpu(); \
    if (!why_not.empty()) SKIP_TEST(why_not);        \
  } while (false)
