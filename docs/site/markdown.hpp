#pragma once
/// \file
/// A page in the Markdown of code-hosting sites becomes one that Doxygen can read. Sections and
/// code stay Doxygen's, for its tables of contents, its search and its colours; the rest is written
/// as the HTML that it means, so that it does not depend on Doxygen's own idea of Markdown.

#include <functional>
#include <string>
#include <string_view>

#include "docs/site/glossary.hpp"

namespace rmsnorm::site {

/// What a page needs to know of the other files.
struct Surroundings {
  std::string label;  ///< the page's name for Doxygen

  /// The address for a link's target. \throws std::runtime_error if there is none
  std::function<std::string(const std::string& target)> address;

  /// The HTML of an image, or of a pair of images for a light and a dark page.
  std::function<std::string(
      const std::string& light, const std::string& dark, const std::string& alt)>
      image;

  TermLinker* terms;  ///< writes the prose
};

/// The page's title: its first line, without the "# ".
std::string title_of(std::string_view page);

/// The page for Doxygen, without its title, and without its lines of links to other pages.
/// \throws std::runtime_error with the line for what is not understood
std::string to_doxygen(std::string_view page, const Surroundings& surroundings);

/// A piece of a line or a paragraph as HTML: code, emphasis, links, formulas.
std::string inline_html(std::string_view text, const Surroundings& surroundings);

/// HTML in a Doxygen page, as it is.
std::string html_block(const std::string& html);

/// Code in a Doxygen page. \param kind "cpp", or anything else for plain text
std::string code_block(const std::string& code, std::string_view kind);

}  // namespace rmsnorm::site
