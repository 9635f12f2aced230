/// \file
/// The profiler's counts, recorded on GPUs, against what the lessons predict.

#include <algorithm>
#include <filesystem>
#include <vector>

#include "common/base/files.hpp"
#include "common/contract/registry.hpp"
#include "common/contract/types.hpp"
#include "common/tensors/workload.hpp"
#include "plots/charts.hpp"
#include "plots/limits.hpp"
#include "plots/profile.hpp"
#include "tests/catch.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using namespace rmsnorm::plots;
using tests::contains;

namespace {

/// plots/data/NAME-profile.csv, for every GPU that was profiled.
std::vector<std::filesystem::path> profile_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(tests::top() / "plots/data")) {
    if (entry.path().filename().string().ends_with("-profile.csv")) files.push_back(entry.path());
  }
  return files;
}

}  // namespace

TEST_CASE("every lesson's predicted traffic is what the profiler counted, within two per cent") {
  // With 16 rows, the variant of lesson 02 has half a warp, which shares the weight among fewer
  // rows.
  constexpr double kTolerance = 0.02;
  REQUIRE_FALSE(profile_files().empty());
  for (const auto& file : profile_files()) {
    for (const Profile& profile : read_profiles(file)) {
      CAPTURE(file.string(), profile.implementation, profile.regime);
      bool found = false;
      for (const auto& implementation : all_implementations()) {
        if (profile.implementation != implementation.slug) continue;
        if (profile.operation != implementation.operation->name) continue;
        found = true;
        const Workload workload(
            *implementation.operation, {.memory = Memory::host,
                                        .rows = static_cast<int>(std::min(profile.rows, 32.0)),
                                        .hidden = profile.hidden,
                                        .types = *types_named(profile.dtype)});
        const Traffic predicted = implementation.traffic(workload.problem());
        const double read = kSectorBytes * profile.sectors_read / profile.rows;
        const double written = kSectorBytes * profile.sectors_written / profile.rows;
        // The unit that the profiler counts loads of does not see what is copied in bulk.
        const bool copies_x = profile.implementation == "librmsnorm" &&
                              profile.operation == "rms_norm" && profile.regime == "wide";
        const double in_bulk =
            copies_x ? profile.hidden * bytes_of(workload.spec().types.dtype) : 0;
        CHECK_THAT(read, Catch::Matchers::WithinRel(predicted.read - in_bulk, kTolerance));
        CHECK_THAT(written, Catch::Matchers::WithinRel(predicted.written, kTolerance));
      }
      CHECK(found);
    }
  }
}

TEST_CASE("what an SM has in flight follows from its threads and what each of them asks for") {
  const tests::TemporaryFolder folder;
  write_file(
      folder / "l.csv",
      "implementation,regime,dtype,kernel,threads,registers,spilled_bytes,x_bytes_at_once,waits\n"
      "10_a,prefill,fp32,a,256,30,8,64,3\n10_a,decode,fp32,a,256,30,8,64,\n");
  const auto loads = read_loads(folder / "l.csv");
  Profile prefill;
  prefill.implementation = "10_a";
  prefill.regime = "prefill";
  prefill.dtype = "fp32";
  prefill.active_warps = 50;
  prefill.instructions = 33792 * 40;
  prefill.device = "NVIDIA H200";
  Profile decode = prefill;
  decode.regime = "decode";
  Result timed;
  timed.implementation = "10_a";
  timed.regime = "prefill";
  timed.cache = Cache::cold;
  timed.bytes = 33792 * 1024;  // 128 KiB of x for each of 132 SMs
  timed.gbps = 1056;           // 4 bytes/ns of x for each
  timed.roof_gbps = 2112;
  Result few = timed;
  few.regime = "decode";
  few.bytes /= 64;
  few.gbps = 264;
  const std::vector<Result> results = {timed, few};
  std::vector<Profile> profiles = {prefill, decode};

  const auto limits = limits_of(results, profiles, loads);
  REQUIRE(limits.size() == 2);
  CHECK(limits[0].in_flight == 1024 * 64);  // half of 2048 threads
  CHECK(limits[0].share == 50);             // of the copy
  CHECK(limits[0].ns == 1024 * 64 / 4);
  CHECK(limits[0].instructions == 40);
  // 132 SMs issue four in each of 1.98 cycles a nanosecond, for 32768 ns.
  const double slots = 32768 * 132 * 4 * 1.98;
  CHECK(std::abs(limits[0].issued - 100 * 33792 * 40 / slots) < 1e-9);
  CHECK(std::abs(instructions_in_time(limits[0]) - slots / 32768 / 2112 * 1024) < 1e-9);
  CHECK(limits[1].in_flight == 2 * 1024);  // the launch has no more
  CHECK(limits[1].share == 12.5);          // of the copy in prefill
  CHECK(soonest(limits).loads == &loads[1]);

  const auto table = [&](const std::vector<std::string>& words) {
    return make_limits_table(limits, words);
  };
  CHECK_THROWS_WITH(
      table({"limits", "wide", "bf16", "10_a"}), "there are no loads of '10_a' in 'wide', bf16");
  CHECK_THROWS_WITH(table({"limits", "prefill"}), contains("needs a regime and a slug"));
  CHECK_THROWS_WITH(table({"limits", "law"}), contains("no profile of decode in bf16"));

  // What was disturbed has a mark, which is explained.
  std::vector<Result> disturbed = results;
  disturbed[0].disturbed = Disturbance::power;
  const auto marked = limits_of(disturbed, profiles, loads);
  CHECK_THAT(
      make_limits_table(marked, {"limits", "prefill", "10_a"}),
      contains("| 50 % † |") && contains("\n\n†: the GPU was at the power cap.\n\n"));
  CHECK_THAT(bytes_in_flight_chart(marked)->subtitle, contains("†: the GPU was at the power cap"));

  profiles[0].device = "another GPU";
  CHECK_THROWS_WITH(
      limits_of(results, profiles, loads), contains("how many SMs a 'another GPU' has"));
}
