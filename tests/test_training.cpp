/// \file
/// Lesson 13 on the GPU: the forward pass that stores rstd, and the backward pass, beyond what the
/// gauntlet asks of every lesson.

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/contract/registry.hpp"
#include "common/operations/reference.hpp"
#include "common/verify/backward_verifier.hpp"
#include "common/verify/element_check.hpp"
#include "common/verify/verifier.hpp"
#include "lessons/13_backward/backward.hpp"
#include "tests/backward_faults.hpp"
#include "tests/faults.hpp"
#include "tests/gpu_support.hpp"

using namespace rmsnorm;
using tests::contains;
using tests::fits_on_gpu;
using tests::in_time;

namespace {

Lesson lesson_13() {
  return find_lessons(all_lessons(), "13_backward").at(0);
}

Types types_of(const char* name, float bias = 0) {
  Types types = *types_named(name);
  types.weight_bias = bias;
  return types;
}

/// Lengths for one thread a row and many, one vector a thread and several, rows in parts, tails.
constexpr int kHidden[] = {1,    8,    33,   64,   128,  264,  512,   520,   1000,
                           1024, 2056, 4096, 4104, 8192, 8200, 12288, 16384, 20000};

float* to_rstd = nullptr;  ///< where forward_pass() stores rstd

/// Lesson 13's forward pass. A thread adds up every 512th element, or whole vectors of 8.
Lesson forward_pass() {
  Lesson lesson = tests::lesson_with(nullptr, Memory::device);
  lesson.launch = +[](const TypedProblem& p, cudaStream_t stream) {
    return backward::forward(p, to_rstd, stream);
  };
  lesson.sum_depth = +[](const TypedProblem& p) { return p.hidden / 512 + 8 * 8 + 10; };
  return lesson;
}

/// Large enough for verify() to compare on the device.
constexpr WorkloadSpec kLarge = {.rows = 1030, .hidden = 1021};
constexpr WorkloadSpec kSmall = {.rows = 5, .hidden = 130};

}  // namespace

TEST_CASE("lesson 13 is right on every shape, and no mistake is seen") {
  NEEDS_GPU();
  const Types types = types_of(GENERATE("fp32", "bf16", "bf16/fp32", "fp16/none"));
  for (const int hidden : kHidden) {
    for (const int rows : {0, 1, 7, 70}) {
      const Shape shape = in_time(rows, hidden);
      WorkloadSpec spec{.rows = shape.rows, .hidden = hidden, .types = types};
      CAPTURE(to_string(types), shape.rows, hidden);
      CHECK(verify(lesson_13(), BackwardWorkload(spec), nullptr, Watch::yes).complaint == "");
      spec.misalign = 1;
      CHECK(verify(lesson_13(), BackwardWorkload(spec), nullptr, Watch::yes).complaint == "");
    }
  }
}

TEST_CASE("lesson 13 is right on many rows of every kind", "[sanitizer]") {
  NEEDS_GPU();
  for (const Shape wanted :
       {Shape{1000, 128}, Shape{777, 256}, Shape{70000, 8}, Shape{3000, 520}, Shape{16384, 4096},
        Shape{2000, 16384}, Shape{300, 40000}}) {
    const Shape shape = in_time(wanted.rows, wanted.hidden);
    if (!is_cpu_device() && !fits_on_gpu(2 * shape.rows, shape.hidden)) continue;
    for (const Types& types : {types_of("fp32"), types_of("bf16", 1)}) {
      CAPTURE(to_string(types), shape.rows, shape.hidden);
      const BackwardWorkload workload({.rows = shape.rows, .hidden = shape.hidden, .types = types});
      CHECK(verify(lesson_13(), workload).complaint == "");
    }
  }
}

TEST_CASE("lesson 13 is right beyond 2^31 elements") {
  NEEDS_GPU();
  if (is_cpu_device()) SKIP_TEST("it would take the CPU device minutes");
  for (const Shape shape : {Shape{4194305, 513}, Shape{4194305, 512}}) {
    if (!fits_on_gpu(2 * shape.rows, shape.hidden)) continue;
    const BackwardWorkload workload(
        {.rows = shape.rows, .hidden = shape.hidden, .types = types_of("bf16")});
    CHECK(verify(lesson_13(), workload).complaint == "");
  }
}

