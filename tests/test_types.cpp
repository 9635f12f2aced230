/// \file
/// Tensors of 16 bits: their names, how they lie in memory, and what the verifier asks of them.

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "common/contract/registry.hpp"
#include "common/contract/types.hpp"
#include "common/tensors/backward_workload.hpp"
#include "common/tensors/workload.hpp"
#include "common/verify/element_check.hpp"
#include "common/verify/verifier.hpp"
#include "tests/catch.hpp"
#include "tests/faults.hpp"

using namespace rmsnorm;
using tests::contains;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr Dtype kHalves[] = {Dtype::fp16, Dtype::bf16};

/// Every combination of types, without and with a bias.
std::vector<Types> all_types_and_biases() {
  std::vector<Types> all;
  for (Types types : all_types()) {
    all.push_back(types);
    if (!types.weight) continue;
    types.weight_bias = 1;
    all.push_back(types);
  }
  return all;
}

Lesson typed_lesson(LessonFunction<cudaError_t, const Problem&, cudaStream_t> launch) {
  return {
      .slug = "00_typed",
      .title = "Typed",
      .idea = "A lesson for the tests",
      .regime = "decode",
      .memory = Memory::host,
      .launch = launch,
      .traffic = +[](const TypedProblem&) { return Traffic{}; },
      .sum_depth = +[](const TypedProblem& p) { return p.hidden; }};
}

Verification verify_on_host(
    LessonFunction<cudaError_t, const Problem&, cudaStream_t> launch, WorkloadSpec spec) {
  spec.memory = Memory::host;
  return verify(typed_lesson(launch), Workload(spec));
}

WorkloadSpec spec_with(const Types& types) {
  return {.memory = Memory::host, .rows = 9, .hidden = 77, .types = types};
}

}  // namespace

TEST_CASE("the names of types are those that the command line takes and each is another") {
  std::set<std::string> names;
  for (const Types& types : all_types()) {
    const std::string name = to_string(types);
    CHECK(types_named(name) == types);
    names.insert(name);
  }
  CHECK(
      names ==
      std::set<std::string>{
          "fp32", "fp32/none", "fp16", "fp16/fp32", "fp16/none", "bf16", "bf16/fp32", "bf16/none"});
  for (const char* const name : {"", "fp64", "bf16/fp16", "fp32/fp32", "BF16", "bf16/"}) {
    CHECK_FALSE(types_named(name).has_value());
  }
}

TEST_CASE("a lesson that knows fp32 alone refuses everything else with one sentence") {
  const Lesson fp32 = tests::lesson_with(tests::launch_right, Memory::host);
  for (const Types& types : all_types_and_biases()) {
    CAPTURE(to_string(types), types.weight_bias);
    const Workload workload(spec_with(types));
    const std::string refusal = why_refused(fp32, workload.typed_problem());
    CHECK(refusal.empty() == (types == Types{}));
    if (!refusal.empty()) CHECK_THAT(refusal, contains("00_fake knows fp32 alone"));
    CHECK(why_refused(typed_lesson(tests::launch_typed), workload.typed_problem()) == "");
  }
}

TEST_CASE("a function of fp32 problems and one of all problems are called with what they take") {
  const LessonFunction<int, int> of_columns = +[](int hidden) { return 10 * hidden; };
  const LessonFunction<int, int> of_problem =
      +[](const TypedProblem& p) { return p.hidden + static_cast<int>(bytes_of(p.dtype)); };
  TypedProblem p;
  p.hidden = 100;
  p.dtype = Dtype::bf16;
  CHECK(of_columns(7) == 70);
  CHECK(of_columns(p) == 1000);
  CHECK(of_problem(7) == 11);
  CHECK(of_problem(p) == 102);
  CHECK_FALSE(of_columns.is_typed());
  CHECK(of_problem.is_typed());

  const LessonFunction<float, const Problem&> of_fp32 =
      +[](const Problem& fp32) { return fp32.x[1] + fp32.weight[1] + fp32.y[1] + fp32.eps; };
  const float x[] = {0, 1};
  const float weight[] = {0, 2};
  float y[] = {0, 4};
  const Problem problem{.x = x, .weight = weight, .y = y, .rows = 1, .hidden = 2, .eps = 8};
  CHECK(of_fp32(problem) == 15);
  CHECK(of_fp32(TypedProblem(problem)) == 15);
}

TEST_CASE("tensors of 16 bits hold the numbers of fp32 tensors, each rounded") {
  const Workload fp32(spec_with({}));
  for (const Types& types : all_types()) {
    CAPTURE(to_string(types));
    WorkloadSpec spec = spec_with(types);
    spec.misalign = 3;
    const Workload workload(spec);
    const TypedProblem p = workload.typed_problem();
    CHECK(reinterpret_cast<std::uintptr_t>(p.x) % 256 == 3u * bytes_of(p.dtype));
    CHECK(reinterpret_cast<std::uintptr_t>(p.y) % 256 == 3u * bytes_of(p.dtype));
    for (std::size_t i = 0; i < 9 * 77; ++i) {
      REQUIRE(value_at(p.x, p.dtype, i) == rounded(p.dtype, fp32.problem().x[i]));
    }
    CHECK((p.weight == nullptr) == !types.weight.has_value());
    if (p.weight == nullptr) continue;
    CHECK(reinterpret_cast<std::uintptr_t>(p.weight) % 256 == 3u * bytes_of(p.weight_dtype));
    for (std::size_t i = 0; i < 77; ++i) {
      REQUIRE(
          value_at(p.weight, p.weight_dtype, i) ==
          rounded(p.weight_dtype, fp32.problem().weight[i]));
    }
  }
}

