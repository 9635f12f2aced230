#include "docs/site/text.hpp"

#include <cctype>
#include <sstream>

namespace rmsnorm::site {

std::string escape_html(std::string_view text) {
  std::string html = replace_all(std::string(text), "&", "&amp;");
  html = replace_all(replace_all(html, "<", "&lt;"), ">", "&gt;");
  return replace_all(html, "\"", "&quot;");
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \n\t\r");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \n\t\r") + 1 - begin));
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream all{std::string(text)};
  for (std::string line; std::getline(all, line);) lines.push_back(line);
  return lines;
}

std::string label_of(std::string_view text) {
  std::string label;
  for (const char c : text) label += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return label;
}

std::string section_label(std::string_view page, std::string_view slug) {
  return "s_" + label_of(page) + "_" + label_of(slug);
}

std::string between(
    std::string_view text, std::string_view begin, std::string_view end, std::size_t from) {
  std::size_t first = text.find(begin, from);
  if (first == std::string_view::npos) return "";
  first += begin.size();
  const std::size_t last = text.find(end, first);
  if (last == std::string_view::npos) return "";
  return std::string(text.substr(first, last - first));
}

}  // namespace rmsnorm::site
