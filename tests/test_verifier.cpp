/// \file
/// The verifier, in host memory: what it accepts, what it rejects, and what it says. In the
/// device's: test_device.cpp.

#include <tuple>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/base/device.hpp"
#include "common/operations/rms_norm.hpp"
#include "common/verify/verifier.hpp"
#include "tests/catch.hpp"
#include "tests/faults.hpp"

using Catch::Matchers::WithinRel;
using namespace rmsnorm;
using tests::contains;
using tests::operations;

namespace {

constexpr int kRows = 5;
constexpr int kHidden = 130;

WorkloadSpec on_host(int rows = kRows, int hidden = kHidden) {
  return {.memory = Memory::host, .rows = rows, .hidden = hidden};
}

const Operation& rms_norm() {
  return operation_of<RmsNorm>();
}

/// Verifies RMSNorm, right but for a change of y.
Verification verify_change(const std::function<void(const Problem&, float* y)>& change) {
  const auto then = [&](const Problem& p) { change(p, p.as<float>(Description<RmsNorm>::kY)); };
  return verify(
      tests::right_and_then(rms_norm(), Memory::host, then), Workload(rms_norm(), on_host()));
}

}  // namespace

// What is right here is the tests' own formula, rounded once.
TEST_CASE("the verifier accepts what is right, of every type, shape, eps and alignment") {
  for (const Operation* operation : operations()) {
    const Implementation right = tests::right(*operation, Memory::host);
    for (Types types : all_types()) {
      for (const auto& [rows, hidden, eps, misalign] :
           {std::tuple(0, 5, 1e-5f, 0),
            {1, 1, 0.25f, 1},
            {2, 7, 1e-12f, 2},
            {7, 130, 1.0f, 3},
            {1, 31, 1e-5f, 0},
            {3, 1025, 0.0f, 0},
            {9, 77, 1e30f, 1}}) {
        if (types.weight) types.weight_bias = static_cast<float>(rows % 2);
        const Workload workload(
            *operation, {.memory = Memory::host,
                         .rows = rows,
                         .hidden = hidden,
                         .eps = eps,
                         .misalign = misalign,
                         .types = types});
        CAPTURE(operation->name, to_string(types), rows, hidden, eps);
        const Verification found = verify(right, workload);
        CHECK(found.complaint == "");
        CHECK_FALSE(found.mismatch.has_value());
        const double rounding = std::max(0x1p-24, rounding_error(types.dtype));
        CHECK(found.max_error.value() <= 1.0001 * rounding);
        CHECK(found.max_error.value() <= found.error_bound);
        // And the bound is no larger than it has to be.
        const bool has_many = rows * hidden > 500 && eps <= 1;
        if (has_many) CHECK(found.max_error.value() > rounding / 2);
      }
    }
  }
}

TEST_CASE("the verifier rejects every fault, wrong writes in every type, and says what is wrong") {
  std::vector<WorkloadSpec> specs = {on_host(300, 1021)};
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    specs.push_back(on_host());
    specs.back().seed = seed;
  }
  for (const char* const types : {"fp16", "bf16", "bf16/fp32"}) {
    specs.push_back(on_host());
    specs.back().types = *types_named(types);
  }
  for (const Operation* operation : operations()) {
    for (const tests::Fault& fault : tests::faults(*operation, Memory::host)) {
      for (const WorkloadSpec& spec : specs) {
        CAPTURE(operation->name, fault.name, spec.rows, spec.seed, to_string(spec.types));
        const Verification found = verify(fault.implementation, Workload(*operation, spec));
        CHECK_THAT(found.complaint, contains(fault.complaint));
      }
    }
  }
}

// That it is the first wrong element, and its values: test_operations.cpp.
TEST_CASE("a mismatch names the place and what was expected and got and allowed") {
  const Verification found =
      verify_change([](const Problem&, float* y) { y[3 * kHidden + 17] *= 2; });
  REQUIRE(found.mismatch.has_value());
  CHECK(found.complaint == to_sentence(*found.mismatch));
  CHECK_THAT(
      found.complaint, contains("row 3, column 17: expected ") && contains(", got ") &&
                           contains(", off by ") && contains(" is allowed"));
  CHECK_THAT(*found.max_error, WithinRel(1.0, 1e-6));
  Mismatch other{"dx", 3, 5, 1, 2, 0.5};
  CHECK(
      to_sentence(other) ==
      "dx's row 3, column 5: expected 2, got 1, off by 1 where 0.5 is allowed");
  other = {"y", 0, 5, 1, 1.0039126, 0.0039062};
  CHECK_THAT(to_sentence(other), contains("off by 0.003913 where 0.003906 is allowed"));
  other = {"dweight", -1, 17, 1, 2, 0.5};
  CHECK_THAT(to_sentence(other), Catch::Matchers::StartsWith("dweight's column 17: expected "));
}

TEST_CASE("what an earlier launch wrote does not pass for a result") {
  for (const Operation* operation : operations()) {
    const Workload workload(*operation, on_host());
    REQUIRE(verify(tests::right(*operation, Memory::host), workload).ok());
    const auto idle = [](const Problem&, cudaStream_t) { return cudaSuccess; };
    const Implementation does_nothing = tests::implementation_with(*operation, Memory::host, idle);
    CHECK_THAT(verify(does_nothing, workload).complaint, contains("was not written"));
  }
}

