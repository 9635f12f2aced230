/// \file
/// The reference of the backward pass against finite differences of the forward pass, and the
/// verifier of backward passes in host memory.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "common/operations/backward_reference.hpp"
#include "common/tensors/random.hpp"
#include "common/verify/backward_verifier.hpp"
#include "tests/backward_faults.hpp"
#include "tests/catch.hpp"

using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;
using namespace rmsnorm;
using tests::contains;

namespace {

/// A forward pass in fp64, and a loss: the sum of y's elements, each times its dy.
struct Forward {
  int rows;
  int hidden;
  double eps;
  std::vector<double> x;        ///< (rows, hidden)
  std::vector<double> factors;  ///< (hidden)
  std::vector<double> dy;       ///< (rows, hidden)

  double rstd(int row) const {
    double sum = 0;
    for (int col = 0; col < hidden; ++col) sum += std::pow(x[row * hidden + col], 2);
    return 1 / std::sqrt(sum / hidden + eps);
  }
  double loss() const {
    double sum = 0;
    for (int row = 0; row < rows; ++row) {
      const double r = rstd(row);
      for (int col = 0; col < hidden; ++col) {
        const int i = row * hidden + col;
        sum += x[i] * r * factors[col] * dy[i];
      }
    }
    return sum;
  }
};

Forward draw_forward(int rows, int hidden, double eps, std::uint64_t seed) {
  Forward f{rows, hidden, eps, {}, {}, {}};
  for (int i = 0; i < rows * hidden; ++i) {
    f.x.push_back(random_x(seed, i / hidden, i % hidden, hidden));
    f.dy.push_back(random_float(seed ^ 0xd1, i));
  }
  for (int col = 0; col < hidden; ++col) f.factors.push_back(random_weight(seed, col));
  return f;
}

/// By how much the loss changes with a variable of the forward pass.
double derivative(Forward& f, double& variable) {
  const double at = variable;
  const double step = 1e-5 * (1e-2 + std::abs(at));
  variable = at + step;
  const double above = f.loss();
  variable = at - step;
  const double below = f.loss();
  variable = at;
  return (above - below) / (2 * step);
}

constexpr int kRows = 5;
constexpr int kHidden = 130;

WorkloadSpec on_host(int rows = kRows, int hidden = kHidden) {
  return {.memory = Memory::host, .rows = rows, .hidden = hidden};
}

Verification verify_on_host(tests::BackwardLaunch launch, const WorkloadSpec& spec = on_host()) {
  return verify(tests::backward_lesson(launch), BackwardWorkload(spec));
}

}  // namespace

TEST_CASE("the reference's gradients are the finite differences of the forward pass") {
  for (const double eps : {1e-5, 0.5, 0.0}) {
    for (const auto& [rows, hidden] : {std::pair(1, 1), {1, 7}, {4, 3}, {3, 33}, {2, 128}}) {
      Forward f = draw_forward(rows, hidden, eps, 3 + hidden);
      // rstd is rounded to fp32: off by 2^-24, and up to three times that in dx.
      BackwardInputs inputs{{f.x.begin(), f.x.end()}, {f.dy.begin(), f.dy.end()}, {}, f.factors};
      for (int row = 0; row < rows; ++row) {
        inputs.rstd.push_back(static_cast<float>(f.rstd(row)));
      }
      for (int row = 0; row < rows; ++row) {
        const SignedSum mean = reference_mean(inputs, row);
        for (int col = 0; col < hidden; ++col) {
          const int i = row * hidden + col;
          const SignedSum dx =
              reference_dx(f.x[i], f.dy[i], f.factors[col], inputs.rstd[row], mean);
          CAPTURE(eps, rows, hidden, row, col);
          CHECK_THAT(derivative(f, f.x[i]), WithinAbs(dx.value, 2e-7 * dx.size + 1e-9));
        }
      }
      for (int col = 0; col < hidden; ++col) {
        const SignedSum dweight = reference_dweight(inputs, col);
        CAPTURE(eps, rows, hidden, col);
        CHECK_THAT(
            derivative(f, f.factors[col]), WithinAbs(dweight.value, 2e-7 * dweight.size + 1e-9));
      }
    }
  }
}

