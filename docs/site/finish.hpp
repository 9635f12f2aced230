#pragma once
/// \file
/// What is done to Doxygen's HTML.

#include <filesystem>
#include <string>

namespace rmsnorm::site {

/// The text of a page with its title as the heading of the first level and all others below it,
/// and, where there are formulas, with the program that sets them.
std::string finished_page(std::string html);

/// Finishes every page of a folder, and adds the files that they use: charts, drawings, the program
/// that sets formulas.
/// \param root   the repository's top folder
/// \param html   where Doxygen has put the pages
/// \param katex  the folder of katex.min.js
/// \throws std::runtime_error if a file cannot be read or written
void finish(
    const std::filesystem::path& root, const std::filesystem::path& html,
    const std::filesystem::path& katex);

}  // namespace rmsnorm::site
