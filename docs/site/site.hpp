#pragma once
/// \file
/// The site: its pages before Doxygen, and what is done to Doxygen's HTML.

#include <filesystem>
#include <string>
#include <string_view>

namespace rmsnorm::site {

/// Writes every page of the site, for Doxygen to read.
/// \param root        the repository's top folder
/// \param lessons     what `./rmsnorm list --tabs` prints
/// \param folder      where the pages go; files of an earlier run are removed
/// \param repository  the repository's address; "": the pages have no links to it
/// \throws std::runtime_error with the page and the reason
void write_pages(
    const std::filesystem::path& root, const std::filesystem::path& lessons,
    const std::filesystem::path& folder, std::string_view repository);

/// Where a file can be edited on the forge that has the repository; "" if that is not known.
std::string edit_address(std::string_view repository, std::string_view file);

/// Finishes every page that Doxygen has written, and adds the drawings and what is searched.
/// \param root   the repository's top folder
/// \param html   where Doxygen has put the pages
/// \throws std::runtime_error if a file cannot be read or written
void finish(const std::filesystem::path& root, const std::filesystem::path& html);

/// A drawing for a light or a dark page. Its own style sheet asks for the system's theme
/// (`@media (prefers-color-scheme: dark)`), and a page can be switched to another one.
std::string drawing_for(std::string_view svg, bool dark);

}  // namespace rmsnorm::site
