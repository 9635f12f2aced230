#include "tests/markdown.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>

#include "tests/repository.hpp"

namespace tests {
namespace {

/// The fence that a line begins or ends, ``` or longer, or "".
std::string fence_mark(const std::string& line) {
  static const std::regex kFence("^ *(`{3,}|~{3,}).*");
  std::smatch match;
  return std::regex_match(line, match, kFence) ? match[1].str() : "";
}

/// Calls text(number, line) for the lines outside fences, fence(line) for whole fences.
template <class OnText, class OnFence>
void walk(const std::string& page, OnText&& text, OnFence&& fence) {
  const std::vector<std::string> lines = lines_in(page);
  std::string open;
  Fence block;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string mark = fence_mark(lines[i]);
    if (open.empty() && mark.empty()) {
      text(i + 1, lines[i]);
    } else if (open.empty()) {
      open = mark;
      std::string info = lines[i].substr(lines[i].find(mark) + mark.size());
      info.erase(0, info.find_first_not_of(' '));
      block = {i + 1, info.substr(0, info.find_first_of(" {")), {}};
    } else if (mark.starts_with(open)) {
      fence(block);
      open.clear();
    } else {
      block.code.push_back(lines[i]);
    }
  }
  if (!open.empty()) fence(block);
}

const auto kIgnoreFence = [](const Fence&) {};

std::string without_inline_code(const std::string& line) {
  static const std::regex kCode("(`+)[^`]+?\\1");
  return std::regex_replace(line, kCode, "");
}

void collect(
    const std::regex& pattern, const std::string& line, std::size_t number,
    std::vector<Found>& found) {
  for (std::sregex_iterator match(line.begin(), line.end(), pattern), end; match != end; ++match)
    found.push_back({number, match->str(match->size() - 1)});
}

/// GitHub's rule: lower case, spaces become hyphens, of the rest letters, digits, - and _ stay.
/// Beyond ASCII, what lies from U+00C0 to U+1FFF is taken for letters, except the signs x and /.
std::string slug_of(const std::string& heading) {
  static const std::regex kLink("!?\\[([^\\]]*)\\]\\([^)]*\\)");
  const std::string text = std::regex_replace(heading, kLink, "$1");
  std::string slug;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      if (std::isalnum(byte) != 0 || byte == '-' || byte == '_')
        slug += static_cast<char>(std::tolower(byte));
      if (byte == ' ') slug += '-';
      ++i;
      continue;
    }
    const std::size_t size = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    const std::string character = text.substr(i, size);
    const bool is_sign = character == "\u00d7" || character == "\u00f7";
    if (character >= "\u00c0" && character < "\u2000" && !is_sign) slug += character;
    i += size;
  }
  return slug;
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
  static const std::regex kInline("\\]\\(<?([^)\\s>]+)[^)]*\\)");
  static const std::regex kReference("^ {0,3}\\[[^\\]]+\\]: +<?([^\\s>]+)");
  static const std::regex kAttribute("(?:src|srcset|href)=[\"']([^\"'\\s]+)");
  std::vector<Found> links;
  walk(
      page,
      [&](std::size_t number, const std::string& line) {
        const std::string text = without_inline_code(line);
        for (const std::regex* pattern : {&kInline, &kReference, &kAttribute})
          collect(*pattern, text, number, links);
      },
      kIgnoreFence);
  return links;
}

std::set<std::string> anchors_of(const std::string& page) {
  static const std::regex kHeading("^ {0,3}#{1,6} +(.*?)[ #]*$");
  static const std::regex kNamed("<a (?:id|name)=[\"']([^\"']+)");
  std::set<std::string> anchors;
  std::map<std::string, int> uses;
  walk(
      page,
      [&](std::size_t, const std::string& line) {
        std::smatch match;
        if (std::regex_match(line, match, kHeading)) {
          const std::string slug = slug_of(match[1]);
          const int use = uses[slug]++;
          anchors.insert(use == 0 ? slug : slug + "-" + std::to_string(use));
        }
        if (std::regex_search(line, match, kNamed)) anchors.insert(match[1]);
      },
      kIgnoreFence);
  return anchors;
}

std::vector<Fence> fences_of(const std::string& page) {
  std::vector<Fence> fences;
  walk(
      page, [](std::size_t, const std::string&) {},
      [&](const Fence& fence) { fences.push_back(fence); });
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
