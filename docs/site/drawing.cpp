#include "docs/site/drawing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "docs/site/text.hpp"

namespace rmsnorm::site {
namespace {

/// Where the brace that is opened at a position is closed.
std::size_t end_of_block(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  return text.size();
}

}  // namespace

std::string drawing_for(std::string_view svg, bool dark) {
  static constexpr std::string_view kDark = "@media (prefers-color-scheme: dark)";
  std::string text(svg);
  for (std::size_t at = text.find(kDark); at != std::string::npos; at = text.find(kDark, at)) {
    const std::size_t open = text.find('{', at);
    const std::size_t close = end_of_block(text, open);
    const std::string rules = text.substr(open + 1, close - open - 1);
    text.replace(at, std::min(close + 1, text.size()) - at, dark ? rules : "");
  }
  return text;
}

std::string figure(const std::string& light, const std::string& dark, const std::string& alt) {
  const auto picture = [&](const std::string& file, const char* theme) {
    return fmt::format(
        "<img class=\"only-{}\" loading=\"lazy\" src=\"{}\" alt=\"{}\">", theme, file,
        escape_html(alt));
  };
  return "<figure class=\"scroll\" tabindex=\"0\">" + picture(light, "light") +
         picture(dark, "dark") + "</figure>";
}

}  // namespace rmsnorm::site
