/// \file
/// The profiler's counts, recorded on GPUs, against what the lessons predict.

#include <filesystem>
#include <vector>

#include "common/registry.hpp"
#include "plots/profile.hpp"
#include "tests/catch.hpp"
#include "tests/repository.hpp"

using rmsnorm::Lesson;
using rmsnorm::plots::Profile;

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
  constexpr double kSectorBytes = 32;
  // With 16 rows, the foil of lesson 02 has half a warp, which shares the weight among fewer rows.
  constexpr double kTolerance = 0.02;
  REQUIRE_FALSE(profile_files().empty());
  for (const auto& file : profile_files()) {
    for (const Profile& profile : rmsnorm::plots::read_profiles(file)) {
      CAPTURE(file.string(), profile.lesson, profile.regime);
      bool found = false;
      for (const Lesson& lesson : rmsnorm::all_lessons()) {
        if (profile.lesson != lesson.slug) continue;
        found = true;
        const rmsnorm::Traffic predicted = lesson.traffic(profile.hidden);
        const double read = kSectorBytes * profile.sectors_read / profile.rows;
        const double written = kSectorBytes * profile.sectors_written / profile.rows;
        CHECK_THAT(read, Catch::Matchers::WithinRel(predicted.read, kTolerance));
        CHECK_THAT(written, Catch::Matchers::WithinRel(predicted.written, kTolerance));
      }
      CHECK(found);
    }
  }
}
