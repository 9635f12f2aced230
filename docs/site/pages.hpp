#pragma once
/// \file
/// The pages of the site, made of the repository's texts.

#include <filesystem>
#include <string>
#include <vector>

namespace rmsnorm::site {

/// A lesson, as its folder has it.
struct LessonFolder {
  std::string slug;    ///< "04_warp_reduce"
  std::string number;  ///< "04"
  std::string title;   ///< "Lesson 04: Warp reduce"
  std::string name;    ///< "Warp reduce"
  std::string idea;    ///< one sentence
};

/// The lessons below a repository's top folder, in order.
/// \throws std::runtime_error if one has no page, or a page without a title
std::vector<LessonFolder> lessons_below(const std::filesystem::path& root);

/// Writes every page of the site, for Doxygen to read.
/// \param root    the repository's top folder
/// \param folder  where the pages go; files of an earlier run are removed
/// \throws std::runtime_error with the page and the reason
void write_pages(const std::filesystem::path& root, const std::filesystem::path& folder);

}  // namespace rmsnorm::site
