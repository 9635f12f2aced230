#include "plots/limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "common/records/csv_fields.hpp"
#include "plots/format.hpp"
#include "plots/machine.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {
namespace {

/// Calls visit(name, field) for every field, in the header's order.
constexpr auto for_each_limit_field = [](auto& l, auto&& visit) {
  visit("implementation", l.implementation), visit("regime", l.regime), visit("dtype", l.dtype);
  visit("kernel", l.kernel), visit("threads", l.threads), visit("registers", l.registers);
  visit("spilled_bytes", l.spilled), visit("x_bytes_at_once", l.x_at_once), visit("waits", l.waits);
};

constexpr double kKiB = 1024;
constexpr double kThreadsOfSm = 2048;  // at most; the counted share of active warps is of these
constexpr double kIssuedByCycle = 4;   // instructions of warps, by an SM: one by each scheduler
constexpr double kCyclesByNs = 1.98;   // with which 67 TFLOP/s stand in the data sheet

/// Instructions of warps that all SMs can issue in a nanosecond.
double issued_by_ns(const Profile& profile) {
  return sms_of(profile.device) * kIssuedByCycle * kCyclesByNs;
}

/// The kernels of a regime, or of all, with tensors of a type.
std::vector<Limit> limits_in(
    const std::vector<Limit>& limits, const std::string& dtype, const std::string& regime = "") {
  return only(limits, [&](const Limit& limit) {
    return limit.loads->dtype == dtype && (regime.empty() || limit.loads->regime == regime);
  });
}

/// One column of Little's law, for a type.
std::vector<std::string> law(
    const std::vector<Limit>& limits, std::optional<double> ns, const std::string& dtype) {
  const std::vector<Limit> of_type = limits_in(limits, dtype);
  const std::vector<Limit> decode = limits_in(limits, dtype, kDecodeRegime);
  if (decode.empty()) throw std::runtime_error("there is no profile of decode in " + dtype);
  const double gbps = decode.front().gbps_of_roof;
  const double per_ns = gbps / 2 / sms_of(decode.front().profile->device);
  double fewest = std::numeric_limits<double>::infinity();
  for (const Limit& limit : of_type) {
    if (limit.share >= kNearlyAll) fewest = std::min(fewest, limit.in_flight);
  }
  const double x = decode.front().x_of_sm;
  return {
      gigabytes_per_second(gbps),
      fmt::format("{:.1f} bytes/ns", per_ns),
      ns ? microseconds(*ns / 1e3) : kNothing,
      ns ? kibibytes(per_ns * *ns) : kNothing,
      microseconds(soonest(limits).ns / 1e3),
      kibibytes(fewest),
      kibibytes(x),
      ns ? percent(100 * x / (per_ns * *ns)) : kNothing,
      percent(100 * decode.front().result->roof_gbps.value_or(0) / gbps),
      fmt::format("{:.0f}", instructions_in_time(decode.front()))};
}

/// The first rows alone are the law.
std::string law_table(const std::vector<Limit>& limits, std::optional<double> ns, bool is_brief) {
  const Loads& shortest = *soonest(limits).loads;
  const std::string quantities[] = {
      "bandwidth of the copy in *prefill*",
      "half of it, the loads, an SM's share",
      "the latency of DRAM: a load that is alone",
      "bytes in flight that the law asks of an SM, at least",
      fmt::format(
          "shortest ratio of bytes in flight to arrival rate, over all kernels: {} in *{}*",
          code(shortest.implementation), shortest.regime),
      fmt::format("the fewest with which a kernel reaches {:.0f} % of that copy", kNearlyAll),
      "x of a launch in *decode*, an SM's share",
      "ceiling of the law for *decode*, in % of that copy's bandwidth",
      "bandwidth of the copy in *decode*, cold, in % of that copy's",
      "instructions for a KiB that there are issue slots for, at that copy's bandwidth"};
  const auto fp32 = law(limits, ns, "fp32"), bf16 = law(limits, ns, "bf16");
  std::vector<TableRow> rows = {{"Little's law", "fp32", "bf16"}};
  const std::size_t count = is_brief ? 4 : fp32.size();
  for (std::size_t i = 0; i < count; ++i) rows.push_back({quantities[i], fp32[i], bf16[i]});
  return markdown_table(rows);
}

}  // namespace