TEST_CASE("without a dweight lesson 13 writes dx alone") {
  NEEDS_GPU();
  for (const int hidden : {128, 4096, 20000}) {
    const BackwardWorkload workload({.rows = 9, .hidden = hidden});
    const FencedTensor workspace = workload.workspace_for(lesson_13().backward);
    BackwardProblem p = workload.problem();
    p.workspace = workspace.data();
    p.dweight = nullptr;
    cuda_check(backward::backward(p, nullptr), "launching");
    CHECK(compare_on_host(p, backward::row_depth(p), backward::column_depth(p)).complaint == "");
    CHECK(is_poison(to_floats(workload.dweight().data(), Dtype::fp32, 1)[0]));
  }
}

TEST_CASE("the forward pass of lesson 13 gives y and rstd on every shape") {
  NEEDS_GPU();
  const Types types =
      GENERATE(types_of("fp32"), types_of("bf16", 1), types_of("bf16/fp32"), types_of("fp16/none"));
  const Lesson forward = forward_pass();
  for (const int hidden : kHidden) {
    for (const auto& [rows, misalign, eps] :
         {std::tuple(7, 0, 1e-5f), {in_time(70, hidden).rows, 1, 1.0f}, {0, 0, 1e-5f}}) {
      const Workload workload(
          {.rows = rows, .hidden = hidden, .eps = eps, .misalign = misalign, .types = types});
      const FencedTensor rstd(Memory::device, Dtype::fp32, rows, 1, 0);
      rstd.poison();
      to_rstd = static_cast<float*>(rstd.data());
      CAPTURE(to_string(types), rows, hidden, misalign, eps);
      CHECK(verify(forward, workload, nullptr, Watch::yes).complaint == "");
      CHECK(complaint_about_guards(rstd, "rstd", "rows") == "");
      const TypedProblem p = workload.typed_problem();
      const double bound = relative_error_bound(forward.sum_depth(p));
      const std::vector<float> got = to_floats(rstd.data(), Dtype::fp32, rows);
      const std::vector<float> x = to_floats(p.x, p.dtype, std::size_t(rows) * hidden);
      for (int row = 0; row < rows; ++row) {
        const double expected =
            reference_row_rstd(x.data() + std::size_t(row) * hidden, hidden, p.eps);
        CHECK(std::abs(got[row] - expected) <= bound * expected);
      }
    }
  }
}

TEST_CASE("the verifier of backward passes accepts a right one on the device") {
  NEEDS_GPU();
  for (WorkloadSpec spec : {kSmall, kLarge}) {
    for (const Types& types : all_types()) {
      spec.types = types;
      const Lesson lesson = tests::backward_lesson(tests::launch_right_backward, Memory::device);
      CAPTURE(to_string(types), spec.rows);
      CHECK(verify(lesson, BackwardWorkload(spec)).complaint == "");
    }
  }
}

TEST_CASE("the verifier rejects every fault of a backward pass on the device") {
  NEEDS_GPU();
  for (const WorkloadSpec& spec : {kSmall, kLarge}) {
    for (const tests::BackwardFault& fault : tests::backward_faults()) {
      CAPTURE(fault.name, spec.rows);
      const Lesson lesson = tests::backward_lesson(fault.launch, Memory::device);
      const Verification found = verify(lesson, BackwardWorkload(spec));
      CHECK_FALSE(found.ok());
      CHECK_THAT(found.complaint, contains(fault.complaint));
    }
  }
}

TEST_CASE("host and device find the same in a backward pass") {
  NEEDS_GPU();
  for (const Types& types : all_types()) {
    const BackwardWorkload workload({.rows = 37, .hidden = 300, .types = types});
    const BackwardProblem p = workload.problem();
    tests::launch_right_backward(p, nullptr);
    std::vector<float> dx = to_floats(p.dx, p.dtype, 37 * 300);
    for (const bool damaged : {false, true}) {
      if (damaged) dx[20 * 300 + 7] *= 1.5f;
      from_floats(dx, p.dx, p.dtype);
      const Verification on_host = compare_on_host(p, 20, 20);
      const Verification on_device = compare_on_device(p, 20, 20);
      CAPTURE(to_string(types), damaged);
      CHECK(on_host.ok() == !damaged);
      CHECK(on_host.complaint == on_device.complaint);
      CHECK(std::abs(*on_host.max_error - *on_device.max_error) <= 1e-9);
    }
  }
}
