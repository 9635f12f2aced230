/// \file
/// Each operation's reference, bound and comparison, on the host and on the device, against the
/// tests' own formulas and values worked out by hand.

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>
#include <vector>

#include "common/base/device.hpp"
#include "common/operations/backward.hpp"
#include "common/operations/rms_norm.hpp"
#include "common/operations/softmax.hpp"
#include "common/tensors/random.hpp"
#include "common/tensors/workload.hpp"
#include "common/verify/verifier.hpp"
#include "tests/bits.hpp"
#include "tests/faults.hpp"
#include "tests/gpu_support.hpp"

using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;
using namespace rmsnorm;
using tests::operations;

namespace {

const SumDepth kDepth(20, 20);

const Operation& rms_norm() {
  return operation_of<RmsNorm>();
}

WorkloadSpec spec_of(int rows, int hidden, const Types& types = {}) {
  return {.memory = Memory::host, .rows = rows, .hidden = hidden, .types = types};
}

/// Every combination of types, without and with a bias.
std::vector<Types> all_types_and_biases() {
  std::vector<Types> all = all_types();
  for (Types types : all_types()) {
    if (!types.weight) continue;
    types.weight_bias = 1;
    all.push_back(types);
  }
  return all;
}

Comparison compare_on_host(const Workload& workload) {
  return workload.operation().compare_on_host(workload.before(), workload.problem(), kDepth);
}

Comparison compare_on_device(const Workload& workload) {
  return workload.operation().compare_on_device(workload.before(), workload.problem(), kDepth);
}

/// What RMSNorm without a weight should make of a row's first element; eps in fp32.
Expected expected_of(const std::vector<float>& row, float eps, double bound = 0) {
  using OfY = Description<RmsNorm>::OfY;
  Problem p = tests::problem_of(1, static_cast<int>(row.size()), {.weight = {}});
  p.tensors[0] = const_cast<float*>(row.data());
  p.eps = eps;
  OfY::Sum sum;
  for (int col = 0; col < p.hidden; ++col) OfY::add(sum, OfY::term(p, 0, col));
  return OfY::expected(p, sum, 0, 0, bound);
}

double rstd_of(const std::vector<float>& row, float eps) {
  double sum = 0;
  for (const float x : row) sum += double{x} * x;
  return reference_rstd(sum, static_cast<int>(row.size()), eps);
}

void make_absolute(std::vector<double>& values) {
  for (double& value : values) value = std::abs(value);
}

double bound_of(int additions, const Types& types = {}) {
  return rms_norm_bound(additions, types);
}

}  // namespace

