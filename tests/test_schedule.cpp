/// \file
/// What a run sets out to do on a GPU of so much memory. No test here needs that GPU.

#include <vector>

#include "common/base/device.hpp"
#include "common/contract/registry.hpp"
#include "common/programs/options.hpp"
#include "common/programs/schedule.hpp"
#include "tests/catch.hpp"

using namespace rmsnorm;
using tests::contains;

namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;
constexpr const char* kNoClock = "the CPU device has no clock, and one set of tensors is enough";
constexpr std::size_t kL2 = std::size_t{50} << 20;

std::vector<Job> jobs_of(std::vector<const char*> arguments, std::size_t free_bytes) {
  arguments.insert(arguments.begin(), "all_lessons");
  const ParsedOptions parsed =
      parse_options(static_cast<int>(arguments.size()), arguments.data(), all_implementations());
  REQUIRE_FALSE(parsed.exit_code.has_value());
  const Gpu gpu = {
      .name = "a GPU",
      .driver = "",
      .multiprocessors = 132,
      .l2_bytes = is_cpu_device() ? 0 : kL2,
      .peak_gbps = 3000,
      .free_bytes = free_bytes};
  return make_schedule(parsed.options, gpu).jobs;
}

}  // namespace

TEST_CASE("a job has at least two sets of tensors, and one on the CPU device, which has no clock") {
  for (const Job& job : jobs_of({}, 80 * kGiB)) {
    CAPTURE(job.operation->name, job.regime, job.spec.rows);
    if (job.spec.memory == Memory::host || is_cpu_device()) {
      CHECK(job.spec.sets == 1);
      CHECK(job.caches.empty());
    } else {
      CHECK(job.spec.sets >= 2);
      CHECK(job.not_cold == "");
    }
  }
}

TEST_CASE("all sets of a regime fit the memory, with fewer rows if they must") {
  if (is_cpu_device()) SKIP_TEST(kNoClock);
  for (const std::size_t memory : {80 * kGiB, 16 * kGiB, 4 * kGiB}) {
    bool has_fewer_rows = false;
    for (const Job& job : jobs_of({}, memory)) {
      if (job.spec.memory == Memory::host) continue;
      CAPTURE(memory, job.operation->name, job.regime, job.spec.rows);
      CHECK(job.spec.sets >= 2);
      CHECK(Workload::bytes(*job.operation, job.spec) <= memory);
      has_fewer_rows = has_fewer_rows || job.has_fewer_rows;
    }
    CHECK(has_fewer_rows == (memory < 80 * kGiB));
  }
}

TEST_CASE(
    "a problem of one's own that fits once is not timed with a cold L2, and one that fits "
    "not at all is too large") {
  if (is_cpu_device()) SKIP_TEST(kNoClock);
  const std::vector<const char*> arguments = {"--lesson", "2",        "--rows",
                                              "262144",   "--hidden", "4096"};  // 8 GiB
  CHECK(jobs_of(arguments, 24 * kGiB).at(0).spec.sets == 2);
  const Job once = jobs_of(arguments, 12 * kGiB).at(0);
  CHECK(once.spec.sets == 1);
  CHECK(once.spec.rows == 262144);
  CHECK_THAT(once.not_cold, contains("too large to be timed with a cold L2"));
  CHECK_THROWS_WITH(jobs_of(arguments, 8 * kGiB), contains("262144 x 4096 needs 8.0 GiB"));
}

TEST_CASE("sets that can never be larger than the L2 are not timed with a cold one") {
  if (is_cpu_device()) SKIP_TEST(kNoClock);
  const Job tiny = jobs_of({"--lesson", "2", "--rows", "1", "--hidden", "8"}, 80 * kGiB).at(0);
  CHECK_THAT(tiny.not_cold, contains("too small to be timed with a cold L2"));
}
