/// \file
/// Rewrites the tables in the pages from a results file, or checks that they are up to date.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.hpp"
#include "plots/limits.hpp"
#include "plots/machine.hpp"
#include "plots/markers.hpp"
#include "plots/mutation.hpp"
#include "plots/peers.hpp"
#include "plots/profile.hpp"
#include "plots/select.hpp"
#include "plots/tables.hpp"
#include "plots/tool.hpp"

namespace {

using namespace rmsnorm::plots;

struct Options {
  std::filesystem::path csv_file;
  std::filesystem::path profile_file;
  std::filesystem::path loads_file;
  std::filesystem::path machine_file;
  std::vector<std::filesystem::path> peers_files;
  std::filesystem::path host_file;
  std::filesystem::path mutants_file;
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
    return is_slug(word) &&
           std::none_of(recorded.begin(), recorded.end(), [&](const Recorded& one) {
             return lesson_of(one.implementation) == lesson_of(word);
           });
  };
  std::vector<std::string> known = words;
  const auto first_new = std::stable_partition(known.begin(), known.end(), std::not_fn(is_new));
  const std::vector<std::string> newer(first_new, known.end());
  known.erase(first_new, known.end());
  if (newer.empty()) return make_block(words);
  const std::string note = fmt::format("Not recorded yet: `{}`.\n", fmt::join(newer, "`, `"));
  if (std::none_of(known.begin(), known.end(), is_slug)) return note;
  return make_block(known) + "\n" + note;
}

/// What a file has; nothing if none is named.
template <class Row>
std::vector<Row> read_if_named(
    const std::filesystem::path& file, std::vector<Row> (*read)(const std::filesystem::path&)) {
  return file.empty() ? std::vector<Row>() : read(file);
}

/// What peers.py measured on one GPU.
struct Peers {
  std::string gpu;  ///< of "nvidia-h100-peers.csv", "nvidia-h100"
  std::vector<rmsnorm::Result> results;
};

std::vector<Peers> read_peers(const std::vector<std::filesystem::path>& files) {
  std::vector<Peers> all;
  for (const std::filesystem::path& file : files) {
    const std::string name = file.stem();
    all.push_back({name.substr(0, name.rfind("-peers")), load_results(file)});
  }
  return all;
}

/// The table of peers.py's results on the GPU that the first word names, as "nvidia-h100" does, or
/// else on `gpu`.
std::string make_table_of_gpu(
    const std::vector<Peers>& all, std::string gpu, std::vector<std::string> words) {
  if (!words.empty() && words.front().find('-') != std::string::npos) {  // no regime has one
    gpu = words.front();
    words.erase(words.begin());
  }
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Peers& peers) { return peers.gpu == gpu; });
  if (found == all.end())
    throw std::runtime_error(fmt::format("'peers' needs {}-peers.csv, by --peers", gpu));
  return make_peers_table(found->results, words);
}

/// The pages whose text differs from what it should be, with that text.
std::vector<std::pair<std::filesystem::path, std::string>> stale_pages(const Options& options) {
  const auto results = load_results(options.csv_file);
  const auto profiles = read_if_named(options.profile_file, read_profiles);
  const auto loads = read_if_named(options.loads_file, read_loads);
  const auto norms = of_operation(results, "rms_norm");  // limits points to it
  const auto counted = of_operation(profiles, "rms_norm");
  const auto limits = limits_of(norms, counted, loads);
  const auto machine = read_if_named(options.machine_file, read_machine);
  std::optional<double> dram_ns;
  if (!machine.empty()) dram_ns = levels_of(machine).dram.ns;
  const auto peers = read_peers(options.peers_files);
  const std::string gpu = options.csv_file.stem();
  const auto host = read_if_named(options.host_file, load_results);
  const auto mutants = read_if_named(options.mutants_file, read_mutant_counts);
  const auto lessons = options.root / "lessons";
  const MakeBlock make_block = [&](const auto& words) {
    const std::string kind = words.empty() ? "" : words.front();
    if (kind == "peers") return make_table_of_gpu(peers, gpu, {words.begin() + 1, words.end()});
    if (kind == "host") return make_host_table(host);
    if (kind == "machine") return make_machine_table(machine, {words.begin() + 1, words.end()});
    if (kind == "mutants") return make_mutants_table(mutants, {words.begin() + 1, words.end()});
    if (kind == "limits") {
      if (limits.empty()) return std::string("Not recorded yet.\n");
      return make_without_new_lessons(lessons, loads, words, [&](const auto& known) {
        return make_limits_table(limits, known, dram_ns);
      });
    }
    if (kind == "profile") {
      return make_without_new_lessons(lessons, profiles, words, [&](const auto& known) {
        return make_profile_table(results, profiles, known);
      });
    }
    return make_without_new_lessons(
        lessons, results, words, [&](const auto& known) { return make_table(results, known); });
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
  const auto file = [&](const char* name, std::filesystem::path& path, const char* what) {
    return app.add_option(name, path, what)->type_name("FILE");
  };
  file("--csv", options.csv_file, "The results file")->required();
  file("--profile", options.profile_file, "The profiler's counts");
  file("--loads", options.loads_file, "What loads_in_flight.py read");
  file("--machine", options.machine_file, "What ./rmsnorm machine measured");
  app.add_option("--peers", options.peers_files, "The results of peers.py: GPU-peers.csv of each")
      ->type_name("FILE");
  file("--host", options.host_file, "The results of host_cost.py");
  file("--mutants", options.mutants_file, "What mutate.py counted");
  app.add_option("--root", options.root, "The repository's folder")->required()->type_name("DIR");
  app.add_flag("--check", options.check, "Write nothing; fail if a table is out of date");
  return run_tool(app, argc, argv, [&] { return update(options); });
}