TEST_CASE("what is right only the first time, or has other bits each time, is wrong") {
  int launches = 0;
  const Verification found = verify_change([&](const Problem&, float* y) {
    if (++launches == 2) y[7] = 0;
  });
  CHECK_THAT(found.complaint, contains("row 0, column 7: expected"));
  CHECK_THAT(found.complaint, contains("(at the second launch; the first was right)"));

  for (const Operation* operation : operations()) {
    int launch = 0;
    const Implementation changing =
        tests::right_and_then(*operation, Memory::host, [&](const Problem& p) {
          const auto& tensors = operation->tensors;
          for (std::size_t i = 0; i < tensors.size(); ++i) {
            if (tensors[i].role != Role::output) continue;
            if (launch++ % 2 != 0) tests::nudge(p.tensors[i], Dtype::fp32, 0);
            return;
          }
        });
    const Verification other_bits = verify(changing, Workload(*operation, on_host()));
    CAPTURE(operation->name);
    CHECK(other_bits.ok() == !operation->same_bits);
    if (operation->same_bits) {
      CHECK_THAT(
          other_bits.complaint, contains("the second launch left other bits in dx and dweight"));
    }
  }
}

TEST_CASE("a change of x or of another set is found even where it makes no difference to y") {
  WorkloadSpec spec = on_host();
  spec.sets = 2;
  for (const Operation* operation : operations()) {
    const Workload workload(*operation, spec);
    // Where x is zero its sign makes no difference, so only the memory can tell.
    std::vector<float> x = workload.tensor("x").values();
    x[3] = 0;
    workload.set("x", x);
    std::vector<float*> victims = {workload.problem().as<float>(0) + 3};
    for (std::size_t i = 0; i < operation->tensors.size(); ++i) {
      victims.push_back(workload.problem(1).as<float>(static_cast<int>(i)));
    }
    for (float* const victim : victims) {
      const Implementation meddles = tests::right_and_then(
          *operation, Memory::host,
          [=](const Problem&) { tests::put(victim, Dtype::fp32, 0, -*victim); });
      CHECK_THAT(verify(meddles, workload).complaint, contains("changed memory outside "));
    }
  }
}

TEST_CASE("a kernel that changes x is told so even where y does not fit the x that it leaves") {
  const Verification found = verify_change([](const Problem& p, float*) {
    for (int i = 0; i < kRows * kHidden; ++i) p.as<float>(0)[i] *= static_cast<float>(1 + i % 2);
  });
  CHECK(found.complaint == "changed memory outside y: an input, or what lies around the tensors");
  CHECK_FALSE(found.mismatch.has_value());
}

TEST_CASE("what rounding could explain almost anything of is not called right") {
  for (const Operation* operation : operations()) {
    Implementation right = tests::right(*operation, Memory::host);
    const auto complaint_with = [&](SumDepth depth) {
      right.sum_depth = [=](const Problem&) { return depth; };
      return verify(right, Workload(*operation, on_host())).complaint;
    };
    CAPTURE(operation->name);
    CHECK(complaint_with({kHidden + 1024, kRows + 1024}) == "");
    CHECK(
        complaint_with({kHidden + 1025}) ==
        "sum_depth() claims 1155 additions for the sum of a row, which has 130 terms");
    CHECK(
        complaint_with({1, kRows + 1025}) ==
        "sum_depth() claims 1030 additions for the sum of a column, which has 5 terms");
    CHECK_THAT(complaint_with({5'000'000}), contains("cannot be judged"));
    CHECK_THAT(complaint_with({50'000'000}), contains("cannot be judged"));  // no bound at all
  }
}

TEST_CASE("writes far from y are found as far as the guards go") {
  constexpr int kGuard = GuardedTensor::kGuardBytes / sizeof(float);
  const auto write_at = [&](int index) {
    return verify_change([=](const Problem&, float* y) { y[index] = 1; }).complaint;
  };
  CHECK_THAT(write_at(-kGuard), contains("wrote 1 elements before"));
  CHECK_THAT(write_at(kRows * kHidden + kGuard - 1), contains("at y[rows * hidden + 1023]"));
}

TEST_CASE("an error of a launch is a complaint, or thrown where it costs us the GPU") {
  const auto verify_error = [](cudaError_t error) {
    const auto launch = [=](const Problem&, cudaStream_t) { return error; };
    return verify(
        tests::implementation_with(rms_norm(), Memory::host, launch),
        Workload(rms_norm(), on_host()));
  };
  const Verification found = verify_error(cudaErrorInvalidValue);
  CHECK(found.complaint == "the launch failed: invalid argument");
  CHECK_FALSE(found.mismatch.has_value());
  CHECK_FALSE(found.max_error.has_value());  // nothing was compared
  if (is_cpu_device()) {                     // it is never lost
    CHECK(
        verify_error(cudaErrorIllegalAddress).complaint ==
        "the launch failed: an illegal memory access was encountered");
    return;
  }
  CHECK_THROWS_AS(verify_error(cudaErrorIllegalAddress), CudaError);
  CHECK_THROWS_WITH(
      verify_error(cudaErrorIllegalAddress), contains("00_fake: the launch: an illegal memory"));
}