TEST_CASE("NaN lies around tensors of 16 bits and poison in y and around it") {
  for (const Dtype dtype : kHalves) {
    const Workload workload(spec_with({.dtype = dtype, .weight = dtype}));
    const TypedProblem p = workload.typed_problem();
    const std::size_t guard = Workload::kGuardBytes / 2;
    const auto* x = static_cast<const std::uint16_t*>(p.x);
    const auto* weight = static_cast<const std::uint16_t*>(p.weight);
    const auto* y = static_cast<const std::uint16_t*>(p.y);
    for (std::size_t i = 1; i <= guard; ++i) {
      REQUIRE((*(x - i) == kHalfNan && x[9 * 77 + i - 1] == kHalfNan));
      REQUIRE((*(weight - i) == kHalfNan && weight[77 + i - 1] == kHalfNan));
    }
    const auto unwritten = [&](std::uint16_t bits) { return is_poison(value_of(dtype, bits)); };
    CHECK(std::all_of(y - guard, y + 9 * 77 + guard, unwritten));
    CHECK(workload.y_guard(0) == y - guard);
    CHECK(workload.y_guard(1) == y + 9 * 77);
  }
}

TEST_CASE("no rounding makes poison") {
  for (const Dtype dtype : kHalves) {
    CHECK(is_poison(value_of(dtype, poison_bits(dtype))));
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const std::uint32_t back = bits_of(dtype, value_of(dtype, bits));
      REQUIRE_FALSE(is_poison(value_of(dtype, back)));
    }
  }
}

TEST_CASE("a bias without a weight is refused") {
  WorkloadSpec spec = spec_with({.dtype = Dtype::bf16, .weight = {}, .weight_bias = 1});
  const char* const complaint = "weight_bias is 1, and there is no weight: it needs to be 0";
  CHECK_THROWS_WITH(Workload(spec), complaint);
  CHECK_THROWS_WITH(BackwardWorkload(spec), complaint);
  spec.types.weight = Dtype::fp32;
  CHECK_NOTHROW(Workload(spec));
  CHECK_NOTHROW(BackwardWorkload(spec));
}

TEST_CASE("the verifier accepts a right lesson in every type") {
  for (const Types& types : all_types_and_biases()) {
    for (const bool residual : {false, true}) {
      for (const int hidden : {1, 7, 1000}) {
        CAPTURE(to_string(types), types.weight_bias, residual, hidden);
        WorkloadSpec spec = spec_with(types);
        spec.hidden = hidden;
        spec.residual = residual;
        spec.seed = 5;
        const Verification found = verify_on_host(tests::launch_typed, spec);
        CHECK(found.complaint == "");
        CHECK(found.max_error.value() <= found.error_bound);
        if (hidden == 1000 && types.dtype != Dtype::fp32) {
          CHECK(
              found.max_error.value() >
              found.error_bound / 2);  // the bound is no larger than it has to be
        }
      }
    }
  }
}

TEST_CASE("what is written outside of y or not at all is found in every type") {
  const auto one_before = [](const TypedProblem& p, cudaStream_t stream) {
    tests::launch_typed(p, stream);
    set_bits(static_cast<std::byte*>(p.y) - bytes_of(p.dtype), p.dtype, 0, 0);
    return cudaSuccess;
  };
  const auto one_after = [](const TypedProblem& p, cudaStream_t stream) {
    tests::launch_typed(p, stream);
    set_bits(p.y, p.dtype, std::size_t(p.rows) * p.hidden, 0);
    return cudaSuccess;
  };
  const auto weight_changed = [](const TypedProblem& p, cudaStream_t stream) {
    tests::launch_typed(p, stream);
    set_bits(const_cast<void*>(p.weight), p.weight_dtype, 76, 0);
    return cudaSuccess;
  };
  const auto not_the_last = [](const TypedProblem& p, cudaStream_t stream) {
    tests::launch_typed(p, stream);
    set_bits(p.y, p.dtype, std::size_t(p.rows) * p.hidden - 1, poison_bits(p.dtype));
    return cudaSuccess;
  };
  for (const char* const name : {"fp16", "bf16", "bf16/fp32"}) {
    CAPTURE(name);
    const WorkloadSpec spec = spec_with(*types_named(name));
    CHECK_THAT(verify_on_host(+one_before, spec).complaint, contains("wrote 1 elements before"));
    CHECK_THAT(
        verify_on_host(+one_after, spec).complaint,
        contains("wrote 1 elements after the end of y, the first at y[rows * hidden + 0]"));
    CHECK_THAT(verify_on_host(+weight_changed, spec).complaint, contains("outside y"));
    CHECK_THAT(
        verify_on_host(+not_the_last, spec).complaint,
        contains("row 8, column 76 was not written"));
  }
}

