#pragma once
/// \file
/// The page of all results, made of the recorded files.

#include <filesystem>
#include <string>

namespace rmsnorm::site {

/// Every result in a folder, as tables that can be sorted: times (NAME.csv), the profiler's counts
/// (NAME-profile.csv) and the CPU device's counts (NAME-trace.csv). In Doxygen's form.
/// \param label  the page's name, with which its sections' names begin
/// \throws std::runtime_error as the files' readers do
std::string results_page(const std::filesystem::path& folder, const std::string& label);

}  // namespace rmsnorm::site
