/// \file
/// When the clock measures again, with readings that a test makes up instead of a GPU's.

#include <algorithm>
#include <optional>
#include <vector>

#include "common/measure/calm.hpp"
#include "tests/catch.hpp"

using namespace rmsnorm;

namespace {

using Reading = std::optional<Disturbance>;
using Seconds = std::vector<int>;

constexpr Reading kNone = std::nullopt;
constexpr Reading kPower = Disturbance::power;
constexpr Reading kHeat = Disturbance::heat;

/// A GPU with a reading for each measurement; the last one stays.
class Gpu {
 public:
  explicit Gpu(std::vector<Reading> readings) : readings_(std::move(readings)) {}

  /// Its median is the number of measurements so far.
  Timing timed() {
    return calm_.timed([&](const Calm::Look& look) {
      look();
      ++measured;
      return Timing{.median_us = 1.0 * measured, .spread_pct = 1, .samples = 11};
    });
  }

  int measured = 0;
  Seconds rests;

 private:
  std::vector<Reading> readings_;
  Calm calm_{
      [this] { return readings_[std::min<std::size_t>(measured, readings_.size() - 1)]; },
      [this](Disturbance, int seconds) { rests.push_back(seconds); }};
};

}  // namespace

TEST_CASE("what was disturbed is repeated after a rest, three times at most, and the last counts") {
  struct Case {
    std::vector<Reading> readings;
    Reading disturbed;
    Seconds rests;
  };
  for (const Case& c : std::vector<Case>{
           {{kNone}, kNone, {}},
           {{kPower, kHeat, kNone}, kNone, {2, 4}},
           {{kPower, kPower, kPower, kHeat}, kHeat, {2, 4, 8}}}) {
    Gpu gpu(c.readings);
    const Timing timing = gpu.timed();
    CHECK(timing.disturbed == c.disturbed);
    CHECK(timing.median_us == static_cast<double>(c.readings.size()));
    CHECK(gpu.rests == c.rests);
  }
}

TEST_CASE("a disturbance in the middle of a measurement is seen") {
  int looks = 0;
  Calm calm([&] { return ++looks == 2 ? kHeat : kNone; }, [](Disturbance, int) {});
  int measured = 0;
  const Timing timing = calm.timed([&](const Calm::Look& look) {
    ++measured;
    for (int i = 0; i < 3; ++i) look();
    return Timing{};
  });
  CHECK(measured == 2);
  CHECK_FALSE(timing.disturbed);
}

TEST_CASE("a GPU that is always at its cap is not waited for again and again but each is marked") {
  std::vector<Reading> readings(3 * 4 + 1, kPower);
  readings.push_back(kNone);
  readings.push_back(kPower);
  Gpu gpu(readings);
  for (int i = 0; i < 3; ++i) CHECK(gpu.timed().disturbed);
  CHECK(gpu.rests.size() == 9);
  CHECK(gpu.timed().disturbed);
  CHECK(gpu.rests.size() == 9);  // no repeat has helped so far

  CHECK_FALSE(gpu.timed().disturbed);
  CHECK(gpu.timed().disturbed);  // it can be undisturbed: worth a wait
  CHECK(gpu.rests.size() == 12);
}

TEST_CASE("caps of power and of heat disturb and an idle GPU or chosen clocks do not") {
  for (const unsigned long long reasons : {0x0, 0x1, 0x2, 0x10, 0x100, 0x113})
    CHECK_FALSE(disturbance_of(reasons));
  for (const unsigned long long reasons : {0x4, 0x8, 0x80, 0x88, 0x5})
    CHECK(disturbance_of(reasons) == Disturbance::power);
  for (const unsigned long long reasons : {0x20, 0x40, 0x48, 0x24})
    CHECK(disturbance_of(reasons) == Disturbance::heat);
}
