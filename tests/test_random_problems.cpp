/// \file
/// The random problems: what is drawn, and how a failure is made small.

#include <cstdlib>
#include <set>
#include <string>

#include "common/verify/verifier.hpp"
#include "tests/catch.hpp"
#include "tests/faults.hpp"
#include "tests/random_problems.hpp"

using namespace rmsnorm;
using namespace std::chrono_literals;
using tests::contains;
using tests::operations;
using tests::random_problem;
using tests::shrink;
using tests::try_random_problems;

namespace {

constexpr int kMost = 1 << 14;

std::string report_on(const Implementation& implementation, std::uint64_t seed) {
  return try_random_problems({implementation}, seed, kMost, 20s);
}

/// Wrong in the first element of y in these problems.
Implementation wrong_if(bool (*is_wrong)(const Problem&)) {
  return tests::right_and_then(*operations()[0], Memory::host, [=](const Problem& p) {
    constexpr int kY = 2;
    if (is_wrong(p)) tests::put(p.tensors[kY], p.dtype, 0, 100);
  });
}

}  // namespace

TEST_CASE("a seed always draws the same problems and another seed draws others") {
  const auto key = [](const WorkloadSpec& spec) {
    return std::tuple(spec.rows, spec.hidden, spec.misalign, spec.eps, spec.seed);
  };
  std::set<decltype(key({}))> seen;
  for (std::uint64_t index = 0; index < 20; ++index) {
    CHECK(key(random_problem(3, index, kMost)) == key(random_problem(3, index, kMost)));
    seen.insert(key(random_problem(3, index, kMost)));
    seen.insert(key(random_problem(4, index, kMost)));
  }
  CHECK(seen.size() >= 38);
}

TEST_CASE("random problems are within the contract and come in all kinds") {
  int many_rows = 0;
  int long_rows = 0;
  int misaligned = 0;
  int whole_vectors = 0;
  for (std::uint64_t index = 0; index < 1000; ++index) {
    const WorkloadSpec spec = random_problem(7, index, kMost);
    CHECK(spec.rows >= 1);
    CHECK(spec.hidden >= 1);
    CHECK(spec.rows * spec.hidden <= kMost);
    CHECK((spec.misalign >= 0 && spec.misalign < 4));
    many_rows += spec.rows > 16;
    long_rows += spec.hidden > 1024;
    misaligned += spec.misalign > 0;
    whole_vectors += spec.hidden % 4 == 0 && spec.misalign == 0;
  }
  CHECK(many_rows > 100);
  CHECK(long_rows > 100);
  CHECK(misaligned > 100);
  CHECK(whole_vectors > 200);
}

TEST_CASE("a failing problem shrinks to the smallest that fails") {
  const auto fails = [](const WorkloadSpec& spec) { return spec.rows >= 5 && spec.hidden >= 37; };
  const WorkloadSpec least =
      shrink({.rows = 900, .hidden = 777, .eps = 0, .seed = 44, .misalign = 3}, fails);
  CHECK(least.rows == 5);
  CHECK(least.hidden == 37);
  CHECK(least.misalign == 0);
  CHECK(least.eps == WorkloadSpec{}.eps);
  CHECK(least.seed == WorkloadSpec{}.seed);
}

TEST_CASE("shrinking keeps what the failure needs") {
  const auto fails = [](const WorkloadSpec& spec) {
    return spec.hidden % 4 == 3 && spec.misalign == 2 && spec.eps == 0 && spec.seed > 40;
  };
  const WorkloadSpec least =
      shrink({.rows = 9, .hidden = 1003, .eps = 0, .seed = 44, .misalign = 2}, fails);
  CHECK(least.rows == 0);
  CHECK(least.hidden == 3);
  CHECK(least.misalign == 2);
  CHECK(least.eps == 0);
  CHECK(least.seed == 44);
}

TEST_CASE("a wrong lesson is reported with its smallest problem and the seed to see it again") {
  const Implementation large =
      wrong_if([](const Problem& p) { return p.rows >= 5 && p.hidden >= 37; });
  const Implementation without_eps =
      wrong_if([](const Problem& p) { return p.rows > 1 && p.eps == 0; });
  for (const std::uint64_t seed : {1, 2, 3}) {
    const std::string report = report_on(large, seed);
    CHECK_THAT(
        report, contains("00_fake is wrong on 5 x 37, eps 1e-05, seed 1, 0 elements behind"));
    CHECK_THAT(report, contains("row 0, column 0: expected "));
    CHECK_THAT(report, contains("again: RMSNORM_TEST_SEED=" + std::to_string(seed) + ")"));
    CHECK(report == report_on(large, seed));
  }
  CHECK_THAT(report_on(without_eps, 1), contains("00_fake is wrong on 2 x 1, eps 0, seed 1,"));
}

TEST_CASE("every fault is found on random problems") {
  for (const Operation* operation : operations()) {
    for (const tests::Fault& fault : tests::faults(*operation, Memory::host)) {
      CAPTURE(operation->name, fault.name);
      CHECK_THAT(report_on(fault.implementation, 5), contains("00_fake is wrong on "));
    }
  }
}

TEST_CASE("a right lesson is not reported and ends in time") {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Implementation> right;
  for (const Operation* operation : operations()) {
    right.push_back(tests::right(*operation, Memory::host));
  }
  CHECK(try_random_problems(right, tests::test_seed(), kMost, 200ms) == "");
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
}

TEST_CASE("the environment decides the seed") {
  const char* const before = std::getenv("RMSNORM_TEST_SEED");
  const std::string kept = before == nullptr ? "" : before;
  setenv("RMSNORM_TEST_SEED", "18446744073709551615", 1);
  CHECK(tests::test_seed() == 18446744073709551615u);
  unsetenv("RMSNORM_TEST_SEED");
  CHECK(tests::test_seed() != tests::test_seed());
  if (before != nullptr) setenv("RMSNORM_TEST_SEED", kept.c_str(), 1);
}