TEST_CASE("an element of 16 bits may only be one of the two values around it") {
  for (const Dtype dtype : kHalves) {
    const float step = dtype == Dtype::fp16 ? 0x1p-10f : 0x1p-7f;  // of the numbers from 1 to 2
    const auto accepts = [&](float got, double expected) {
      return check_element(got, 1, expected, 1, 1e-6, dtype).ok;
    };
    const float above = 1 + step;
    CAPTURE(to_string(dtype));
    CHECK((accepts(1, 1) && !accepts(above, 1) && !accepts(1 - step / 2, 1)));
    CHECK((accepts(1, 1 + 0.49 * step) && !accepts(above, 1 + 0.49 * step)));
    CHECK((!accepts(1, 1 + 0.51 * step) && accepts(above, 1 + 0.51 * step)));
    // On either side of the middle, by what fp32 arithmetic can be off.
    CHECK((accepts(1, 1 + 0.5 * step) && accepts(above, 1 + 0.5 * step)));
    CHECK((accepts(-1, -1 - 0.5 * step) && accepts(-above, -1 - 0.5 * step)));
    CHECK_FALSE(accepts(NAN, 1));
    CHECK_FALSE(accepts(kInf, 1));
    CHECK(accepts(NAN, NAN));
    CHECK_FALSE(accepts(value_of(dtype, poison_bits(dtype)), NAN));
  }
}

TEST_CASE("beyond the largest fp16 a result is Inf where rounding says so") {
  const auto accepts = [](float got, double expected) {
    return check_element(got, 1, expected, 1, 1e-7, Dtype::fp16).ok;
  };
  CHECK((accepts(65504, 65519) && !accepts(kInf, 65519)));
  CHECK((!accepts(65504, 65521) && accepts(kInf, 65521) && !accepts(-kInf, 65521)));
  CHECK((accepts(65504, 65520) && accepts(kInf, 65520)));
  CHECK((accepts(-kInf, -1e30) && !accepts(-65504, -1e30)));
  CHECK(check_element(kInf, 1, 1e30, 1, 1e-7, Dtype::fp16).error == 0);  // no meaning there
}

TEST_CASE("subnormal results of fp16 are held to the values around them") {
  const auto accepts = [](float got, double expected) {
    return check_element(got, 1, expected, 1, 1e-7, Dtype::fp16).ok;
  };
  constexpr float kStep = 0x1p-24f;
  CHECK((accepts(3 * kStep, 3.4 * kStep) && !accepts(4 * kStep, 3.4 * kStep)));
  CHECK((accepts(0, 0.4 * kStep) && !accepts(kStep, 0.4 * kStep)));
  CHECK((accepts(0, 1e-30) && !accepts(kStep, 1e-30)));
  CHECK(check_element(3 * kStep, 1, 3.4 * kStep, 1, 1e-7, Dtype::fp16).error == 0);
}

TEST_CASE("the residual has to be the sum, rounded once, and is given back before each launch") {
  const auto cut_off = [](const TypedProblem& p, cudaStream_t stream) {
    tests::launch_typed(p, stream);
    const std::uint32_t bits = bits_at(p.residual, p.dtype, 77 + 3);
    set_bits(p.residual, p.dtype, 77 + 3, bits - 1);
    return cudaSuccess;
  };
  for (const Types& types : all_types()) {
    CAPTURE(to_string(types));
    WorkloadSpec spec = spec_with(types);
    spec.residual = true;
    const Verification found = verify_on_host(+cut_off, spec);
    CHECK_THAT(found.complaint, contains("the residual's row 1, column 3: expected "));
    CHECK_THAT(found.complaint, !contains("second launch"));

    const Workload workload(spec);
    const TypedProblem p = workload.typed_problem();
    const std::vector<float> before = to_floats(p.residual, p.dtype, 9 * 77);
    CHECK(before == to_floats(workload.residual_before(), p.dtype, 9 * 77));
    CHECK(before != to_floats(p.x, p.dtype, 9 * 77));
    tests::launch_typed(p, nullptr);
    CHECK(before != to_floats(p.residual, p.dtype, 9 * 77));
    workload.restore_residual();
    CHECK(before == to_floats(p.residual, p.dtype, 9 * 77));
  }
}

TEST_CASE("the largest error is that of the arithmetic and half an ulp of the type") {
  CHECK(largest_error(50, {}) == relative_error_bound(50));
  CHECK(
      largest_error(50, {.dtype = Dtype::fp16, .weight = Dtype::fp16}) ==
      relative_error_bound(50) + 0x1p-11);
  CHECK(
      largest_error(50, {.dtype = Dtype::bf16, .weight = Dtype::bf16}) ==
      relative_error_bound(50) + 0x1p-8);
  const double with_bias = relative_error_bound(50, {.weight_bias = 1});
  CHECK(with_bias > relative_error_bound(50));
  CHECK(with_bias < relative_error_bound(50) + 2 * 0x1p-24);
}
