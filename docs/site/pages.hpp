#pragma once
/// \file
/// The pages of the site, made of the repository's texts.

#include <filesystem>

namespace rmsnorm::site {

/// Writes every page of the site, for Doxygen to read.
/// \param root     the repository's top folder
/// \param lessons  what `./rmsnorm list --tabs` prints
/// \param folder   where the pages go; files of an earlier run are removed
/// \throws std::runtime_error with the page and the reason
void write_pages(
    const std::filesystem::path& root, const std::filesystem::path& lessons,
    const std::filesystem::path& folder);

}  // namespace rmsnorm::site
