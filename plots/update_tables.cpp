/// \file
/// Rewrites the tables in the pages from a results file, or checks that they are up to date.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/files.hpp"
#include "plots/markers.hpp"
#include "plots/profile.hpp"
#include "plots/select.hpp"
#include "plots/tables.hpp"
#include "plots/tool.hpp"

namespace {

using namespace rmsnorm::plots;

struct Options {
  std::filesystem::path csv_file;
  std::filesystem::path profile_file;
  std::filesystem::path root;
  bool check = false;
};

/// The pages whose text differs from what it should be, with that text.
std::vector<std::pair<std::filesystem::path, std::string>> stale_pages(const Options& options) {
  const auto results = load_results(options.csv_file);
  std::vector<Profile> profiles;
  if (!options.profile_file.empty()) profiles = read_profiles(options.profile_file);
  const MakeBlock make_block = [&](const auto& words) {
    const bool of_profiler = !words.empty() && words.front() == "profile";
    return of_profiler ? make_profile_table(results, profiles, words) : make_table(results, words);
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
      "Rewrites the tables between the markers in README.md, lessons/*/README.md and docs/*.md.");
  app.add_option("--csv", options.csv_file, "The results file")->required()->type_name("FILE");
  app.add_option("--profile", options.profile_file, "The profiler's counts")->type_name("FILE");
  app.add_option("--root", options.root, "The repository's folder")->required()->type_name("DIR");
  app.add_flag("--check", options.check, "Write nothing; fail if a table is out of date");
  return run_tool(app, argc, argv, [&] { return update(options); });
}
