#include "plots/peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

#include "plots/format.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {
namespace {

/// The implementation's name. Those of PyTorch's compiler go without the word that they share, and
/// can be broken: "compile max" is torch.compile/max.
std::string heading(const std::string& implementation) {
  const std::string prefix = "torch.";
  std::string text = implementation;
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  std::ranges::replace(text, '/', ' ');
  return text;
}

std::string cell(const Result* result, const PeerCase& which, bool best) {
  if (result == nullptr) return kNothing;
  if (!result->median_us) return to_string(result->verdict);
  // A share has the digit that tells the best from each other.
  std::string text = which.is_about_time()
                         ? without_unit(microseconds(*result->median_us))
                         : fmt::format("{:.1f}", percent_of_roof(*result).value_or(0));
  if (best) text = "**" + text + "**";
  if (result->spread_pct.value_or(0) > kNoisyPct)
    text += fmt::format(" ± {}", percent(*result->spread_pct));
  return text + mark_of(*result);
}

std::string roof_cell(const PeerCase& which) {
  if (!which.roof_gbps) return kNothing;
  const std::string text = without_unit(
      which.is_about_time() ? microseconds(*which.roof_us)
                            : gigabytes_per_second(*which.roof_gbps));
  return text + (which.is_copy ? "" : fmt::format(" ({})", which.roof));
}

std::string table_of_regimes(
    const std::vector<Result>& results, const std::vector<std::string>& regimes) {
  for (const std::string& regime : regimes) {
    if (of_regime(results, regime).empty())
      throw std::runtime_error(fmt::format("there are no results of '{}'", regime));
  }
  const std::vector<Result> shown = only(results, [&](const Result& r) {
    return std::ranges::find(regimes, r.regime) != regimes.end();
  });
  const std::vector<PeerCase> cases = peer_cases_of(shown);
  const bool are_times = cases.front().is_about_time();
  const std::string dtype = cases.front().dtype;  // the others say theirs
  std::vector<TableRow> rows = {
      {"rows × hidden, " + dtype, word_for_roof(shown) + (are_times ? ", µs" : ", GB/s")}};
  // The library first: what a reader compares the others with stands beside the roof.
  const std::vector<std::string> names = implementations_of(shown);
  std::vector<std::size_t> columns(names.size());
  std::iota(columns.begin(), columns.end(), 0);
  std::stable_partition(
      columns.begin(), columns.end(), [&](std::size_t i) { return names[i] == "librmsnorm"; });
  for (const std::size_t i : columns) rows[0].push_back(heading(names[i]));
  for (const PeerCase& which : cases) {
    if (which.is_about_time() != are_times)
      throw std::runtime_error("one table has either times or shares of the roof");
    std::optional<double> best;
    for (const Result* result : which.results) {
      if (result != nullptr) best = std::max(best, result->gbps);
    }
    TableRow& row = rows.emplace_back();
    row.push_back(fmt::format(
        "{}{} × {}{}", regimes.size() > 1 ? which.name() + ", " : "", which.rows, which.hidden,
        which.dtype == dtype ? "" : ", " + which.dtype));
    row.push_back(roof_cell(which));
    for (const std::size_t i : columns) {
      const Result* result = which.results[i];
      row.push_back(cell(result, which, result != nullptr && result->gbps == best));
    }
  }
  return fmt::format(
      "{}\n{}Measured on {}.\n", markdown_table(rows), words_for_mark(shown, "", ".\n\n"),
      sources_of(shown, "; "));
}

std::string list_of_versions(const std::vector<Result>& results) {
  std::string text;
  for (const std::string& name : implementations_of(results)) {
    std::vector<std::string> versions;
    for (const Result& r : results)
      if (r.implementation == name && !r.version.empty()) add_if_new(versions, code(r.version));
    text += fmt::format("- {}: {}\n", code(name), fmt::join(versions, ", "));
  }
  return text;
}

std::string list_of_standings(const std::vector<Result>& results) {
  std::map<std::string, std::vector<PeerCase>> kinds;
  for (const PeerCase& which : peer_cases_of(results))
    if (race_of(which).ours)
      kinds[fmt::format(
                "{}, {} rows", which.is_in_8_bits() ? "8 bits" : "16 and 32 bits",
                which.is_about_time() ? "few" : "many")]
          .push_back(which);
  std::string text;
  for (const auto& [kind, cases] : kinds) {
    std::vector<std::string> lost;
    for (const PeerCase& which : cases) {
      const auto race = race_of(which);
      if (race.is_won()) continue;
      lost.push_back(fmt::format(
          "{} is faster by {:.1f} % in {}, {} × {}", code(race.best->implementation),
          100 * (*race.ours->median_us / *race.best->median_us - 1), which.name(), which.rows,
          which.hidden));
    }
    text += fmt::format(
        "- {}: librmsnorm is first in {} of {} cases{}{}.\n", kind, cases.size() - lost.size(),
        cases.size(), lost.empty() ? "" : "; ", fmt::join(lost, "; "));
  }
  return text;
}

}  // namespace

