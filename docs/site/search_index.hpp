#pragma once
/// \file
/// What the site's search looks through: the text of every page, by sections.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace rmsnorm::site {

/// A section of a page, or what stands before its first.
struct SearchEntry {
  std::string address;  ///< "lesson_04_warp_reduce.html#s_..."
  std::string page;     ///< the page's title
  std::string section;  ///< "" before the first
  std::string text;     ///< in plain words
};

/// HTML without its tags, and without scripts, style sheets, drawings and
/// what only leads to other pages.
std::string text_of_html(std::string_view html);

/// The sections of a page of the site. \param name the file's name
std::vector<SearchEntry> sections_of(std::string_view html, const std::string& name);

/// The sections of all pages in a folder as a program that defines SEARCH_INDEX.
std::string search_index(const std::filesystem::path& folder);

}  // namespace rmsnorm::site
