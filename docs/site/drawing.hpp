#pragma once
/// \file
/// Drawings and charts in a page.

#include <string>
#include <string_view>

namespace rmsnorm::site {

/// A drawing for a light or a dark page. Its own style sheet asks for the system's theme
/// (`@media (prefers-color-scheme: dark)`), and a page can be switched to another one.
std::string drawing_for(std::string_view svg, bool dark);

/// The HTML of a picture that exists twice, for a light and a dark page; wide ones scroll.
std::string figure(const std::string& light, const std::string& dark, const std::string& alt);

}  // namespace rmsnorm::site