TEST_CASE("the bytes that have to be moved are those of the matrices, once for each direction") {
  const Types bf16 = *types_named("bf16");
  for (const auto& [operation, matrices] :
       {std::pair(operations()[0], 2), {operations()[1], 4}, {operations()[2], 3}}) {
    CHECK(bytes_to_move(*operation, {10, 100}, {}) == matrices * 10 * 100 * 4);
    CHECK(bytes_to_move(*operation, {10, 100}, bf16) == matrices * 10 * 100 * 2);
  }
  CHECK(bytes_to_move(rms_norm(), {262144, 4096}, {}) == 8'589'934'592);  // beyond 32 bits, too
  CHECK(bytes_of_tensors(rms_norm(), {10, 100}, {}) == (2 * 10 + 1) * 100 * 4);
  CHECK(bytes_of_tensors(rms_norm(), {10, 100}, *types_named("fp32/none")) == 2 * 10 * 100 * 4);
  CHECK(bytes_of_tensors(*operations()[2], {10, 100}, bf16) == (3 * 10 + 2) * 100 * 2 + 10 * 4);
}

TEST_CASE("the largest error is that of the arithmetic and half an ulp of the type") {
  for (const Operation* operation : operations()) {
    const auto bound = [&](const char* types) {
      return operation->error_bound(tests::problem_of(9, 100, *types_named(types)), {50, 60});
    };
    CAPTURE(operation->name);
    CHECK(bound("fp32") > 0);
    CHECK_THAT(bound("fp16"), WithinRel(bound("fp32") + 0x1p-11, 1e-12));
    CHECK_THAT(bound("bf16"), WithinRel(bound("fp32") + 0x1p-8, 1e-12));
    const Problem p = tests::problem_of(9, 100);
    const auto with = [&](SumDepth depth) { return operation->error_bound(p, depth); };
    CHECK(with({100, 100}) > with({50, 50}));
  }
  const double with_bias = bound_of(50, {.weight_bias = 1});
  CHECK(with_bias > bound_of(50));
  CHECK(with_bias < bound_of(50) + 2 * 0x1p-24);
}

TEST_CASE("the bounds are what their derivations add up to") {
  // To first order, (additions + 4) / 2 + 4 + 2 halves of an ulp.
  CHECK_THAT(bound_of(0), WithinRel(1.01 * 8 * 0x1p-24, 1e-5));
  CHECK_THAT(bound_of(100), WithinRel(1.01 * 58 * 0x1p-24, 1e-5));
  // Where the mean can be off by 0.75, its root can be half of what it should be: off by 1.
  CHECK_THAT(bound_of((3 << 22) - 4), WithinRel(1.01, 1e-5));
  // Where the sum can lose all its digits, there is none.
  CHECK(bound_of((1 << 24) - 5) < 1e5);
  CHECK(std::isinf(bound_of((1 << 24) - 4)));
  CHECK(std::isinf(bound_of(1 << 25)));
  for (int depth = 0; depth < 70000; ++depth) REQUIRE(bound_of(depth) < bound_of(depth + 1));
  using OfGradients = Description<Backward>;
  CHECK_THAT(OfGradients::OfDx::bound(100, {}), WithinRel(1.01 * 110 * 0x1p-24, 1e-9));
  CHECK_THAT(OfGradients::OfDweight::bound(100, {}), WithinRel(1.01 * 102 * 0x1p-24, 1e-9));
}

TEST_CASE("an element may be off by the bound and no further wherever it is in whatever output") {
  for (const Operation* operation : operations()) {
    const Workload workload(*operation, spec_of(5, 130));
    for (const TensorSpec& spec : operation->tensors) {
      if (!is_written(spec)) continue;
      const GuardedTensor& tensor = workload.tensor(spec.name);
      auto* const elements = static_cast<float*>(tensor.data());
      const auto size = static_cast<std::int64_t>(tensor.size());
      for (const std::int64_t i : {std::int64_t{0}, size / 2 + 7, size - 1}) {
        CAPTURE(operation->name, spec.name, i);
        workload.reset();
        tests::store_solution(*operation, workload.problem());
        const float right = elements[i];
        for (std::int64_t later = i; later < size; ++later) elements[later] = 2 * right + 1e6f;
        const Comparison found = compare_on_host(workload);
        const Mismatch mismatch = found.mismatch.value();  // the first
        CHECK(mismatch.tensor == std::string(spec.name));
        CHECK(mismatch.row == (is_matrix(spec) ? i / 130 : -1));
        CHECK(mismatch.col == i % 130);
        CHECK_THAT(mismatch.expected, WithinRel(double{right}, 1e-5));
        CHECK(mismatch.got == 2 * right + 1e6f);
        CHECK(*found.max_error > 1e3);
        if (spec.role != Role::output) continue;
        workload.reset();
        tests::store_solution(*operation, workload.problem());
        for (const double errors : {-1.05, -0.95, 0.95, 1.05}) {
          elements[i] = static_cast<float>(mismatch.expected + errors * mismatch.allowed);
          CAPTURE(errors);
          CHECK(compare_on_host(workload).mismatch.has_value() == (std::abs(errors) > 1));
        }
      }
    }
  }
}

TEST_CASE("host and device find the same in random problems of every operation and type") {
  NEEDS_GPU();
  const std::vector<Types> types = all_types_and_biases();
  int with_mismatch = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::uint64_t draws = 0;
    const auto draw = [&](std::size_t below) {
      return static_cast<int>(random_bits(seed, draws++) % below);
    };
    const Operation& operation = *operations()[seed % operations().size()];
    WorkloadSpec spec = spec_of(1 + draw(40), 1 + draw(3000), types[draw(types.size())]);
    spec.seed = seed;
    spec.misalign = draw(4);
    CAPTURE(seed, operation.name, spec.rows, spec.hidden, to_string(spec.types));
    const Workload host(operation, spec);
    spec.memory = Memory::device;
    const Workload device(operation, spec);
    if (draw(4) == 0) {
      std::vector<float> x = host.tensor("x").values();
      const float special[] = {NAN, INFINITY, 0, 1e30f};
      std::fill(x.begin() + draw(x.size()), x.end(), special[draw(4)]);
      host.set("x", x);
      device.set("x", x);
    }
    host.reset();
    tests::store_solution(operation, host.problem());
    const int errors = draw(4);
    for (const TensorSpec& tensor : operation.tensors) {
      if (!is_written(tensor)) continue;
      const GuardedTensor& on_host = host.tensor(tensor.name);
      for (int i = 0; i < errors && is_there(tensor, spec.types); ++i) {
        const int at = draw(on_host.size());
        const float right = tests::get(on_host.data(), on_host.dtype(), at);
        const float poison = value_of(Dtype::fp32, poison_bits(Dtype::fp32));
        const float wrong[] = {right * 1.001f, -right, 0, 1, NAN, INFINITY, 1e30f, poison};
        tests::put(on_host.data(), on_host.dtype(), at, wrong[draw(8)]);
      }
      const std::size_t bytes = on_host.size() * bytes_of(on_host.dtype());
      copy_bytes(device.tensor(tensor.name).data(), on_host.data(), bytes);
    }
    const Comparison of_host = compare_on_host(host);
    const Comparison of_device = compare_on_device(device);
    const double error = of_host.max_error.value();
    const double error_there = of_device.max_error.value();
    CHECK((error == error_there || std::abs(error - error_there) <= 1e-9 * (1 + error)));
    REQUIRE(of_host.mismatch.has_value() == of_device.mismatch.has_value());
    if (!of_host.mismatch) continue;
    ++with_mismatch;
    CHECK(of_host.mismatch->row == of_device.mismatch->row);
    CHECK(of_host.mismatch->col == of_device.mismatch->col);
    CHECK(tests::same_bits({of_host.mismatch->got}, {of_device.mismatch->got}));
    CHECK(to_sentence(*of_host.mismatch) == to_sentence(*of_device.mismatch));
  }
  CHECK(with_mismatch > 80);
  CHECK(with_mismatch < 190);
}

