/// \file
/// The pages: links that lead somewhere, code that is the lesson's, and no measured number typed by
/// hand.

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "common/base/files.hpp"
#include "common/contract/registry.hpp"
#include "docs/site/document.hpp"
#include "tests/catch.hpp"
#include "tests/markdown.hpp"
#include "tests/repository.hpp"

namespace fs = std::filesystem;
using namespace rmsnorm::site;
using namespace tests;

namespace {

/// Something in a page and the line, from 1, where it stands or begins.
struct Found {
  std::size_t line;
  std::string text;
};

/// Adds what a pattern's group finds in a text that begins on a line.
void collect(
    const std::regex& pattern, const std::string& text, std::size_t line,
    std::vector<Found>& found) {
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    const auto lines_before = std::count(text.begin(), text.begin() + match->position(), '\n');
    found.push_back({line + static_cast<std::size_t>(lines_before), match->str(1)});
  }
}

/// What the links and images of a page of Markdown point to, in Markdown or HTML. Code is left out.
std::vector<Found> links_of(const std::string& page) {
  static const std::regex kAttribute("(?:src|srcset|href)=[\"']([^\"'\\s]+)");
  std::vector<Found> links;
  for_each_node(parse(page).get(), [&](cmark_node* node) {
    const auto line = static_cast<std::size_t>(cmark_node_get_start_line(node));
    const cmark_node_type type = cmark_node_get_type(node);
    if (type == CMARK_NODE_LINK || type == CMARK_NODE_IMAGE)
      links.push_back({line, cmark_node_get_url(node)});
    if (type == CMARK_NODE_HTML_BLOCK || type == CMARK_NODE_HTML_INLINE)
      collect(kAttribute, literal_of(node), line, links);
  });
  return links;
}

/// The anchors that a page's headings have by GitHub's rules.
std::set<std::string> anchors_of(const std::string& page) {
  std::set<std::string> anchors;
  for_each_node(parse(page).get(), [&](cmark_node* node) {
    if (cmark_node_get_type(node) == CMARK_NODE_HEADING) anchors.insert(slug_of(plain_text(node)));
  });
  return anchors;
}

/// The measured numbers with a unit of speed or time, GB/s, TB/s or us, that stand outside the
/// blocks between results:begin and results:end.
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

/// Whether the code is a part of the source: its lines in one piece. Spaces at the ends of lines,
/// and a common indentation, make no difference.
bool occurs_in(const std::vector<std::string>& code, const std::vector<std::string>& source) {
  if (code.empty() || code.size() > source.size()) return false;
  const std::vector<std::string> wanted = normalised(code.begin(), code.end());
  const auto size = static_cast<std::ptrdiff_t>(code.size());
  for (auto begin = source.begin(); source.end() - begin >= size; ++begin) {
    if (normalised(begin, begin + size) == wanted) return true;
  }
  return false;
}

std::string text_of(const fs::path& page) {
  return rmsnorm::read_file(page);
}

bool leads_elsewhere(const std::string& target) {
  static const std::regex kScheme("^[a-z]+:.*");
  return std::regex_match(target, kScheme);
}

/// The file or folder that a link on a page points to.
fs::path target_file(const fs::path& page, const std::string& target) {
  const std::string path = target.substr(0, target.find_first_of("#?"));
  return path.empty() ? page : (page.parent_path() / path).lexically_normal();
}

std::string anchor_in(const std::string& target) {
  const std::size_t hash = target.find('#');
  return hash == std::string::npos ? "" : target.substr(hash + 1);
}

/// GitHub's anchors: a heading of a page, or lines "L10" or "L10-L20" of any other file.
bool has_anchor(const fs::path& file, const std::string& anchor) {
  if (file.extension() == ".md") return anchors_of(text_of(file)).count(anchor) > 0;
  static const std::regex kLines("L(\\d+)(?:-L(\\d+))?");
  std::smatch match;
  if (!std::regex_match(anchor, match, kLines)) return false;
  const std::string last = match[2].matched ? match[2] : match[1];
  return std::stoul(last) <= lines_of(file).size();
}

