#pragma once
/// \file
/// Implementations on problems that nobody thought of.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/tensors/workload.hpp"

namespace tests {

/// The value of the environment variable RMSNORM_TEST_SEED, or a new seed.
std::uint64_t test_seed();

/// The index-th problem of a seed: most are small, some have many rows, some long ones, of up to
/// `most` elements; lengths with and without a power of two in them; any alignment.
rmsnorm::WorkloadSpec random_problem(std::uint64_t seed, std::uint64_t index, int most);

/// The smallest problem that still fails: no step towards one row, one column, a plain alignment,
/// eps and seed leads to another. `spec` fails.
rmsnorm::WorkloadSpec shrink(
    rmsnorm::WorkloadSpec spec, const std::function<bool(const rmsnorm::WorkloadSpec&)>& fails);

/// Runs the implementations on random problems until the time is up. Gives "", or a report of the
/// first failure, made small: the implementation, the problem, the complaint, and how to see it
/// again.
std::string try_random_problems(
    const std::vector<rmsnorm::Implementation>& implementations, std::uint64_t seed, int most,
    std::chrono::milliseconds time);

}  // namespace tests