TEST_CASE("what is derived from the inputs is exact on the host and on the device") {
  NEEDS_GPU();
  for (const Memory memory : {Memory::host, Memory::device}) {
    WorkloadSpec spec = spec_of(5, 130);
    spec.memory = memory;
    spec.eps = 0.25f;
    const Workload workload(operation_of<Backward>(), spec);
    const auto check = [&] {
      const std::vector<float> x = workload.tensor("x").values();
      const std::vector<float> rstd = workload.tensor("rstd").values();
      for (int row = 0; row < 5; ++row) {
        const std::vector<float> of_row(x.begin() + row * 130, x.begin() + (row + 1) * 130);
        CHECK_THAT(rstd[row], WithinRel(rstd_of(of_row, 0.25f), 1.0 * 0x1p-24));
      }
    };
    check();
    std::vector<float> x = workload.tensor("x").values();
    for (float& value : x) value *= 3;
    workload.set("x", x);
    check();
  }
}

TEST_CASE("the gradients are the finite differences of the forward pass") {
  const Operation& backward = operation_of<Backward>();
  for (const double eps : {1e-5, 0.5, 0.0}) {
    for (const auto& [rows, hidden] : {std::pair(1, 1), {1, 7}, {4, 3}, {3, 33}, {2, 128}}) {
      WorkloadSpec spec = spec_of(rows, hidden);
      spec.eps = static_cast<float>(eps);
      spec.seed = 3 + hidden;
      const Workload workload(backward, spec);
      tests::Numbers n = tests::numbers_of(backward, workload.problem());
      const tests::Tensors gradients = tests::solve(backward, n);
      // Of terms without their signs: an error is in proportion to those.
      tests::Numbers sizes = n;
      for (auto& [name, values] : sizes.tensors) make_absolute(values);
      make_absolute(sizes.factors);
      sizes.sign_of_mean = 1;
      const tests::Tensors terms = tests::solve(backward, sizes);
      const std::vector<double> dy = n.tensors.at("dy");
      const auto loss = [&] {  // the sum of y's elements, each times its dy
        const std::vector<double> y = tests::solve(rms_norm(), n).at("y");
        double sum = 0;
        for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
        return sum;
      };
      const auto derivative = [&](double& variable) {
        const double at = variable;
        const double step = 1e-4 * (1e-2 + std::abs(at));
        variable = at + step;
        const double above = loss();
        variable = at - step;
        const double below = loss();
        variable = at;
        return (above - below) / (2 * step);
      };
      CAPTURE(eps, rows, hidden);
      // rstd is rounded to fp32: off by 2^-24, and up to three times that in dx.
      const auto check = [&](std::vector<double>& variables, const char* gradient) {
        for (std::size_t i = 0; i < variables.size(); ++i) {
          const double allowed = 2e-7 * terms.at(gradient)[i] + 1e-8;
          CAPTURE(gradient, i);
          CHECK_THAT(derivative(variables[i]), WithinAbs(gradients.at(gradient)[i], allowed));
        }
      };
      check(n.tensors.at("x"), "dx");
      check(n.factors, "dweight");
    }
  }
}