/// Whether a page links to a lesson's page, with or without the README.md.
bool links_to(const fs::path& page, const fs::path& folder) {
  const auto links = links_of(text_of(page));
  return std::any_of(links.begin(), links.end(), [&](const Found& link) {
    if (leads_elsewhere(link.text)) return false;
    const fs::path file = target_file(page, link.text);
    return file == folder || file == folder / "" || file == folder / "README.md";
  });
}

/// The lessons' pages that are there; that none is missing, test_registry.cpp checks.
std::vector<fs::path> lesson_pages() {
  std::vector<fs::path> pages;
  for (const fs::path& folder : lesson_folders()) {
    if (fs::exists(folder / "README.md")) pages.push_back(folder / "README.md");
  }
  return pages;
}

}  // namespace

TEST_CASE("every link on every page leads to a file of this repository and to a place in it") {
  REQUIRE_FALSE(files_with({".md"}).empty());
  for (const fs::path& page : files_with({".md"})) {
    for (const Found& link : links_of(text_of(page))) {
      if (leads_elsewhere(link.text)) continue;
      INFO(page.string() << ":" << link.line << ": " << link.text);
      const fs::path file = target_file(page, link.text);
      const std::string anchor = anchor_in(link.text);
      CHECK(link.text[0] != '/');
      CHECK_FALSE(file.lexically_relative(top()).string().starts_with(".."));
      CHECK(fs::exists(file));
      if (fs::is_regular_file(file)) CHECK((anchor.empty() || has_anchor(file, anchor)));
    }
  }
}

TEST_CASE("the code on a lesson's page is the lesson's code") {
  for (const fs::path& page : lesson_pages()) {
    std::vector<std::vector<std::string>> sources;
    for (const auto& entry : fs::directory_iterator(page.parent_path())) {
      const std::string name = entry.path().filename();
      const bool is_header = name.ends_with(".cuh") || name.ends_with(".hpp");
      if (name == "rms_norm.cu" || is_header) sources.push_back(lines_of(entry.path()));
    }
    int shown = 0;
    for (const Fence& fence : fences_of(text_of(page))) {
      INFO(page.string() << ":" << fence.line);
      // Under these names C++ would escape the comparison.
      for (const char* name : {"c", "c++", "cu", "cuda", "C++", "CUDA"})
        CHECK(fence.language != name);
      if (fence.language != "cpp") continue;
      CHECK(std::any_of(sources.begin(), sources.end(), [&](const auto& source) {
        return occurs_in(fence.code, source);
      }));
      ++shown;
    }
    INFO(page.string() << " shows none of its code");
    CHECK(shown > 0);
  }
}

TEST_CASE("a lesson's page links to the lesson before and the lesson after") {
  const std::vector<fs::path> folders = lesson_folders();
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const fs::path page = folders[i] / "README.md";
    if (!fs::exists(page)) continue;
    CAPTURE(page.string());
    if (i > 0) CHECK(links_to(page, folders[i - 1]));
    if (i + 1 < folders.size()) CHECK(links_to(page, folders[i + 1]));
  }
}

TEST_CASE("a lesson's page has the title that the lesson is registered with") {
  for (const rmsnorm::Implementation& lesson : rmsnorm::all_implementations()) {
    const std::string slug = lesson.slug;
    if (slug.find('/') != std::string::npos || slug == "librmsnorm") continue;
    CAPTURE(slug);
    const std::string title = "# Lesson " + slug.substr(0, 2) + ": " + lesson.title;
    CHECK(lines_of(top() / "lessons" / slug / "README.md").at(0) == title);
  }
}

TEST_CASE("no measured number on a lesson's page was typed by hand") {
  CHECK(
      typed_results_of("4,251 GB/s, 4.2 TB/s, 3.1us, 3 \u00b5s, 5&nbsp;us, 48 KiB, 7 usual")
          .size() == 5);
  for (const fs::path& page : lesson_pages()) {
    std::string typed;
    for (const Found& number : typed_results_of(text_of(page)))
      typed += "line " + std::to_string(number.line) + ": " + number.text + "\n";
    CAPTURE(page.string());
    CHECK(typed == "");
  }
}