std::vector<Loads> read_loads(const std::filesystem::path& file) {
  return csv::read_rows<Loads>(file, for_each_limit_field);
}

std::vector<Limit> limits_of(
    const std::vector<Result>& results, const std::vector<Profile>& profiles,
    const std::vector<Loads>& loads) {
  std::vector<Limit> limits;
  for (const Profile& profile : profiles) {
    const Loads* of_profile =
        find_row(loads, profile.implementation, profile.regime, profile.dtype);
    const Result* result =
        find_result(results, profile.implementation, {profile.regime, Cache::cold, profile.dtype});
    const auto copy = std::ranges::find_if(results, [&](const Result& r) {
      return r.regime == kPrefillRegime && r.dtype == profile.dtype && r.roof_gbps;
    });
    if (of_profile == nullptr || copy == results.end()) continue;
    if (result == nullptr || !result->gbps) continue;
    const double sms = sms_of(profile.device);
    const double x = static_cast<double>(result->bytes) / 2;  // the rest is y
    const double threads = profile.active_warps / 100 * kThreadsOfSm;
    Limit limit{};
    limit.result = result;
    limit.profile = &profile;
    limit.loads = of_profile;
    limit.x_of_sm = x / sms;  // there may not be enough for all of them
    limit.in_flight = std::min(threads * of_profile->x_at_once, limit.x_of_sm);
    limit.gbps_of_roof = *copy->roof_gbps;
    limit.share = 100 * *result->gbps / limit.gbps_of_roof;
    limit.ns = limit.in_flight / (*result->gbps / 2 / sms);
    limit.instructions = profile.instructions / (2 * x / kKiB);
    const double ns = static_cast<double>(result->bytes) / *result->gbps;
    limit.issued = 100 * profile.instructions / (ns * issued_by_ns(profile));
    limits.push_back(limit);
  }
  return limits;
}

double instructions_in_time(const Limit& limit) {
  return issued_by_ns(*limit.profile) / limit.gbps_of_roof * kKiB;
}

const Limit& soonest(const std::vector<Limit>& limits) {
  return *std::ranges::min_element(limits, {}, &Limit::ns);
}

std::string make_limits_table(
    const std::vector<Limit>& limits, const std::vector<std::string>& words,
    std::optional<double> dram_ns) {
  const bool is_brief = words.size() == 3 && words[2] == "brief";
  if (words.size() > 1 && words[1] == "law" && (words.size() == 2 || is_brief))
    return law_table(limits, dram_ns, is_brief);
  const Wanted wanted = wanted_by(words);
  std::vector<TableRow> rows = {
      {fmt::format("{}, {}", wanted.regime, wanted.dtype), "of the copy", "x in flight per SM",
       "instructions per KiB", "issue slots", "waits per row", "spilled"}};
  const std::vector<Limit> of_regime = limits_in(limits, wanted.dtype, wanted.regime);
  std::vector<const Result*> used;
  for (const std::string& slug : wanted.slugs) {
    const auto limit = std::ranges::find_if(
        of_regime, [&](const Limit& l) { return l.loads->implementation == slug; });
    if (limit == of_regime.end()) {
      throw std::runtime_error(
          fmt::format("there are no loads of '{}' in '{}', {}", slug, wanted.regime, wanted.dtype));
    }
    used.push_back(limit->result);
    const auto waits = limit->loads->waits;
    rows.push_back(
        {code(slug), percent(percent_of_roof(*limit->result).value_or(0)) + mark_of(*limit->result),
         kibibytes(limit->in_flight), fmt::format("{:.0f}", limit->instructions),
         percent(limit->issued), waits ? fmt::format("{:.0f}", *waits) : kNothing,
         fmt::format("{:.0f}", limit->loads->spilled)});
  }
  return fmt::format(
      "{}\n{}{}.\n", markdown_table(rows), words_for_mark(used, "", ".\n\n"),
      source_of(*of_regime.front().profile));
}

}  // namespace rmsnorm::plots
