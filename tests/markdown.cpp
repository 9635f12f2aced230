#include "tests/markdown.hpp"

#include <algorithm>
#include <map>
#include <regex>

#include "docs/site/document.hpp"
#include "tests/repository.hpp"

namespace tests {
namespace {

using namespace rmsnorm::site;

/// Adds what a pattern finds in a text that begins on a line.
void collect(
    const std::regex& pattern, const std::string& text, std::size_t line,
    std::vector<Found>& found) {
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    const auto lines_before = std::count(text.begin(), text.begin() + match->position(), '\n');
    found.push_back({line + static_cast<std::size_t>(lines_before), match->str(match->size() - 1)});
  }
}

std::size_t line_of(cmark_node* node) {
  return static_cast<std::size_t>(cmark_node_get_start_line(node));
}

bool is_html(cmark_node* node) {
  const cmark_node_type type = cmark_node_get_type(node);
  return type == CMARK_NODE_HTML_BLOCK || type == CMARK_NODE_HTML_INLINE;
}

/// Without the spaces at the ends and without the indentation that all lines share.
std::vector<std::string> normalised(
    std::vector<std::string>::const_iterator begin, std::vector<std::string>::const_iterator end) {
  std::vector<std::string> lines(begin, end);
  std::size_t common = std::string::npos;
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty()) common = std::min(common, line.find_first_not_of(' '));
  }
  for (std::string& line : lines) line.erase(0, std::min(common, line.size()));
  return lines;
}

}  // namespace

std::vector<Found> links_of(const std::string& page) {
  static const std::regex kAttribute("(?:src|srcset|href)=[\"']([^\"'\\s]+)");
  std::vector<Found> links;
  for_each_node(parse(page).get(), [&](cmark_node* node) {
    const cmark_node_type type = cmark_node_get_type(node);
    if (type == CMARK_NODE_LINK || type == CMARK_NODE_IMAGE)
      links.push_back({line_of(node), cmark_node_get_url(node)});
    if (is_html(node)) collect(kAttribute, literal_of(node), line_of(node), links);
  });
  return links;
}

std::set<std::string> anchors_of(const std::string& page) {
  static const std::regex kNamed("<a (?:id|name)=[\"']([^\"']+)");
  std::vector<Found> named;
  std::set<std::string> anchors;
  std::map<std::string, int> uses;
  for_each_node(parse(page).get(), [&](cmark_node* node) {
    if (cmark_node_get_type(node) == CMARK_NODE_HEADING) {
      const std::string slug = slug_of(plain_text(node));
      const int use = uses[slug]++;
      anchors.insert(use == 0 ? slug : slug + "-" + std::to_string(use));
    }
    if (is_html(node)) collect(kNamed, literal_of(node), line_of(node), named);
  });
  for (const Found& anchor : named) anchors.insert(anchor.text);
  return anchors;
}

std::vector<Fence> fences_of(const std::string& page) {
  std::vector<Fence> fences;
  for_each_node(parse(page).get(), [&](cmark_node* node) {
    int size = 0, offset = 0;
    char mark = 0;
    if (cmark_node_get_fenced(node, &size, &offset, &mark) == 0) return;
    const std::string info = cmark_node_get_fence_info(node);
    fences.push_back(
        {line_of(node), info.substr(0, info.find_first_of(" {")), lines_in(literal_of(node))});
  });
  return fences;
}

std::vector<Found> typed_results_of(const std::string& page) {
  static const std::regex kNumber(
      "(\\d[\\d.,]*(?: "
      "|\u00a0|\u202f|&nbsp;|-)*(?:GB/s|TB/s|(?:us|\u00b5s|\u03bcs)(?![A-Za-z0-9_])))");
  std::vector<Found> found;
  bool in_results = false;
  const std::vector<std::string> lines = lines_in(page);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find("<!-- results:begin") != std::string::npos) in_results = true;
    if (!in_results) collect(kNumber, lines[i], i + 1, found);
    if (lines[i].find("<!-- results:end") != std::string::npos) in_results = false;
  }
  return found;
}

bool occurs_in(const std::vector<std::string>& code, const std::vector<std::string>& source) {
  if (code.empty() || code.size() > source.size()) return false;
  const std::vector<std::string> wanted = normalised(code.begin(), code.end());
  const auto size = static_cast<std::ptrdiff_t>(code.size());
  for (auto begin = source.begin(); source.end() - begin >= size; ++begin) {
    if (normalised(begin, begin + size) == wanted) return true;
  }
  return false;
}

}  // namespace tests