TEST_CASE("gradients may be off in proportion to the sizes of what was added up") {
  // Two rows whose products 3 and -2 add up to 1: an error is in proportion to 5.
  using OfDweight = Description<Backward>::OfDweight;
  OfDweight::Sum sum;
  OfDweight::add(sum, {3, 3});
  OfDweight::add(sum, {-2, 2});
  const Expected dweight = OfDweight::expected(tests::problem_of(2, 1), sum, -1, 0, 0x1p-20);
  CHECK(dweight.value == 1);
  CHECK(dweight.size == 5);
  CHECK_THAT(dweight.allowed, WithinRel(5 * 0x1p-20, 1e-12));
  // The two terms of dx: g = 1, n * mean = 2 * 0.5, of products that are 4 in size.
  float x = 2, weight = 1, rstd = 1, dy = 1;
  Problem p = tests::problem_of(1, 1);
  void* const inputs[] = {&x, &weight, &rstd, &dy};
  std::copy(std::begin(inputs), std::end(inputs), p.tensors);
  const Expected dx = Description<Backward>::OfDx::expected(p, {0.5, 4}, 0, 0, 0);
  CHECK(dx.value == 0);
  CHECK(dx.size == 1 + 2 * 4);
}

TEST_CASE("eps is added to the mean, inside the root") {
  // Mean of squares 4, eps 5: 1 / sqrt(4 + 5). Added to the sum it would be 1 / sqrt(13 / 2), added
  // to the root 1 / 7.
  CHECK_THAT(expected_of({2, -2}, 5).value, WithinRel(2.0 / 3, 1e-15));
}

TEST_CASE("rows of zeros and NaN and Inf and beyond fp32 are what IEEE 754 says") {
  const float inf = INFINITY;
  const float nan = NAN;
  struct Row {
    std::vector<float> x;
    float eps;
    std::vector<float> right, wrong;
  };
  for (const Row& row : std::vector<Row>{
           {{0, 0, 0}, 1e-4f, {0, -0.0f}, {1e-30f, nan}},
           {{0, 0}, 0, {nan}, {0, inf}},
           {{1, FLT_MAX / 4}, 1e-5f, {0}, {1}},  // the sum leaves fp32's range
           {{1, nan, 2}, 1e-5f, {nan}, {0, inf}},
           {{1, -inf, 2}, 1e-5f, {0}, {nan, 1}},
           {{-inf, 1, 2}, 1e-5f, {nan}, {0, -inf}},
           {{2, -2}, 0, {1}, {nan, inf, -1}}}) {
    CAPTURE(row.x, row.eps);
    const Expected expected = expected_of(row.x, row.eps, 1e-7);
    for (const float got : row.right) CHECK(check_element(got, expected, Dtype::fp32).ok);
    for (const float got : row.wrong) CHECK_FALSE(check_element(got, expected, Dtype::fp32).ok);
  }
  CHECK(rstd_of({1e19f, 0}, 0) > 0);                            // 1e38 is still within the range
  const Expected beyond = rms_norm_element(-2, 1, 3e38, 1e-7);  // a result that is not
  CHECK(check_element(-inf, beyond, Dtype::fp32).ok);
  CHECK_FALSE(check_element(inf, beyond, Dtype::fp32).ok);
  CHECK_FALSE(check_element(-FLT_MAX, beyond, Dtype::fp32).ok);
}

TEST_CASE("a NaN is in the sum of a softmax wherever the adding begins") {
  using OfY = Description<Softmax>::OfY;
  const OfY::Sum nan = {NAN, NAN, 0};
  const OfY::Sum number = {3, 1, 0};
  for (const auto& [first, second] : {std::pair(nan, number), std::pair(number, nan)}) {
    OfY::Sum sum;
    OfY::add(sum, first);
    OfY::add(sum, second);
    CHECK(std::isnan(sum.sum));
  }
}

TEST_CASE("a softmax's sum of a row that begins with -Inf is that of its numbers") {
  using Of = Description<Softmax>;
  std::vector<float> row = {-INFINITY, -INFINITY, 3, -INFINITY, 2};
  Problem p;
  p.tensors[Of::kX] = row.data();
  p.rows = 1;
  p.hidden = static_cast<int>(row.size());
  Of::OfY::Sum sum;
  for (int col = 0; col < p.hidden; ++col) Of::OfY::add(sum, Of::OfY::term(p, 0, col));
  CHECK_THAT(sum.sum, WithinRel(1 + std::exp(-1.0), 1e-12));
}

TEST_CASE("subnormal results may be off by their own rounding and no more") {
  const float x = FLT_MIN / 4;  // the results' spacing is 2^-149 there
  const auto check = [&](float got) {
    return check_element(got, rms_norm_element(x, 1, 1, 0), Dtype::fp32);
  };
  CHECK(check(x).ok);
  CHECK(check(x + 0x1p-149f).ok);
  CHECK_FALSE(check(x + 0x1p-147f).ok);
  CHECK(check(x + 0x1p-147f).error == 0);  // no meaning there
}
