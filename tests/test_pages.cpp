/// \file
/// The pages: links that lead somewhere, code that is the lesson's, and no measured number typed by
/// hand.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
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

/// Adds what a pattern's group finds in a text.
void collect(const std::regex& pattern, const std::string& text, std::vector<std::string>& found) {
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
    found.push_back(match->str(1));
}

/// What the links and images of a page of Markdown point to, in Markdown or HTML. Code is left out.
std::vector<std::string> links_of(const std::string& page) {
  static const std::regex kAttribute("(?:src|srcset|href)=[\"']([^\"'\\s]+)");
  std::vector<std::string> links;
  for_each_node(parse(page).get(), [&](cmark_node* node) {
    const cmark_node_type type = cmark_node_get_type(node);
    if (type == CMARK_NODE_LINK || type == CMARK_NODE_IMAGE)
      links.emplace_back(cmark_node_get_url(node));
    if (type == CMARK_NODE_HTML_BLOCK || type == CMARK_NODE_HTML_INLINE)
      collect(kAttribute, literal_of(node), links);
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
std::vector<std::string> typed_results_of(std::string page) {
  static const std::regex kNumber(
      "(\\d[\\d.,]*(?: "
      "|\u00a0|\u202f|&nbsp;|-)*(?:GB/s|TB/s|(?:us|\u00b5s|\u03bcs)(?![A-Za-z0-9_])))");
  const auto begin_of_block = [&] { return page.find("<!-- results:begin"); };
  for (std::size_t begin = begin_of_block(); begin != std::string::npos; begin = begin_of_block())
    page.erase(begin, page.find("<!-- results:end", begin) - begin);
  std::vector<std::string> found;
  collect(kNumber, page, found);
  return found;
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

/// Whether a page links to a lesson's page, with or without the README.md.
bool links_to(const fs::path& page, const fs::path& folder) {
  const auto links = links_of(text_of(page));
  return std::any_of(links.begin(), links.end(), [&](const std::string& link) {
    if (leads_elsewhere(link)) return false;
    const fs::path file = target_file(page, link);
    return file == folder || file == folder / "" || file == folder / "README.md";
  });
}

/// The page's lines that a reader sees before unfolding anything, without those of its code.
std::vector<std::string> open_lines_of(const fs::path& page) {
  std::vector<std::string> open;
  bool is_folded = false, is_code = false;
  for (const std::string& line : lines_of(page)) {
    if (line.starts_with("```")) is_code = !is_code;
    if (line.starts_with("<details>")) is_folded = true;
    if (!is_folded && !is_code) open.push_back(line);
    if (line.starts_with("</details>")) is_folded = false;
  }
  return open;
}

/// The words of running text: tables, images and HTML have none.
int words_in(const std::vector<std::string>& lines) {
  int words = 0;
  for (const std::string& line : lines) {
    if (line.starts_with("|") || line.starts_with("!") ||
        line.find_first_not_of(' ') == line.find('<'))
      continue;
    std::istringstream text(line);
    for (std::string word; text >> word;)
      words +=
          std::any_of(word.begin(), word.end(), [](unsigned char c) { return std::isalnum(c); });
  }
  return words;
}

int count_of(const std::string& part, const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// The pages of the lessons, and those of the projects.
std::vector<fs::path> folders_with_code() {
  std::vector<fs::path> folders = lesson_folders();
  for (const fs::path& project : project_folders()) folders.push_back(project);
  return folders;
}

}  // namespace

TEST_CASE("links are found in Markdown and in HTML and not in code") {
  CHECK(
      links_of("[a](1) ![b](2) `[c](3)`\n\n<img src=\"4\">\n\n<source srcset='5'>") ==
      std::vector<std::string>{"1", "2", "4", "5"});
}

TEST_CASE("every link on every page leads to a file of this repository and to a place in it") {
  REQUIRE_FALSE(files_with({".md"}).empty());
  for (const fs::path& page : files_with({".md"})) {
    for (const std::string& link : links_of(text_of(page))) {
      if (leads_elsewhere(link)) continue;
      INFO(page.string() << ": " << link);
      const fs::path file = target_file(page, link);
      const std::string anchor = link.substr(std::min(link.find('#'), link.size() - 1) + 1);
      CHECK(link[0] != '/');
      CHECK_FALSE(file.lexically_relative(top()).string().starts_with(".."));
      CHECK(fs::exists(file));
      if (!anchor.empty()) CHECK(anchors_of(text_of(file)).count(anchor) == 1);
    }
  }
}

TEST_CASE(
    "the code on a lesson's page is the lesson's or its exercise's, or tested where that names the "
    "page, and a project's is its exercise's") {
  for (const fs::path& folder : folders_with_code()) {
    const bool is_lesson = fs::exists(folder / "rms_norm.cu");
    const std::string source = "\n" + text_of(folder / (is_lesson ? "rms_norm.cu" : "exercise.cu"));
    const std::string shown_elsewhere = "lessons/" + folder.filename().string() + "/README.md";
    std::string elsewhere = "\n";
    if (fs::exists(folder / "exercise.edit")) {
      for (const std::string& line : lines_of(folder / "exercise.edit")) {
        if (line.starts_with("+")) elsewhere += line.substr(1) + "\n";
      }
    }
    for (const auto& entry : fs::directory_iterator(top() / "tests/ordinary")) {
      const std::string text = "\n" + text_of(entry.path());
      if (text.find(shown_elsewhere) != text.npos) elsewhere += text;
    }
    int shown = 0;
    for (const Fence& fence : fences_of(text_of(folder / "README.md"))) {
      INFO(folder.string() << ", line " << fence.line);
      // Under these names C++ would escape the comparison.
      for (const char* name : {"c", "c++", "cu", "cuda", "C++", "CUDA"})
        CHECK(fence.language != name);
      if (fence.language != "cpp") continue;
      const std::string code = fmt::format("\n{}\n", fmt::join(fence.code, "\n"));
      if (elsewhere.find(code) != elsewhere.npos) continue;
      CHECK_THAT(source, contains(code));
      ++shown;
    }
    INFO(folder.string() << " shows none of its code");
    CHECK(shown > 0);
  }
}

TEST_CASE("a lesson's page links to the lesson before and the lesson after") {
  const std::vector<fs::path> folders = lesson_folders();
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const fs::path page = folders[i] / "README.md";
    CAPTURE(page.string());
    if (i > 0) CHECK(links_to(page, folders[i - 1]));
    if (i + 1 < folders.size()) CHECK(links_to(page, folders[i + 1]));
  }
}

TEST_CASE("the last lesson and the README lead to the projects, which lead to each other") {
  const std::vector<fs::path> projects = project_folders();
  REQUIRE(projects.size() == 3);
  CHECK(links_to(lesson_folders().back() / "README.md", projects[0]));
  CHECK(links_to(projects[0] / "README.md", lesson_folders().back()));
  for (std::size_t i = 1; i < projects.size(); ++i) {
    CHECK(links_to(projects[i - 1] / "README.md", projects[i]));
    CHECK(links_to(projects[i] / "README.md", projects[i - 1]));
  }
  for (const fs::path& project : projects) CHECK(links_to(top() / "README.md", project));
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

TEST_CASE("no measured number on a lesson's or a project's page was typed by hand") {
  CHECK(
      typed_results_of("4,251 GB/s, 4.2 TB/s, 3.1us, 3 \u00b5s, 5&nbsp;us, 48 KiB, 7 usual")
          .size() == 5);
  for (const fs::path& folder : folders_with_code()) {
    CAPTURE(folder.string());
    CHECK(typed_results_of(text_of(folder / "README.md")) == std::vector<std::string>{});
  }
}

TEST_CASE("no table on a page waits for its results") {
  for (const fs::path& page : files_with({".md"})) {
    CAPTURE(page.string());
    CHECK_THAT(text_of(page), !contains("Not recorded yet"));
  }
}

TEST_CASE("the options of ./rmsnorm stand behind its command everywhere") {
  std::vector<fs::path> files = files_with({".md", ".sh", ".cpp", ".cu"});
  files.insert(files.end(), {top() / "rmsnorm", top() / ".github/workflows/ci.yml"});
  const std::regex option_first("\\./rmsnorm (\\[)?--(device|no-install)");
  for (const fs::path& file : files) {
    CAPTURE(file.string());
    CHECK_FALSE(std::regex_search(text_of(file), option_first));
  }
}

TEST_CASE("a lesson's measured results are folded, so that a prediction is made first") {
  for (const fs::path& folder : lesson_folders()) {
    CAPTURE(folder.string());
    CHECK_THAT(text_of(folder / "README.md"), contains("<!-- results:begin"));
    for (const std::string& line : open_lines_of(folder / "README.md")) {
      CHECK_THAT(line, !contains("<!-- results:begin"));
      CHECK_THAT(line, !contains("<img") || !contains("plots/charts/"));
    }
  }
  // Lessons link to this page before they are over.
  for (const std::string& line : open_lines_of(top() / "docs/what_limits_a_norm.md")) {
    CHECK_THAT(line, !contains("<!-- results:begin"));
    CHECK_THAT(line, !contains("<img"));
  }
  // The README is read before any lesson. It may show counts, and the library's times.
  for (const std::string& line : open_lines_of(top() / "README.md")) {
    CHECK_THAT(line, !contains("<!-- results:begin"));
    CHECK_THAT(
        line, !contains("<img") || !contains("plots/charts/") || contains("plots/charts/ladder") ||
                  contains("plots/charts/peers_"));
  }
}

TEST_CASE("a lesson's page asks three questions behind its prediction, with folded answers") {
  for (const fs::path& folder : lesson_folders()) {
    CAPTURE(folder.string());
    const std::string page = text_of(folder / "README.md");
    const std::size_t begin = page.find("\n## Three questions\n");
    REQUIRE(begin != page.npos);
    CHECK(page.find("Predict") < begin);
    const std::string quiz = page.substr(begin, page.find("\n## ", begin + 1) - begin);
    CHECK(count_of("\n\n<details><summary>Answer</summary>\n\n", quiz) == 3);
    CHECK(count_of("\n\n</details>\n", quiz) == 3);
    for (const char* number : {"\n1. ", "\n2. ", "\n3. "}) CHECK(count_of(number, quiz) == 1);
  }
}

TEST_CASE("a page is read in one sitting: at most 1800 words, what is folded not counted") {
  CHECK(
      words_in({"Two `words` - |", "| a | table |", "![an image](x)", "  <img alt=\"b\">", ""}) ==
      2);
  for (const fs::path& folder : lesson_folders()) {
    CAPTURE(folder.string());
    // Lesson 11 has the hardest kernel: its page has to be the shorter for it.
    const int most = folder.filename() == "11_unaligned_rows" ? 1200 : 1800;
    CHECK(words_in(open_lines_of(folder / "README.md")) <= most);
  }
  for (const char* page : {"docs/machine.md", "docs/what_limits_a_norm.md"}) {
    CAPTURE(page);
    CHECK(words_in(open_lines_of(top() / page)) <= 1800);
  }
}

TEST_CASE("the course has at most six open questions, and what a page calls open is one of them") {
  const std::string page = text_of(top() / "docs/what_limits_a_norm.md");
  const std::size_t begin = page.find("\n## Open questions\n");
  REQUIRE(begin != page.npos);
  const std::string list = page.substr(begin, page.find("\n## ", begin + 1) - begin);
  CHECK(list.find("\n6. ") != list.npos);
  CHECK(list.find("\n7. ") == list.npos);
  for (const fs::path& folder : lesson_folders()) {
    const std::string slug = folder.filename();
    if (text_of(folder / "README.md").find("#open-questions)") == std::string::npos) continue;
    CAPTURE(slug);
    CHECK_THAT(list, contains("[Lesson " + slug.substr(0, 2) + "]"));
  }
}

TEST_CASE("no line of text on a page is wider than 120 columns") {
  for (const fs::path& page : files_with({".md"})) {
    std::size_t number = 0;
    bool is_code = false, is_result = false;
    for (const std::string& line : lines_of(page)) {
      INFO(page.string() << ":" << ++number);
      if (line.starts_with("```")) is_code = !is_code;
      if (line.starts_with("<!-- results:")) is_result = line.starts_with("<!-- results:begin");
      // Tables, pictures, a single link and the links around a lesson cannot be broken.
      const bool is_one = line.starts_with("|") || line.starts_with("![") ||
                          line.starts_with("previous:") || line.starts_with("  <img") ||
                          line.find(' ') == line.npos;
      if (!is_code && !is_result && !is_one) CHECK(columns(line) <= 120);
    }
  }
}
