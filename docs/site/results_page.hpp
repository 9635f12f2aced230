#pragma once
/// \file
/// The page of all results, made of the recorded files.

#include <filesystem>
#include <string>
#include <vector>

namespace rmsnorm::site {

/// A page of results, in Doxygen's form.
struct ResultsPage {
  std::string label;
  std::string title;
  std::string text;
};

/// Every result in a folder, as tables that can be sorted: times (NAME.csv), the profiler's counts
/// (NAME-profile.csv) and the CPU device's counts (NAME-trace.csv). The first page leads to the
/// others, one for each sweep.
/// \throws std::runtime_error as the files' readers do
std::vector<ResultsPage> results_pages(const std::filesystem::path& folder);

}  // namespace rmsnorm::site
