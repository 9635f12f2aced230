/// \file
/// Ordinary CUDA is right, and a device that watches finds nothing wrong: tests/ordinary.

#include <cmath>
#include <string>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "tests/gpu_support.hpp"
#include "tests/ordinary/cases.hpp"
#include "tests/watch.hpp"

using namespace tests;
using rmsnorm::cuda_check;

namespace {

constexpr int kElements = Rows::kRows * Rows::kHidden;

/// How far a result is from the right one, at most.
double error_of(const std::vector<float>& x, const std::vector<float>& y) {
  double worst = 0;
  for (int row = 0; row < Rows::kRows; ++row) {
    const int begin = row * Rows::kHidden;
    double sum = 0;
    for (int i = begin; i < begin + Rows::kHidden; ++i) sum += std::pow(x[i], 2);
    const double rstd = 1 / std::sqrt(sum / Rows::kHidden + Rows::kEps);
    for (int i = begin; i < begin + Rows::kHidden; ++i) {
      const double error = std::abs(y[i] - x[i] * rstd);
      if (!(error <= worst)) worst = error;  // a NaN, too
    }
  }
  return worst;
}

/// Why the GPU does not know some of these kernels, or "".
std::string why_too_old() {
  int major = 0;
  cuda_check(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "asking for the GPU");
  return major < 8 ? "these kernels need compute capability 8.0" : "";
}

void check_right(const std::vector<Ordinary>& kernels) {
  NEEDS_GPU();
  if (const std::string why = why_too_old(); !why.empty()) SKIP_TEST(why);
  std::vector<float> numbers(kElements);
  for (int i = 0; i < kElements; ++i) numbers[i] = std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < 2 * kernels.size(); ++i) {
    const Ordinary& kernel = kernels[i / 2];
    const bool changes_order = i % 2 == 1;  // where the device has one
    CAPTURE(kernel.construct, changes_order);
    const Floats x(numbers);
    const Floats y(std::vector<float>(kElements, NAN));
    rmsnorm::change_order(changes_order, nullptr);
    const Outcome outcome = watch({x.named("x"), y.named("y")}, [&] {
      kernel.launch({x.data, y.data});
    });
    rmsnorm::change_order(false, nullptr);
    CHECK(outcome.at_launch == cudaSuccess);
    CHECK(outcome.at_synchronise == cudaSuccess);
    CHECK(outcome.hazards == std::vector<std::string>());
    CHECK(error_of(numbers, y.values()) < 1e-5);
  }
}

}  // namespace

TEST_CASE("kernels in the whole language of kernels are right", "[memory]") {
  check_right(language_kernels());
}

TEST_CASE(
    "kernels with cooperative groups, asynchronous copies and libcu++ are right", "[memory]") {
  check_right(libraries_kernels());
}

TEST_CASE("kernels with CUB's operations of blocks and warps are right", "[memory]") {
  check_right(cub_kernels());
}

TEST_CASE("kernels behind other functions of the runtime are right", "[memory]") {
  check_right(runtime_kernels());
}

TEST_CASE("kernels with inline PTX are right", "[memory]") {
  check_right(ptx_kernels());
}

TEST_CASE("kernels whose blocks wait for each other are right", "[memory]") {
  check_right(grid_kernels());
}
