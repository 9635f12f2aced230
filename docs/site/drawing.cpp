#include "docs/site/drawing.hpp"

#include "docs/site/text.hpp"

namespace rmsnorm::site {
namespace {

/// The rules of a style sheet, each with `prefix` in front of its selectors.
std::string with_prefix(std::string_view rules, const std::string& prefix) {
  std::string scoped;
  while (!trimmed(rules).empty()) {
    const std::size_t open = rules.find('{');
    const std::size_t close = rules.find('}', open);
    if (close == std::string_view::npos) break;
    std::string selectors = trimmed(rules.substr(0, open));
    selectors = prefix + " " + replace_all(selectors, ",", ", " + prefix);
    scoped += selectors + " " + std::string(rules.substr(open, close + 1 - open)) + "\n";
    rules.remove_prefix(close + 1);
  }
  return scoped;
}

/// Where the bracket that is opened at or behind `from` is closed.
std::size_t end_of_block(std::string_view text, std::size_t from) {
  int depth = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  return text.size();
}

std::string scoped_style(const std::string& style, const std::string& name) {
  static constexpr std::string_view kDark = "@media (prefers-color-scheme: dark)";
  const std::string own = "#" + name;
  const std::size_t media = style.find(kDark);
  if (media == std::string::npos) return with_prefix(style, own);
  const std::size_t open = style.find('{', media);
  const std::size_t close = end_of_block(style, open);
  const std::string dark = style.substr(open + 1, close - open - 1);
  const std::string rest = style.substr(0, media) + style.substr(std::min(close + 1, style.size()));
  return with_prefix(rest, own) + std::string(kDark) + " {\n" +
         with_prefix(dark, "html:not(.light-mode) " + own) + "}\n" +
         with_prefix(dark, "html.dark-mode " + own);
}

}  // namespace

std::string inline_drawing(std::string_view svg, const std::string& name) {
  std::string text(svg.substr(std::min(svg.find("<svg"), svg.size())));
  const std::string style = between(text, "<style>", "</style>");
  if (!style.empty()) text = replace_all(text, style, "\n" + scoped_style(style, name));
  text = replace_all(text, " id=\"", " id=\"" + name + "_");
  text = replace_all(text, "url(#", "url(#" + name + "_");
  text = replace_all(text, "href=\"#", "href=\"#" + name + "_");
  const std::string labels = between(text, "aria-labelledby=\"", "\"");
  if (!labels.empty()) {
    text = replace_all(
        text, "aria-labelledby=\"" + labels + "\"",
        "aria-labelledby=\"" + name + "_" + replace_all(labels, " ", " " + name + "_") + "\"");
  }
  return "<svg id=\"" + name + "\"" + text.substr(4);
}

std::string figure(const std::string& picture) {
  return "<figure class=\"scroll\" tabindex=\"0\">" + picture + "</figure>";
}

}  // namespace rmsnorm::site
