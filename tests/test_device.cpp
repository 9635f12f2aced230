/// \file
/// The harness's own work on the GPU: the tensors, the comparison, the clock, the whole program.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "common/contract/registry.hpp"
#include "common/measure/benchmark.hpp"
#include "common/measure/gpu.hpp"
#include "common/measure/roofline.hpp"
#include "common/programs/options.hpp"
#include "common/records/csv.hpp"
#include "common/tensors/any_workload.hpp"
#include "common/tensors/random.hpp"
#include "common/verify/element_check.hpp"
#include "common/verify/verifier.hpp"
#include "tests/bits.hpp"
#include "tests/command.hpp"
#include "tests/faults.hpp"
#include "tests/gpu_support.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using tests::contains;
using tests::same_bits;

namespace {

std::size_t size_of(const WorkloadSpec& spec) {
  return std::size_t(spec.rows) * spec.hidden;
}

/// The same random problem in both memories, solved, with a few errors.
class Pair {
 public:
  explicit Pair(std::uint64_t seed)
      : seed_(seed),
        spec_{
            .memory = Memory::host,
            .rows = 1 + draw(40),
            .hidden = 1 + draw(3000),
            .eps = 1e-5f,
            .seed = seed,
            .misalign = draw(4)},
        on_host(spec_),
        on_device(device_spec()) {
    tests::launch_right(on_host.problem(), nullptr);
    const int errors = draw(4);
    for (int i = 0; i < errors; ++i) damage(on_host.problem().y[draw(static_cast<int>(size()))]);
    from_host(to_host(on_host.problem().y, size()), on_device.problem().y);
  }

 private:
  int draw(int below) {
    return static_cast<int>(random_bits(seed_, draws_++) % static_cast<std::uint64_t>(below));
  }

  std::size_t size() const { return size_of(spec_); }

  WorkloadSpec device_spec() const {
    WorkloadSpec spec = spec_;
    spec.memory = Memory::device;
    return spec;
  }

  void damage(float& y) {
    const float wrong[] = {y * 1.001f, -y, 0, NAN, INFINITY, 1e30f};
    y = wrong[draw(6)];
  }

  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  WorkloadSpec spec_;

 public:
  const Workload on_host;
  const Workload on_device;
};

/// Large enough for verify() to compare on the device.
constexpr WorkloadSpec kLarge = {.rows = 1030, .hidden = 1021};
constexpr WorkloadSpec kSmall = {.rows = 5, .hidden = 130};

tests::Finished run_all_lessons(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::string(RMSNORM_LESSONS_DIR) + "/all_lessons");
  return tests::run(arguments);
}

}  // namespace

TEST_CASE("the device fills tensors with the same bits as the host") {
  NEEDS_GPU();
  for (const int misalign : {0, 3}) {
    WorkloadSpec spec = {.rows = 1001, .hidden = 770, .seed = 11, .sets = 2, .misalign = misalign};
    const Workload device(spec);
    spec.memory = Memory::host;
    const Workload host(spec);
    for (const int set : {0, 1}) {
      CHECK(same_bits(
          to_host(device.problem(set).x, size_of(spec)),
          to_host(host.problem(set).x, size_of(spec))));
      CHECK(same_bits(
          to_host(device.problem(set).weight, 770), to_host(host.problem(set).weight, 770)));
    }
    // With the guards and y itself.
    const std::size_t fenced = size_of(spec) + 2 * Workload::kGuard;
    const auto whole = [&](const Workload& workload) {
      return to_host(workload.problem().y - Workload::kGuard, fenced);
    };
    CHECK(same_bits(whole(device), whole(host)));
    const auto guard = [&](const Workload& workload) {
      return to_host(workload.problem().x - Workload::kGuard, Workload::kGuard);
    };
    CHECK(same_bits(guard(device), guard(host)));
  }
}

TEST_CASE("the verifier accepts a right lesson on the device", "[sanitizer]") {
  NEEDS_GPU();
  for (const WorkloadSpec& spec : {kSmall, kLarge, WorkloadSpec{.rows = 0, .hidden = 5}}) {
    const Verification found =
        verify(tests::lesson_with(tests::launch_right, Memory::device), Workload(spec));
    CHECK(found.complaint == "");
    CHECK(found.max_error.value_or(0) <= 0x1p-24);
  }
}

