#include "plots/peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "common/records/csv.hpp"
#include "plots/format.hpp"
#include "plots/markdown_table.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {
namespace {

PeerCase case_of(const Result& r) {
  return {r.regime, r.dtype, r.rows, r.hidden};
}

template <class T>
void add_if_new(std::vector<T>& all, const T& one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

/// A result that has the copy's bandwidth, which is the same for all contenders; or null.
const Result* find_with_copy(const std::vector<Result>& results, const PeerCase& which) {
  const auto found = std::find_if(results.begin(), results.end(), [&](const Result& result) {
    return case_of(result) == which && result.copy_gbps.value_or(0) > 0;
  });
  return found == results.end() ? nullptr : &*found;
}

/// A time of microseconds(), or a bandwidth, whose unit is in the heading: the tables are wide.
std::string without_unit(const std::string& text) {
  return text.substr(0, text.find(' '));
}

/// The contender's name. Those of PyTorch's compiler go without the word that they share, and can
/// be broken: "compile max" is torch.compile/max.
std::string heading(const std::string& contender) {
  const std::string prefix = "torch.";
  std::string text = contender;
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  std::replace(text.begin(), text.end(), '/', ' ');
  return text;
}

std::string cell(const Result* result, const PeerCase& which, bool best) {
  if (result == nullptr) return kNothing;
  if (!result->median_us) return result->verdict;
  // A share has the digit that tells the best from each other.
  std::string text = is_about_time(which)
                         ? without_unit(microseconds(*result->median_us))
                         : fmt::format("{:.1f}", percent_of_copy(*result).value_or(0));
  if (best) text = "**" + text + "**";
  if (result->spread_pct.value_or(0) > kNoisyPct)
    text += fmt::format(" ± {}", percent(*result->spread_pct));
  return text;
}

std::string copy_cell(const std::vector<Result>& results, const PeerCase& which) {
  const auto gbps = copy_gbps_of(results, which);
  if (!gbps) return kNothing;
  return without_unit(
      is_about_time(which) ? microseconds(*copy_us_of(results, which))
                           : gigabytes_per_second(*gbps));
}

std::string measured_on(const std::vector<Result>& results) {
  std::set<std::string> sources;
  for (const Result& r : results) {
    sources.insert(
        fmt::format("Measured on {}, driver {}, CUDA {}, {}", r.device, r.driver, r.cuda, r.date));
  }
  return fmt::format("{}.\n", fmt::join(sources, ". "));
}

std::string table_of_regimes(
    const std::vector<Result>& results, const std::vector<std::string>& regimes) {
  std::vector<Result> shown;
  for (const Result& r : results) {
    if (std::find(regimes.begin(), regimes.end(), r.regime) != regimes.end()) shown.push_back(r);
  }
  for (const std::string& regime : regimes) {
    if (results_of_regime(shown, regime).empty())
      throw std::runtime_error(fmt::format("there are no results of '{}'", regime));
  }
  const std::vector<std::string> contenders = contenders_of(shown);
  const std::vector<PeerCase> cases = peer_cases_of(shown);
  const bool are_times = is_about_time(cases.front());
  const std::string dtype = cases.front().dtype;  // the others say theirs
  std::vector<TableRow> rows = {{"rows × hidden, " + dtype, are_times ? "copy, µs" : "copy, GB/s"}};
  for (const std::string& contender : contenders) rows.front().push_back(heading(contender));
  for (const PeerCase& which : cases) {
    if (is_about_time(which) != are_times)
      throw std::runtime_error("one table has either times or shares of the copy");
    std::optional<double> best;
    for (const std::string& contender : contenders) {
      const Result* result = find_peer(shown, which, contender);
      if (result != nullptr) best = std::max(best, result->gbps);
    }
    TableRow row = {
        fmt::format(
            "{}{} × {}{}", regimes.size() > 1 ? operation_of(which) + ", " : "", which.rows,
            which.hidden, which.dtype == dtype ? "" : ", " + which.dtype),
        copy_cell(shown, which)};
    for (const std::string& contender : contenders) {
      const Result* result = find_peer(shown, which, contender);
      row.push_back(cell(result, which, result != nullptr && result->gbps == best));
    }
    rows.push_back(row);
  }
  return markdown_table(rows) + "\n" + measured_on(shown);
}

std::string table_of_versions(const std::vector<Result>& results) {
  std::vector<TableRow> rows = {{"contender", "version"}};
  for (const Result& r : results) {
    if (!r.commit.empty()) add_if_new(rows, {code(r.lesson), code(r.commit)});
  }
  return markdown_table(rows);
}

}  // namespace

std::vector<Result> load_peers(const std::filesystem::path& file) {
  std::vector<Result> results = read_csv(file);
  if (results.empty()) throw std::runtime_error(fmt::format("{}: no results", file.string()));
  for (const Result& result : results) {
    if (find_peer(results, case_of(result), result.lesson) != &result) {
      throw std::runtime_error(fmt::format(
          "{}: there are two results of {} in {}, {} x {} {}", file.string(), result.lesson,
          result.regime, result.rows, result.hidden, result.dtype));
    }
  }
  return results;
}

std::vector<std::string> contenders_of(const std::vector<Result>& results) {
  std::vector<std::string> contenders;
  for (const Result& result : results) add_if_new(contenders, result.lesson);
  return contenders;
}

std::vector<PeerCase> peer_cases_of(const std::vector<Result>& results) {
  std::vector<PeerCase> cases;
  for (const Result& result : results) add_if_new(cases, case_of(result));
  return cases;
}

const Result* find_peer(
    const std::vector<Result>& results, const PeerCase& which, const std::string& contender) {
  const auto found = std::find_if(results.begin(), results.end(), [&](const Result& result) {
    return result.lesson == contender && case_of(result) == which;
  });
  return found == results.end() ? nullptr : &*found;
}

std::optional<double> copy_gbps_of(const std::vector<Result>& results, const PeerCase& which) {
  const Result* result = find_with_copy(results, which);
  return result == nullptr ? std::nullopt : result->copy_gbps;
}

std::optional<double> copy_us_of(const std::vector<Result>& results, const PeerCase& which) {
  const Result* result = find_with_copy(results, which);
  if (result == nullptr) return std::nullopt;
  return result->bytes_per_row_predicted * static_cast<double>(result->rows) / *result->copy_gbps /
         1e3;
}

bool is_about_time(const PeerCase& which) {
  return which.regime == "decode";
}

std::string operation_of(const PeerCase& which) {
  std::string words = which.regime;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string make_peers_table(
    const std::vector<Result>& results, const std::vector<std::string>& words) {
  if (words.empty()) throw std::runtime_error("'peers' needs regimes, or 'versions'");
  if (words == std::vector<std::string>{"versions"}) return table_of_versions(results);
  return table_of_regimes(results, words);
}

}  // namespace rmsnorm::plots
