/// \file
/// The verifier, in host memory: what it accepts, what it rejects, and what it says.

#include <cmath>
#include <string>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/verify/verifier.hpp"
#include "tests/catch.hpp"
#include "tests/faults.hpp"

using Catch::Matchers::WithinRel;
using namespace rmsnorm;
using tests::contains;

namespace {

constexpr int kRows = 5;
constexpr int kHidden = 130;

WorkloadSpec on_host(int rows = kRows, int hidden = kHidden) {
  return {.memory = Memory::host, .rows = rows, .hidden = hidden};
}

Verification verify_on_host(tests::Launch launch, const WorkloadSpec& spec = on_host()) {
  return verify(tests::lesson_with(launch, Memory::host), Workload(spec));
}

float* element(const Workload& workload, int row, int col) {
  const Problem p = workload.problem();
  return p.y + row * p.hidden + col;
}

/// A workload with the right y in it, for a test to change.
Workload solved() {
  Workload workload(on_host());
  tests::launch_right(workload.problem(), nullptr);
  return workload;
}

/// Multiplies every element of y by this.
cudaError_t launch_off_by(const Problem& p, double factor) {
  tests::launch_right(p, nullptr);
  for (int i = 0; i < p.rows * p.hidden; ++i) p.y[i] = static_cast<float>(p.y[i] * factor);
  return cudaSuccess;
}

double bound_of_fake() {
  return relative_error_bound(tests::lesson_with(nullptr, Memory::host).sum_depth(kHidden));
}

}  // namespace

TEST_CASE("the verifier accepts a right lesson") {
  for (const int rows : {0, 1, 2, 7}) {
    for (const int hidden : {1, 2, 31, 130, 1025}) {
      CAPTURE(rows, hidden);
      const Verification found = verify_on_host(tests::launch_right, on_host(rows, hidden));
      CHECK(found.complaint == "");
      CHECK_FALSE(found.mismatch.has_value());
      CHECK(found.max_error.value_or(0) <= 0x1p-24);  // one rounding
      CHECK((found.max_error.value_or(0) > 0 || rows * hidden < 8));
    }
  }
}

TEST_CASE("the verifier accepts a right lesson at any eps and any alignment") {
  for (const float eps : {0.0f, 1e-12f, 1e-5f, 1.0f, 1e30f}) {
    for (const int misalign : {0, 1, 2, 3}) {
      WorkloadSpec spec = on_host();
      spec.eps = eps;
      spec.misalign = misalign;
      CHECK(verify_on_host(tests::launch_right, spec).complaint == "");
    }
  }
}

TEST_CASE("the verifier rejects every fault and says what is wrong") {
  for (const WorkloadSpec& spec : {on_host(), on_host(1030, 1021)}) {
    for (const tests::Fault& fault : tests::faults()) {
      CAPTURE(fault.name, spec.rows);
      const Verification found = verify_on_host(fault.launch, spec);
      CHECK_FALSE(found.ok());
      CHECK_THAT(found.complaint, contains(fault.complaint));
    }
  }
}

TEST_CASE("the verifier rejects every fault at every seed") {
  for (const tests::Fault& fault : tests::faults()) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(fault.name, seed);
      WorkloadSpec spec = on_host();
      spec.seed = seed;
      CHECK_FALSE(verify_on_host(fault.launch, spec).ok());
    }
  }
}

TEST_CASE("rounding noise within the bound is accepted and just outside it is not") {
  const double bound = bound_of_fake();
  const auto within = [](const Problem& p, cudaStream_t) {
    return launch_off_by(p, 1 + 0.85 * bound_of_fake());
  };
  const auto outside = [](const Problem& p, cudaStream_t) {
    return launch_off_by(p, 1 - 1.15 * bound_of_fake());
  };
  const Verification accepted = verify_on_host(within);
  CHECK(accepted.complaint == "");
  CHECK(accepted.max_error.value() > 0.75 * bound);
  CHECK_THAT(accepted.error_bound, WithinRel(bound, 1e-12));

  const Verification rejected = verify_on_host(outside);
  CHECK_FALSE(rejected.ok());
  CHECK(rejected.max_error.value() > bound);
  CHECK(rejected.max_error.value() < 1.3 * bound);
}