TEST_CASE("the verifier rejects every fault on the device and says what is wrong") {
  NEEDS_GPU();
  for (const WorkloadSpec& spec : {kSmall, kLarge}) {
    const Workload workload(spec);
    for (const tests::Fault& fault : tests::faults()) {
      CAPTURE(fault.name, spec.rows);
      const Verification found = verify(tests::lesson_with(fault.launch, Memory::device), workload);
      CHECK_FALSE(found.ok());
      CHECK_THAT(found.complaint, contains(fault.complaint));
    }
  }
}

TEST_CASE("an error that a lesson forgot to return is noticed") {
  NEEDS_GPU();
  const auto forgetful = [](const Problem& p, cudaStream_t stream) {
    tests::launch_right(p, stream);
    cudaMemset(nullptr, 0, 1);
    return cudaSuccess;
  };
  const Verification found =
      verify(tests::lesson_with(forgetful, Memory::device), Workload(kSmall));
  CHECK(found.complaint == "the launch failed: invalid argument");
}

TEST_CASE("host and device find the same in random problems with errors") {
  NEEDS_GPU();
  int with_mismatch = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Pair pair(seed);
    CAPTURE(seed, pair.on_host.spec().rows, pair.on_host.spec().hidden);
    const Verification host = compare_on_host(pair.on_host.problem(), 20);
    const Verification device = compare_on_device(pair.on_device.problem(), 20);
    CHECK(host.complaint == device.complaint);
    CHECK(host.error_bound == device.error_bound);
    const double on_host = host.max_error.value();
    const double on_device = device.max_error.value();
    CAPTURE(on_host, on_device);
    CHECK((on_host == on_device || std::abs(on_host - on_device) <= 1e-12 * (1 + on_host)));
    REQUIRE(host.mismatch.has_value() == device.mismatch.has_value());
    if (!host.mismatch) continue;
    ++with_mismatch;
    CHECK(host.mismatch->row == device.mismatch->row);
    CHECK(host.mismatch->col == device.mismatch->col);
    CHECK(same_bits({host.mismatch->got}, {device.mismatch->got}));
  }
  CHECK(with_mismatch > 100);
  CHECK(with_mismatch < 200);
}

TEST_CASE("host and device agree on what an element may be off by") {
  NEEDS_GPU();
  WorkloadSpec spec = {.memory = Memory::host, .rows = 3, .hidden = 1000};
  const Workload host(spec);
  spec.memory = Memory::device;
  const Workload device(spec);
  tests::launch_right(host.problem(), nullptr);
  for (const double distance : {0.9, 1.1, -0.9, -1.1}) {
    std::vector<float> y = to_host(host.problem().y, 3000);
    y[2500] = static_cast<float>(y[2500] * (1 + distance * relative_error_bound(100)));
    from_host(y, device.problem().y);
    CHECK(compare_on_device(device.problem(), 100).ok() == (std::abs(distance) < 1));
  }
}

TEST_CASE("host and device find the same in tensors of every type") {
  NEEDS_GPU();
  for (Types types : all_types()) {
    for (const bool residual : {false, true}) {
      types.weight_bias = types.weight && residual ? 1 : 0;
      CAPTURE(to_string(types), residual);
      WorkloadSpec spec = {
          .memory = Memory::host, .rows = 33, .hidden = 301, .misalign = 1, .types = types};
      spec.residual = residual;
      const Workload host(spec);
      spec.memory = Memory::device;
      const Workload device(spec);
      const TypedProblem p = host.typed_problem();
      const TypedProblem q = device.typed_problem();
      const std::size_t bytes = 33 * 301 * bytes_of(p.dtype);
      tests::launch_typed(p, nullptr);
      const auto both = [&] {
        copy_bytes(q.y, p.y, bytes);
        if (residual) copy_bytes(q.residual, p.residual, bytes);
        const Verification on_host = compare_on_host(p, 301, host.residual_before());
        const Verification on_device = compare_on_device(q, 301, device.residual_before());
        CHECK(on_host.complaint == on_device.complaint);
        CHECK(std::abs(*on_device.max_error - *on_host.max_error) < 1e-12);
        return on_device.complaint;
      };
      const auto flip = [&](void* tensor) {
        const std::uint32_t bit = p.dtype == Dtype::fp32 ? 1 << 16 : 1 << 6;
        set_bits(tensor, p.dtype, 5000, bits_at(tensor, p.dtype, 5000) ^ bit);
      };
      CHECK(both() == "");
      flip(p.y);
      CHECK_THAT(both(), tests::contains("row 16, column 184: expected "));
      flip(p.y);
      if (!residual) continue;
      flip(p.residual);
      CHECK_THAT(both(), tests::contains("the residual's row 16, column 184: expected "));
    }
  }
}

