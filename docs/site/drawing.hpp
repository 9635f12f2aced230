#pragma once
/// \file
/// Drawings and charts in a page.

#include <string>
#include <string_view>

namespace rmsnorm::site {

/// A drawing made part of a page: its identifiers and its style sheet are made its own, and what it
/// says for a dark screen follows the page's switch as well as the system's.
/// \param svg   the file's text
/// \param name  letters, digits and underscores; no other drawing of the page has it
std::string inline_drawing(std::string_view svg, const std::string& name);

/// A figure that holds a picture, wide ones in a frame that scrolls.
std::string figure(const std::string& picture);

}  // namespace rmsnorm::site
