#pragma once
/// \file
/// A page in the Markdown of code-hosting sites becomes one that Doxygen can read. Code stays
/// Doxygen's, for its colours; the rest is written as the HTML that it means, so that it does not
/// depend on Doxygen's own idea of Markdown.

#include <functional>
#include <string>
#include <string_view>

#include "docs/site/document.hpp"
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

  TermLinker* terms;  ///< makes links in the prose; nullptr: there are none
};

/// The page's title: its first line, without the "# ".
std::string title_of(std::string_view page);

/// The page's tree as the site shows it, without its title and its lines of links to other pages.
/// \throws std::runtime_error with the line for what is not understood
Document for_site(std::string_view page, const Surroundings& surroundings);

/// The tree of for_site() as Doxygen reads it.
std::string to_doxygen(const Document& page);

/// A piece of a paragraph as HTML: code, emphasis, links.
std::string inline_html(std::string_view text, const Surroundings& surroundings);

/// Code that Doxygen does not colour, as HTML. \param kind "sh" has comments, "# ..."
std::string fragment(const std::string& code, std::string_view kind);

/// HTML in a Doxygen page, as it is.
std::string html_block(const std::string& html);

/// A heading with a place to link to; the page's title has level 1. \param title HTML
std::string heading(int level, const std::string& label, const std::string& title);

}  // namespace rmsnorm::site