TEST_CASE("the device compares NaN and Inf and zeros as the host does") {
  NEEDS_GPU();
  const Workload workload({.rows = 4, .hidden = 600});
  std::vector<float> x = to_host(workload.problem().x, 4 * 600);
  x[5] = NAN;
  x[600] = INFINITY;
  std::fill(x.begin() + 1200, x.begin() + 1800, 0.0f);
  std::fill(x.begin() + 1800, x.end(), 1e30f);
  workload.set_x(x);
  tests::launch_right(workload.problem(), nullptr);
  // The tests' own formula does not know that a sum can leave the range of fp32.
  std::vector<float> y = to_host(workload.problem().y, 4 * 600);
  std::fill(y.begin() + 1800, y.end(), 0.0f);
  from_host(y, workload.problem().y);
  CHECK(compare_on_host(workload.problem(), 20).complaint == "");
  CHECK(compare_on_device(workload.problem(), 20).complaint == "");

  for (const std::size_t wrong : {0, 600, 1200, 1800}) {
    std::vector<float> changed = y;
    changed[wrong] = 1;
    from_host(changed, workload.problem().y);
    CAPTURE(wrong);
    const Verification found = compare_on_device(workload.problem(), 20);
    REQUIRE(found.mismatch.has_value());
    CHECK(found.mismatch->row == static_cast<std::int64_t>(wrong) / 600);
    CHECK(found.mismatch->col == 0);
    CHECK(compare_on_host(workload.problem(), 20).complaint == found.complaint);
  }
}

TEST_CASE("the device notices an element that was not written where NaN belongs") {
  NEEDS_GPU();
  const Workload workload({.rows = 1, .hidden = 4});
  workload.set_x({1, NAN, 2, 3});
  CHECK_FALSE(compare_on_device(workload.problem(), 20).ok());
}

