#include "common/measure/calm.hpp"

#include <utility>

namespace rmsnorm {
namespace {

// NVML's names are nvmlClocksEventReason..., and nvmlClocksThrottleReason... in older drivers.
constexpr unsigned long long kSwPowerCap = 0x4;
constexpr unsigned long long kHwSlowdown = 0x8;  // comes with one of the next three, or alone
constexpr unsigned long long kSwThermalSlowdown = 0x20;
constexpr unsigned long long kHwThermalSlowdown = 0x40;
constexpr unsigned long long kHwPowerBrakeSlowdown = 0x80;

constexpr int kFirstRest = 2;  // seconds; each rest is twice as long as the one before

}  // namespace

std::optional<Disturbance> disturbance_of(unsigned long long reasons) {
  if ((reasons & (kSwThermalSlowdown | kHwThermalSlowdown)) != 0) return Disturbance::heat;
  if ((reasons & (kSwPowerCap | kHwSlowdown | kHwPowerBrakeSlowdown)) != 0) {
    return Disturbance::power;
  }
  return std::nullopt;
}

Calm::Calm(Reading reading, Rest rest) : reading_(std::move(reading)), rest_(std::move(rest)) {}

Timing Calm::timed(const std::function<Timing(const Look& look)>& measure) {
  const int repeats = in_vain_ < kInVain ? kRepeats : 0;
  for (int repeat = 0;; ++repeat) {
    std::optional<Disturbance> seen;
    Timing timing = measure([&] {
      if (!seen) seen = reading_();
    });
    timing.disturbed = seen;
    if (!seen || repeat == repeats) {
      in_vain_ = seen ? in_vain_ + 1 : 0;
      return timing;
    }
    rest_(*seen, kFirstRest << repeat);
  }
}

}  // namespace rmsnorm
