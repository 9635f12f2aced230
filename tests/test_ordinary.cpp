/// \file
/// The CPU device takes ordinary CUDA: the kernels of tests/ordinary, in which nothing is wrong.

#include <cmath>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/ordinary/cases.hpp"
#include "tests/watch.hpp"

using namespace tests;

namespace {

void check_right(const std::vector<Ordinary>& kernels) {
  constexpr int kElements = Rows::kRows * Rows::kHidden;
  for (const Ordinary& kernel : kernels) {
    CAPTURE(kernel.construct);
    const Floats x(kElements);
    const Floats y(kElements);
    for (int i = 0; i < kElements; ++i) x.data[i] = std::sin(static_cast<float>(i));
    const Outcome outcome = watch({x.named("x"), y.named("y")}, [&] {
      kernel.launch({x.data, y.data});
    });
    CHECK(outcome.at_launch == cudaSuccess);
    CHECK(outcome.at_synchronise == cudaSuccess);
    CHECK(outcome.hazards == std::vector<std::string>());
    for (int row = 0; row < Rows::kRows; ++row) {
      double sum = 0;
      for (int i = 0; i < Rows::kHidden; ++i) {
        sum += std::pow(x.data[row * Rows::kHidden + i], 2);
      }
      const double rstd = 1 / std::sqrt(sum / Rows::kHidden + Rows::kEps);
      double worst = 0;
      for (int i = row * Rows::kHidden; i < (row + 1) * Rows::kHidden; ++i) {
        worst = std::fmax(worst, std::fabs(y.data[i] - x.data[i] * rstd));
      }
      CHECK(worst < 1e-5);
    }
  }
}

}  // namespace

TEST_CASE("kernels in the whole language of kernels are right") {
  check_right(language_kernels());
}

TEST_CASE("kernels with cooperative groups, asynchronous copies and libcu++ are right") {
  check_right(libraries_kernels());
}

TEST_CASE("kernels with CUB's operations of blocks and warps are right") {
  check_right(cub_kernels());
}

TEST_CASE("kernels behind other functions of the runtime are right") {
  check_right(runtime_kernels());
}

TEST_CASE("kernels with inline PTX are right") {
  check_right(ptx_kernels());
}

TEST_CASE("kernels whose blocks wait for each other are right") {
  check_right(grid_kernels());
}