TEST_CASE("a single element just outside the bound is found wherever it is") {
  for (const int row : {0, 2, kRows - 1}) {
    for (const int col : {0, 64, kHidden - 1}) {
      CAPTURE(row, col);
      const Workload workload = solved();
      float& y = *element(workload, row, col);
      y = static_cast<float>(y * (1 + 1.25 * relative_error_bound(3)));
      const Verification found = compare_on_host(workload.problem(), 3);
      REQUIRE(found.mismatch.has_value());
      CHECK(found.mismatch->row == row);
      CHECK(found.mismatch->col == col);
    }
  }
}

TEST_CASE("a mismatch names row and column and what was expected and got and allowed") {
  const Workload workload = solved();
  float& y = *element(workload, 3, 17);
  const float expected = y;
  y = expected * 2;
  const Verification found = compare_on_host(workload.problem(), 3);
  REQUIRE(found.mismatch.has_value());
  CHECK(found.mismatch->row == 3);
  CHECK(found.mismatch->col == 17);
  CHECK(found.mismatch->got == expected * 2);
  CHECK_THAT(found.mismatch->expected, WithinRel(double{expected}, 1e-7));
  CHECK_THAT(
      found.mismatch->allowed, WithinRel(std::abs(expected) * relative_error_bound(3), 1e-6));
  CHECK_FALSE(found.mismatch->unwritten);
  CHECK_THAT(*found.max_error, WithinRel(1.0, 1e-6));
  CHECK_THAT(found.complaint, contains("row 3, column 17: expected "));
  CHECK_THAT(found.complaint, contains(", got "));
  CHECK_THAT(found.complaint, contains(", off by "));
  CHECK_THAT(found.complaint, contains(" is allowed"));
}

TEST_CASE("the mismatch is the first one and the error is the largest one") {
  const Workload workload = solved();
  *element(workload, 4, 9) *= 3;
  *element(workload, 1, 100) *= 1.5f;
  *element(workload, 1, 99) *= 1.25f;
  const Verification found = compare_on_host(workload.problem(), 3);
  REQUIRE(found.mismatch.has_value());
  CHECK(found.mismatch->row == 1);
  CHECK(found.mismatch->col == 99);
  CHECK_THAT(*found.max_error, WithinRel(2.0, 1e-6));
}

TEST_CASE("an element that was not written is called that") {
  const Verification found = verify_on_host([](const Problem& p, cudaStream_t) {
    const float kept = p.y[3 * p.hidden + 2];
    tests::launch_right(p, nullptr);
    p.y[3 * p.hidden + 2] = kept;
    return cudaSuccess;
  });
  REQUIRE(found.mismatch.has_value());
  CHECK(found.mismatch->unwritten);
  CHECK_THAT(found.complaint, contains("row 3, column 2 was not written"));
}

TEST_CASE("what an earlier launch wrote does not pass for a result") {
  const Workload workload = solved();
  const auto idle = [](const Problem&, cudaStream_t) { return cudaSuccess; };
  const Verification found = verify(tests::lesson_with(idle, Memory::host), workload);
  CHECK_THAT(found.complaint, contains("was not written"));
}

TEST_CASE("a lesson that is right only the first time is wrong") {
  static int launches;
  launches = 0;
  const Verification found = verify_on_host([](const Problem& p, cudaStream_t) {
    tests::launch_right(p, nullptr);
    if (++launches == 2) p.y[7] = 0;
    return cudaSuccess;
  });
  CHECK_THAT(found.complaint, contains("row 0, column 7: expected"));
  CHECK_THAT(found.complaint, contains("at the second launch"));
}

TEST_CASE("a lesson that changes x or another set is wrong") {
  static float* victim;
  const auto meddle = [](const Problem& p, cudaStream_t) {
    tests::launch_right(p, nullptr);
    *victim = -*victim;
    return cudaSuccess;
  };
  WorkloadSpec spec = on_host();
  spec.sets = 2;
  const Workload workload(spec);
  // Where x is zero its sign makes no difference to y, so only the memory can tell.
  std::vector<float> x = to_host(workload.problem().x, kRows * kHidden);
  x[3] = 0;
  workload.set_x(x);
  const Problem other = workload.problem(1);
  for (const float* tensor :
       {workload.problem().x + 3, other.x, other.weight, static_cast<const float*>(other.y)}) {
    victim = const_cast<float*>(tensor);
    const Verification found = verify(tests::lesson_with(meddle, Memory::host), workload);
    CHECK_THAT(found.complaint, contains("changed memory outside y"));
  }
}

