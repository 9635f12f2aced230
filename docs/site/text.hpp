#pragma once
/// \file
/// Small things that are done to texts, here and there.

#include <string>
#include <string_view>
#include <vector>

namespace rmsnorm::site {

/// The text for use between HTML tags, or in an attribute with double quotes.
std::string escape_html(std::string_view text);

/// The text with every `from` replaced.
std::string replace_all(std::string text, std::string_view from, std::string_view to);

/// Without the spaces and newlines at both ends.
std::string trimmed(std::string_view text);

/// A text's lines, without the newlines.
std::vector<std::string> split_lines(std::string_view text);

/// A name for Doxygen: letters, digits and underscores; the rest becomes underscores.
std::string label_of(std::string_view text);

/// The name of a page's section for Doxygen. \param slug the anchor that GitHub gives it
std::string section_label(std::string_view page, std::string_view slug);

/// What stands between `begin` and the next `end`, from a position on; "" if they are not there.
std::string between(
    std::string_view text, std::string_view begin, std::string_view end, std::size_t from = 0);

}  // namespace rmsnorm::site