TEST_CASE("gradients worked out by hand") {
  // x = (3, 4), so without eps the mean of squares is 12.5; dy = (1, 0), the weight (1, 1).
  const BackwardInputs inputs{
      .x = {3, 4},
      .dy = {1, 0},
      .rstd = {static_cast<float>(1 / std::sqrt(12.5))},
      .factors = {1, 1}};
  const SignedSum mean = reference_mean(inputs, 0);
  const double rstd = inputs.rstd[0];
  CHECK_THAT(mean.value, WithinRel(1.5 * rstd, 1e-7));
  CHECK_THAT(reference_dx(3, 1, 1, rstd, mean).value, WithinRel(rstd * (1 - 9 / 25.0), 1e-6));
  CHECK_THAT(reference_dx(4, 0, 1, rstd, mean).value, WithinRel(rstd * (-12 / 25.0), 1e-6));
  CHECK_THAT(reference_dweight(inputs, 0).value, WithinRel(3 * rstd, 1e-7));
  CHECK(reference_dweight(inputs, 1).value == 0);
}

TEST_CASE("the size of a sum is that of its products without their signs") {
  SignedSum sum;
  sum.add(3);
  sum.add(-2);
  CHECK(sum.value == 1);
  CHECK(sum.size == 5);
  // The two terms of dx: g = 1, n * mean = 2 * 0.5, of products that are 4 in size.
  const SignedSum dx = reference_dx(2, 1, 1, 1, {.value = 0.5, .size = 4});
  CHECK(dx.value == 0);
  CHECK(dx.size == 1 + 2 * 4);
}

TEST_CASE("the verifier accepts a right backward pass of every type and shape") {
  for (const Types& types : all_types()) {
    for (const int rows : {0, 1, 2, 7}) {
      for (const int hidden : {1, 2, 31, 130, 1025}) {
        WorkloadSpec spec = on_host(rows, hidden);
        spec.types = types;
        CAPTURE(to_string(types), rows, hidden);
        const Verification found = verify_on_host(tests::launch_right_backward, spec);
        CHECK(found.complaint == "");
        CHECK(found.max_error.value_or(0) <= std::max(0x1p-24, rounding_error(types.dtype)));
      }
    }
  }
}

TEST_CASE("the verifier accepts a right backward pass at any eps and alignment and with a bias") {
  for (const float eps : {0.0f, 1e-5f, 1.0f, 1e30f}) {
    for (const int misalign : {0, 1, 3}) {
      for (const float bias : {0.0f, 1.0f}) {
        WorkloadSpec spec = on_host();
        spec.eps = eps;
        spec.misalign = misalign;
        spec.types.weight_bias = bias;
        CAPTURE(eps, misalign, bias);
        CHECK(verify_on_host(tests::launch_right_backward, spec).complaint == "");
      }
    }
  }
}

TEST_CASE("the verifier rejects every fault of a backward pass and says what is wrong") {
  for (const tests::BackwardFault& fault : tests::backward_faults()) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(fault.name, seed);
      WorkloadSpec spec = on_host();
      spec.seed = seed;
      const Verification found = verify_on_host(fault.launch, spec);
      CHECK_FALSE(found.ok());
      CHECK_THAT(found.complaint, contains(fault.complaint));
    }
  }
}