std::string PeerCase::name() const {
  std::string words = regime;
  std::ranges::replace(words, '_', ' ');
  return words;
}

Race race_of(const PeerCase& which) {
  Race race;
  for (const Result* result : which.results) {
    if (result == nullptr || !result->median_us) continue;
    auto& first = result->implementation == "librmsnorm" ? race.ours : race.best;
    if (first == nullptr || *result->median_us < *first->median_us) first = result;
  }
  return race;
}

std::vector<PeerCase> peer_cases_of(const std::vector<Result>& results) {
  const std::vector<std::string> names = implementations_of(results);
  std::vector<PeerCase> cases;
  for (const Result& r : results) {
    const auto is_its = [&](const PeerCase& c) {
      return c.regime == r.regime && c.dtype == r.dtype && c.rows == r.rows && c.hidden == r.hidden;
    };
    auto its = std::ranges::find_if(cases, is_its);
    if (its == cases.end()) {
      cases.push_back({r.regime, r.dtype, r.rows, r.hidden, {}, {}, {}, {}, true});
      its = cases.end() - 1;
      its->results.resize(names.size());
    }
    its->results[std::ranges::find(names, r.implementation) - names.begin()] = &r;
    if (const auto us = roof_us(r)) {
      its->roof_gbps = r.roof_gbps, its->roof_us = us;
      its->roof = r.roof, its->is_copy = is_copy(r);
    }
  }
  return cases;
}

std::string make_peers_table(
    const std::vector<Result>& results, const std::vector<std::string>& words) {
  if (words.empty()) throw std::runtime_error("'peers' needs regimes, 'versions' or 'standings'");
  if (words == std::vector<std::string>{"versions"}) return list_of_versions(results);
  if (words == std::vector<std::string>{"standings"}) return list_of_standings(results);
  return table_of_regimes(results, words);
}

/// How long CUDA takes to launch an empty kernel, beside a call of the library in C, in a sentence;
/// "" if only one of them was measured.
static std::string share_of_launch(const std::vector<Result>& results) {
  const auto us_of = [&](const std::string& name) {
    const std::vector<Result> its =
        only(results, [&](const Result& r) { return r.implementation == name; });
    return its.empty() ? std::nullopt : its.front().median_us;
  };
  const std::string call = "rmsnorm_forward() in C", empty = "empty kernel in C";
  const auto all = us_of(call), launch = us_of(empty);
  if (!all || !launch) return "";
  return fmt::format(
      "\n{} is a launch by the same function of CUDA, with the same attribute and as many bytes of "
      "parameters, of a\nkernel that does nothing. It takes {:.0f} % of the time of {}.\n",
      code(empty), 100 * *launch / *all, code(call));
}

std::string make_host_table(const std::vector<Result>& results) {
  if (results.empty()) throw std::runtime_error("'host' needs the results of host_cost.py");
  const Result& first = results.front();
  std::vector<TableRow> rows = {{"call", "µs of the CPU", "of " + code(first.implementation)}};
  for (const Result& r : results) {
    const double us = r.median_us.value();
    rows.push_back(
        {code(r.implementation), without_unit(microseconds(us)),
         fmt::format("{:.2f}", us / first.median_us.value())});
  }
  return fmt::format(
      "{}{}\n{} × {}, {}. Measured on {}.\n", markdown_table(rows), share_of_launch(results),
      first.rows, first.hidden, first.dtype, sources_of(results, "; "));
}

}  // namespace rmsnorm::plots