TEST_CASE("the GPU is described by numbers that can be") {
  NEEDS_CLOCK();
  const Gpu gpu = find_gpu();
  CHECK_FALSE(gpu.name.empty());
  CHECK_FALSE(gpu.driver.empty());
  CHECK(gpu.multiprocessors > 0);
  CHECK(gpu.l2_bytes > 100'000);
  CHECK(gpu.free_bytes > 1'000'000);
  CHECK(gpu.peak_gbps > 10);
  CHECK(gpu.peak_gbps < 100'000);
}

TEST_CASE("the copy kernel copies every element and none beyond", "[sanitizer]") {
  NEEDS_GPU();
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
    for (const int rows : {0, 1, 3, 4, 7, 8, 1023, 1024, 1025, 4099}) {
      const Workload workload(
          {.rows = rows, .hidden = 1, .types = {.dtype = dtype, .weight = dtype}});
      const TypedProblem p = workload.typed_problem();
      REQUIRE(copy_with_kernel(p, nullptr) == cudaSuccess);
      std::vector<float> x = to_floats(p.x, dtype, rows);
      x.push_back(to_floats(workload.y_guard(1), dtype, 1)[0]);
      CHECK(is_poison(x.back()));
      CHECK(same_bits(x, to_floats(p.y, dtype, rows + 1)));
    }
  }
}

TEST_CASE("no copy is faster than the roof of the caches and none takes no time") {
  NEEDS_CLOCK();
  const Workload workload({.rows = 1024, .hidden = 4096, .sets = 4});
  const double cold = measure_copy(workload, Cache::cold, 0.005);
  CHECK(cold > 1);
  CHECK(cold < 100'000);
}

TEST_CASE("every lesson can be timed") {
  NEEDS_CLOCK();
  const auto check = [](const Lesson& lesson, const Workload& workload) {
    CAPTURE(lesson.slug);
    const LaunchOnSet launch = launch_of(lesson, workload);
    for (const Cache cache : {Cache::cold, Cache::warm}) {
      const Timing timing = time_launch(launch, cache, 3, 0.002);
      CHECK(timing.median_us > 0.1);
      CHECK(timing.median_us < 1e5);
      CHECK(timing.spread_pct >= 0);
      CHECK(timing.samples >= 11);
    }
  };
  tests::for_gpu_lessons({.rows = 64, .hidden = 4096, .sets = 3}, check);
}

TEST_CASE("twice the work takes about twice the time") {
  NEEDS_CLOCK();
  const Workload workload({.rows = 8192, .hidden = 4096});
  const auto once = [&](int, cudaStream_t stream) {
    return copy_with_kernel(workload.problem(), stream);
  };
  const auto twice = [&](int set, cudaStream_t stream) {
    once(set, stream);
    return once(set, stream);
  };
  const double ratio = time_launch(twice, Cache::warm, 1, 0.02).median_us /
                       time_launch(once, Cache::warm, 1, 0.02).median_us;
  CHECK(ratio > 1.7);
  CHECK(ratio < 2.3);
}

TEST_CASE("the program verifies and times every lesson and writes what it measured") {
  NEEDS_CLOCK();
  const tests::TemporaryFolder folder;
  const std::string file = (folder / "results.csv").string();
  const tests::Finished finished =
      run_all_lessons({"--rows", "64", "--hidden", "4096", "--min-time", "0.002", "--csv", file});
  INFO(finished.out << finished.err);
  CHECK(finished.exit_code == kAllVerified);
  CHECK_THAT(finished.err, contains(find_gpu().name));
  const std::vector<Result> results = read_csv(file);
  std::map<std::string, int> tensors_of;  // that a lesson on the GPU moves
  for (const Lesson& lesson : all_lessons()) {
    if (lesson.memory == Memory::host) continue;
    tensors_of[lesson.slug] = lesson.is_backward() ? 3 : lesson.residual ? 4 : 2;
  }
  CHECK(results.size() == 2 * tensors_of.size() + 1);            // cold and warm; lesson 01 once
  CHECK(tests::lines_in(finished.out).size() > results.size());  // a summary follows
  for (const Result& result : results) {
    CAPTURE(result.lesson, result.cache);
    CHECK(result.verdict == "pass");
    if (result.device == "cpu") continue;
    REQUIRE(result.median_us.has_value());
    REQUIRE(result.copy_gbps.has_value());
    CHECK_THAT(
        *result.gbps,
        Catch::Matchers::WithinRel(
            tensors_of[result.lesson] * 64 * 4096 * 4 / *result.median_us / 1e3, 1e-4));
    CHECK(result.samples >= 11);
    CHECK(result.peak_gbps > 10);
    CHECK_FALSE(result.driver.empty());
  }
}

TEST_CASE("a refused problem is no failure and the refusal is shown") {
  NEEDS_GPU();
  const tests::Finished finished =
      run_all_lessons({"--lesson", "6", "--rows", "3", "--hidden", "5", "--min-time", "0.001"});
  CHECK(finished.exit_code == kAllVerified);
  CHECK_THAT(finished.out, contains("REFUSED") && contains("06_float4 needs hidden % 4 == 0"));
}

TEST_CASE("a problem that the GPU has no memory for makes the exit code 3 and a sentence") {
  NEEDS_GPU();
  const tests::Finished finished =
      run_all_lessons({"--lesson", "2", "--rows", "2000000000", "--hidden", "4096"});
  CHECK(finished.exit_code == kNoDevice);
  CHECK_THAT(finished.err, contains("2000000000 x 4096 needs ") && contains("GiB to spare"));
}

TEST_CASE("only the chosen state of the cache is timed") {
  NEEDS_CLOCK();
  const tests::Finished finished = run_all_lessons(
      {"--lesson", "04_warp_reduce", "--regime", "decode", "--warm", "--min-time", "0.001"});
  CHECK(tests::lines_in(finished.out).size() == 1);
  CHECK_THAT(finished.out, contains(" warm ") && contains("% of copy"));
}

TEST_CASE("the size of the cache is printed as a number alone") {
  NEEDS_CLOCK();
  const tests::Finished finished = run_all_lessons({"--l2"});
  CHECK(finished.exit_code == 0);
  CHECK(finished.out == std::to_string(find_gpu().l2_bytes >> 20) + "\n");
}

TEST_CASE("nothing is timed if only verification was asked for") {
  NEEDS_CLOCK();
  const tests::Finished finished =
      run_all_lessons({"--lesson", "04_warp_reduce", "--regime", "decode", "--verify-only"});
  CHECK(finished.exit_code == kAllVerified);
  CHECK(tests::lines_in(finished.out).size() == 1);
  CHECK_THAT(finished.out, contains("not timed") && contains("PASS"));
}