TEST_CASE("an error of a gradient just outside the bound is found and one within it is not") {
  const BackwardWorkload workload(on_host());
  const BackwardProblem p = workload.problem();
  constexpr int kDepth = 20;
  const std::vector<float> x = to_host(static_cast<const float*>(p.x), kRows * kHidden);
  const std::vector<float> dy = to_host(static_cast<const float*>(p.dy), kRows * kHidden);
  const std::vector<float> rstd = to_host(p.rstd, kRows);
  const std::vector<float> weight = to_host(static_cast<const float*>(p.weight), kHidden);
  const BackwardInputs inputs{x, dy, rstd, {weight.begin(), weight.end()}};
  for (const auto& [row, col] : {std::pair(0, 0), {2, 64}, {kRows - 1, kHidden - 1}}) {
    const int i = row * kHidden + col;
    const double dx_size =
        reference_dx(x[i], dy[i], weight[col], rstd[row], reference_mean(inputs, row)).size;
    const double dweight_size = reference_dweight(inputs, col).size;
    for (const double errors : {0.95, -0.95, 1.1, -1.1}) {
      CAPTURE(row, col, errors);
      const auto is_accepted = [&](float& element, double error) {
        tests::launch_right_backward(p, nullptr);
        element = static_cast<float>(element + error);
        return compare_on_host(p, kDepth, kDepth).ok();
      };
      const bool is_within = std::abs(errors) < 1;
      float& dx = static_cast<float*>(p.dx)[i];
      float& dweight = static_cast<float*>(p.dweight)[col];
      CHECK(is_accepted(dx, errors * dx_error_bound(kDepth) * dx_size) == is_within);
      CHECK(is_accepted(dweight, errors * dweight_error_bound(kDepth) * dweight_size) == is_within);
    }
  }
}

TEST_CASE("a mismatch of a gradient names the tensor and the place") {
  const BackwardWorkload workload(on_host());
  const BackwardProblem p = workload.problem();
  tests::launch_right_backward(p, nullptr);
  static_cast<float*>(p.dweight)[17] += 1;
  const Verification of_dweight = compare_on_host(p, 3, 3);
  REQUIRE(of_dweight.mismatch.has_value());
  CHECK(of_dweight.complaint.starts_with("dweight's column 17: expected "));
  static_cast<float*>(p.dx)[3 * kHidden + 5] += 1;
  const Verification of_dx = compare_on_host(p, 3, 3);
  REQUIRE(of_dx.mismatch.has_value());
  CHECK(of_dx.mismatch->row == 3);
  CHECK(of_dx.mismatch->col == 5);
  CHECK(of_dx.complaint.starts_with("dx's row 3, column 5: expected "));
}

TEST_CASE("a NaN in x makes its row of dx NaN and every element of dweight") {
  const BackwardWorkload workload(on_host());
  std::vector<float> x = to_floats(workload.x().data(), Dtype::fp32, kRows * kHidden);
  x[2 * kHidden + 9] = NAN;
  workload.set_x(x);
  CHECK(verify(tests::backward_lesson(tests::launch_right_backward), workload).complaint == "");
  CHECK(std::isnan(static_cast<const float*>(workload.problem().dx)[2 * kHidden]));
  CHECK(std::isnan(static_cast<const float*>(workload.problem().dweight)[0]));
}

TEST_CASE("the rstd of a backward workload is that of its x and eps") {
  WorkloadSpec spec = on_host();
  spec.eps = 0.25f;
  const BackwardWorkload workload(spec);
  const std::vector<float> x = to_floats(workload.x().data(), Dtype::fp32, kRows * kHidden);
  double sum = 0;
  for (int col = 0; col < kHidden; ++col) sum += std::pow(double{x[kHidden + col]}, 2);
  CHECK(workload.problem().rstd[1] == static_cast<float>(1 / std::sqrt(sum / kHidden + 0.25)));
}

TEST_CASE("a backward pass whose rounding could explain almost anything is not called right") {
  Lesson lesson = tests::backward_lesson(tests::launch_right_backward);
  lesson.backward.column_depth = [](const BackwardProblem&) { return 5'000'000; };
  CHECK_THAT(verify(lesson, BackwardWorkload(on_host())).complaint, contains("cannot be judged"));
}
