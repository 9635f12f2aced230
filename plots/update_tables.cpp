/// \file
/// Rewrites the tables in the pages from a results file, or checks that they are up to date.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.hpp"
#include "plots/arithmetic.hpp"
#include "plots/limits.hpp"
#include "plots/machine.hpp"
#include "plots/markers.hpp"
#include "plots/mutation.hpp"
#include "plots/peers.hpp"
#include "plots/profile.hpp"
#include "plots/ranks.hpp"
#include "plots/select.hpp"
#include "plots/tables.hpp"
#include "plots/tool.hpp"

namespace {

using namespace rmsnorm::plots;

struct Options {
  std::filesystem::path csv_file;
  std::filesystem::path data;
  std::filesystem::path root;
  bool check = false;
};

std::string lesson_of(const std::string& slug) {
  return slug.substr(0, slug.find('/'));
}

/// Makes a block without the lessons that are newer than what was recorded, and names these.
template <class Recorded>
std::string make_without_new_lessons(
    const std::filesystem::path& lessons, const std::vector<Recorded>& recorded,
    const std::vector<std::string>& words, const MakeBlock& make_block) {
  const auto is_slug = [&](const std::string& word) {
    return std::filesystem::is_directory(lessons / lesson_of(word));
  };
  const auto is_new = [&](const std::string& word) {
    return is_slug(word) && std::ranges::none_of(recorded, [&](const Recorded& one) {
             return lesson_of(one.implementation) == lesson_of(word);
           });
  };
  std::vector<std::string> known = words;
  const auto first_new = std::stable_partition(known.begin(), known.end(), std::not_fn(is_new));
  const std::vector<std::string> newer(first_new, known.end());
  known.erase(first_new, known.end());
  if (newer.empty()) return make_block(words);
  const std::string note = fmt::format("Not recorded yet: `{}`.\n", fmt::join(newer, "`, `"));
  if (std::ranges::none_of(known, is_slug)) return note;
  return make_block(known) + "\n" + note;
}

/// What was recorded on one GPU.
struct Recorded {
  std::filesystem::path stem;  ///< of the files: "plots/data/nvidia-h200"
  std::vector<rmsnorm::Result> results;
  std::vector<rmsnorm::Result> peers;
  std::vector<Profile> profiles;
};

/// The rows of STEM and the ending; nothing if there is no such file.
template <class Row>
std::vector<Row> read_if_there(
    const std::filesystem::path& stem, const char* ending,
    std::vector<Row> (*read)(const std::filesystem::path&)) {
  const std::string file = stem.string() + ending;
  return std::filesystem::exists(file) ? read(file) : std::vector<Row>();
}

/// All that lies beside GPU.csv, whether or not that is there.
Recorded read_recorded(const std::filesystem::path& stem) {
  return {
      stem,
      read_if_there(stem, ".csv", load_results),
      read_if_there(stem, "-peers.csv", load_results),
      read_if_there(stem, "-profile.csv", read_profiles),
  };
}

std::string make_block_of(
    const Recorded& recorded, const std::filesystem::path& lessons,
    const std::vector<std::string>& words) {
  const auto& [stem, results, peers, profiles] = recorded;
  const std::string kind = words.empty() ? "" : words.front();
  const auto require = [&](const auto& rows, const char* ending) {
    if (rows.empty())
      throw std::runtime_error(fmt::format("'{}' needs {}{}", kind, stem.string(), ending));
  };
  if (kind == "peers") {
    require(peers, "-peers.csv");
    return make_peers_table(peers, {words.begin() + 1, words.end()});
  }
  require(results, ".csv");
  if (kind == "profile") {
    return make_without_new_lessons(lessons, profiles, words, [&](const auto& known) {
      return make_profile_table(results, profiles, known);
    });
  }
  return make_without_new_lessons(
      lessons, results, words, [&](const auto& known) { return make_table(results, known); });
}

/// Takes the GPU out of the words behind the kind, as in "peers nvidia-h100 forward"; "" if none is
/// named. Nothing else in its place has such a dash.
std::string take_gpu(std::vector<std::string>& words) {
  if (words.size() < 2 || words[1].find('-') == std::string::npos) return "";
  std::string gpu = std::move(words[1]);
  words.erase(words.begin() + 1);
  return gpu;
}

/// The pages whose text differs from what it should be, with that text.
std::vector<std::pair<std::filesystem::path, std::string>> stale_pages(const Options& options) {
  const Recorded own = read_recorded(std::filesystem::path(options.csv_file).replace_extension());
  if (own.results.empty())
    throw std::runtime_error(fmt::format("there is no file '{}'", options.csv_file.string()));
  const auto loads = read_if_there(own.stem, "-loads.csv", read_loads);
  const auto norms = of_operation(own.results, "rms_norm");  // limits points to it
  const auto counted = of_operation(own.profiles, "rms_norm");
  const auto limits = limits_of(norms, counted, loads);
  const auto machine = read_if_there(own.stem, "-machine.csv", read_machine);
  std::optional<double> dram_ns;
  if (!machine.empty()) dram_ns = levels_of(machine).dram.ns;
  const auto host = read_if_there(own.stem, "-host.csv", load_results);
  const auto ranks = read_if_there(own.stem, "-ranks.csv", read_ranks);
  const auto mutants = read_if_there(options.data / "mutants", ".csv", read_mutant_counts);
  const auto functions =
      read_if_there(options.data / "arithmetic", ".csv", read_compared_functions);
  const std::filesystem::path lessons = options.root / "lessons";
  std::map<std::string, Recorded> others;  // of each GPU that a block names
  const MakeBlock make_block = [&](std::vector<std::string> words) {
    const std::string gpu = take_gpu(words);
    const std::string kind = words.empty() ? "" : words.front();
    if (!gpu.empty() && options.data / gpu != own.stem) {
      if (kind == "host" || kind == "machine" || kind == "mutants" || kind == "limits" ||
          kind == "ranks")
        throw std::runtime_error(fmt::format("'{}' is of the GPU of --csv alone", kind));
      if (!others.contains(gpu)) others[gpu] = read_recorded(options.data / gpu);
      return make_block_of(others[gpu], lessons, words);
    }
    if (kind == "host") return make_host_table(host);
    if (kind == "machine") return make_machine_table(machine, {words.begin() + 1, words.end()});
    if (kind == "ranks") return make_ranks_table(ranks, {words.begin() + 1, words.end()});
    if (kind == "mutants") return make_mutants_table(mutants, {words.begin() + 1, words.end()});
    if (kind == "arithmetic") return make_arithmetic_table(functions);
    if (kind == "limits") {
      if (limits.empty()) return std::string("Not recorded yet.\n");
      return make_without_new_lessons(lessons, loads, words, [&](const auto& known) {
        return make_limits_table(limits, known, dram_ns);
      });
    }
    return make_block_of(own, lessons, words);
  };
  std::vector<std::pair<std::filesystem::path, std::string>> stale;
  for (const auto& page : pages_below(options.root)) {
    const std::string text = rmsnorm::read_file(page);
    std::string wanted = with_blocks(text, page.string(), make_block);
    if (wanted != text) stale.emplace_back(page, std::move(wanted));
  }
  return stale;
}

int update(const Options& options) {
  // All pages are made before the first is written: a mistake in one leaves all as they were.
  const auto stale = stale_pages(options);
  for (const auto& [page, text] : stale) {
    if (options.check) {
      fmt::print(
          stderr, "{}: its tables do not match {}\n", page.string(), options.csv_file.string());
    } else {
      rmsnorm::write_file(page, text);
      fmt::print("{}\n", page.string());
    }
  }
  return options.check && !stale.empty() ? kFailed : kDone;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Rewrites the tables between the markers in README.md, lessons/*/README.md, docs/*.md and "
      "library/README.md.");
  app.add_option(
         "--csv", options.csv_file, "The results, GPU.csv; beside it lies what else was recorded")
      ->required()
      ->type_name("FILE");
  app.add_option(
         "--data", options.data,
         "Where mutants.csv and arithmetic.csv lie, and what was recorded on other GPUs")
      ->required()
      ->type_name("DIR");
  app.add_option("--root", options.root, "The repository's folder")->required()->type_name("DIR");
  app.add_flag("--check", options.check, "Write nothing; fail if a table is out of date");
  return run_tool(app, argc, argv, [&] { return update(options); });
}