TEST_CASE("a lesson that changes x is told so even where y does not fit the x that it leaves") {
  const auto doubles_x = [](const Problem& p, cudaStream_t) {
    tests::launch_right(p, nullptr);
    for (int i = 0; i < p.rows * p.hidden; ++i) const_cast<float*>(p.x)[i] *= 1 + i % 2;
    return cudaSuccess;
  };
  CHECK_THAT(verify_on_host(doubles_x).complaint, contains("changed memory outside y"));
}

TEST_CASE("a lesson whose rounding could explain almost anything is not called right") {
  Lesson lesson = tests::lesson_with(tests::launch_right, Memory::host);
  lesson.sum_depth = +[](int) { return 1'000'000; };
  CHECK(verify(lesson, Workload(on_host())).ok());
  lesson.sum_depth = +[](int) { return 5'000'000; };
  CHECK_THAT(verify(lesson, Workload(on_host())).complaint, contains("cannot be judged"));
  lesson.sum_depth = +[](int) { return 50'000'000; };  // no bound at all
  CHECK_THAT(verify(lesson, Workload(on_host())).complaint, contains("cannot be judged"));
}

TEST_CASE("writes far from y are found as far as the guards go") {
  const auto far_before = [](const Problem& p, cudaStream_t) {
    p.y[-static_cast<int>(Workload::kGuard)] = 1;
    return tests::launch_right(p, nullptr);
  };
  const auto far_after = [](const Problem& p, cudaStream_t) {
    p.y[p.rows * p.hidden + static_cast<int>(Workload::kGuard) - 1] = 1;
    return tests::launch_right(p, nullptr);
  };
  for (const int misalign : {0, 3}) {
    WorkloadSpec spec = on_host();
    spec.misalign = misalign;
    CHECK_THAT(verify_on_host(far_before, spec).complaint, contains("wrote 1 elements before"));
    CHECK_THAT(verify_on_host(far_after, spec).complaint, contains("at y[rows * hidden + 1023]"));
  }
}

TEST_CASE("rows of zeros and NaN and Inf and large and tiny values are what IEEE 754 says") {
  const Workload workload(on_host());
  std::vector<float> x = to_host(workload.problem().x, kRows * kHidden);
  const auto row = [&](int index) { return x.begin() + index * kHidden; };
  std::fill(row(0), row(1), 0.0f);
  *row(1) = NAN;
  *row(2) = -INFINITY;
  std::transform(row(3), row(4), row(3), [](float value) { return value * 1e15f; });
  std::transform(row(4), x.end(), row(4), [](float value) { return value * 1e-30f; });
  workload.set_x(x);
  CHECK(verify(tests::lesson_with(tests::launch_right, Memory::host), workload).complaint == "");

  // And a number where NaN belongs is wrong.
  const auto without_nan = [](const Problem& p, cudaStream_t) {
    tests::launch_right(p, nullptr);
    p.y[p.hidden + 5] = 0;
    return cudaSuccess;
  };
  const Verification found = verify(tests::lesson_with(without_nan, Memory::host), workload);
  REQUIRE(found.mismatch.has_value());
  CHECK(found.mismatch->row == 1);
  CHECK(found.mismatch->col == 5);
}

TEST_CASE("an element that was not written is wrong even where NaN belongs") {
  const Workload workload(on_host(1, 4));
  workload.set_x({1, NAN, 2, 3});
  const auto idle = [](const Problem&, cudaStream_t) { return cudaSuccess; };
  CHECK_FALSE(verify(tests::lesson_with(idle, Memory::host), workload).ok());
}

TEST_CASE("a launch that was turned down is a complaint with CUDA's reason") {
  const auto turned_down = [](const Problem&, cudaStream_t) { return cudaErrorInvalidValue; };
  const Verification found = verify_on_host(turned_down);
  CHECK(found.complaint == "the launch failed: invalid argument");
  CHECK_FALSE(found.mismatch.has_value());
  CHECK_FALSE(found.max_error.has_value());  // nothing was compared
}

TEST_CASE("an error that costs us the GPU is thrown with the lesson's name") {
  const auto lost = [](const Problem&, cudaStream_t) { return cudaErrorIllegalAddress; };
  CHECK_THROWS_AS(verify_on_host(lost), CudaError);
  CHECK_THROWS_WITH(verify_on_host(lost), contains("00_fake: the launch: an illegal memory"));
}
