/// \file
/// The pages: links that lead somewhere, code that is the lesson's, and no measured number typed by
/// hand. What finds these things is tested in test_markdown.cpp.

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "common/base/files.hpp"
#include "common/contract/registry.hpp"
#include "tests/catch.hpp"
#include "tests/markdown.hpp"
#include "tests/repository.hpp"

namespace fs = std::filesystem;
using namespace tests;

namespace {

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

TEST_CASE("every relative link on every page leads to a file of this repository") {
  REQUIRE_FALSE(files_with({".md"}).empty());
  for (const fs::path& page : files_with({".md"})) {
    for (const Found& link : links_of(text_of(page))) {
      if (leads_elsewhere(link.text)) continue;
      INFO(page.string() << ":" << link.line << ": " << link.text);
      CHECK(link.text[0] != '/');
      const fs::path file = target_file(page, link.text);
      CHECK(fs::exists(file));
      CHECK_FALSE(file.lexically_relative(top()).string().starts_with(".."));
    }
  }
}

TEST_CASE("every anchor in a link is there on the page it leads to") {
  for (const fs::path& page : files_with({".md"})) {
    for (const Found& link : links_of(text_of(page))) {
      if (leads_elsewhere(link.text)) continue;
      const std::string anchor = anchor_in(link.text);
      const fs::path file = target_file(page, link.text);
      if (!fs::is_regular_file(file)) continue;  // reported above
      INFO(page.string() << ":" << link.line << ": " << link.text);
      CHECK((anchor.empty() || has_anchor(file, anchor)));
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
  for (const fs::path& page : lesson_pages()) {
    std::string typed;
    for (const Found& number : typed_results_of(text_of(page)))
      typed += "line " + std::to_string(number.line) + ": " + number.text + "\n";
    CAPTURE(page.string());
    CHECK(typed == "");
  }
}
