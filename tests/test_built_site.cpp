/// \file
/// The site as it was built: nothing leads nowhere, nothing comes from elsewhere, and it says what
/// the repository says. What a browser makes of it, browser/site_test.py tests.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/files.hpp"
#include "common/records/csv.hpp"
#include "tests/catch.hpp"
#include "tests/html.hpp"
#include "tests/repository.hpp"

namespace fs = std::filesystem;
using namespace tests;

namespace {

constexpr std::size_t kLargestPage = 300 * 1024;  // bytes

const fs::path& site() {
  static const fs::path folder = RMSNORM_SITE;
  return folder;
}

struct BuiltPage {
  std::string text;
  std::vector<Tag> tags;
  std::set<std::string> ids;
};

/// Every page of the site, by its name.
const std::map<std::string, BuiltPage>& pages() {
  static const std::map<std::string, BuiltPage> all = [] {
    std::map<std::string, BuiltPage> read;
    if (!fs::exists(site())) return read;
    for (const auto& entry : fs::directory_iterator(site())) {
      if (entry.path().extension() != ".html") continue;
      BuiltPage page{rmsnorm::read_file(entry.path()), {}, {}};
      page.tags = tags_of(page.text);
      page.ids = ids_of(page.tags);
      read.emplace(entry.path().filename().string(), std::move(page));
    }
    return read;
  }();
  REQUIRE(!all.empty());
  return all;
}

bool is_elsewhere(const std::string& address) {
  return address.find("://") != std::string::npos || address.starts_with("//");
}

/// What is wrong with an address in a page, or "".
std::string mistake_in(const std::string& page, const std::string& address) {
  const std::size_t hash = std::min(address.find('#'), address.size());
  std::string file = address.substr(0, std::min(hash, address.find('?')));
  const std::string anchor = hash < address.size() ? address.substr(hash + 1) : "";
  if (file.empty()) file = page;
  if (!fs::exists(site() / file)) return "there is no file " + file;
  const auto target = pages().find(file);
  if (anchor.empty() || target == pages().end()) return "";
  return target->second.ids.count(anchor) > 0 ? "" : "no place #" + anchor + " in " + file;
}

/// The text between the position behind a tag and the next occurrence of `end`.
std::string text_until(const std::string& page, const Tag& tag, const std::string& end) {
  return page.substr(tag.end, page.find(end, tag.end) - tag.end);
}

/// Text without tags.
std::string without_tags(const std::string& html) {
  std::string text;
  bool inside = false;
  for (const char c : html) {
    if (c == '<') inside = true;
    if (!inside) text += c;
    if (c == '>') inside = false;
  }
  return unescaped(text);
}

std::vector<std::string> kernel_of(const fs::path& lesson) {
  return lines_of(lesson / "rms_norm.cu");
}

/// The old and the new file that a page of a difference shows.
struct ShownDifference {
  std::vector<std::string> before;
  std::vector<std::string> after;
  int added = 0;
  int removed = 0;
};

ShownDifference shown_difference(const BuiltPage& page) {
  ShownDifference shown;
  std::string kind;
  for (const Tag& tag : page.tags) {
    if (tag.name == "tr") kind = tag["class"];
    if (tag.name != "td" || tag["class"] != "line") continue;
    const std::string line = without_tags(text_until(page.text, tag, "</td>"));
    if (kind != "added") shown.before.push_back(line);
    if (kind != "removed") shown.after.push_back(line);
    shown.added += kind == "added" ? 1 : 0;
    shown.removed += kind == "removed" ? 1 : 0;
  }
  return shown;
}

}  // namespace

TEST_CASE("every lesson and every page about all of them is in the site and in its tree") {
  REQUIRE(pages().count("index.html") == 1);
  const std::string tree = rmsnorm::read_file(site() / "navtreedata.js");
  const auto check = [&](const std::string& page) {
    CAPTURE(page);
    CHECK(pages().count(page) == 1);
    CHECK(tree.find("\"" + page + "\"") != std::string::npos);
  };
  for (const fs::path& lesson : lesson_folders())
    check("lesson_" + lesson.filename().string() + ".html");
  for (const char* page :
       {"method", "reading_the_charts", "cpu_device", "glossary", "results", "charts", "peers",
        "librmsnorm", "going_further", "contributing", "files"})
    check(std::string(page) + ".html");
}

TEST_CASE("every address in a page of the site leads to a file, and to a place that it has") {
  for (const auto& [name, page] : pages()) {
    std::string mistakes;
    for (const Tag& tag : page.tags) {
      for (const char* attribute : {"href", "src", "srcset", "data", "xlink:href"}) {
        const std::string address = tag[attribute];
        if (address.empty() || is_elsewhere(address) || address.starts_with("data:") ||
            address.starts_with("javascript:"))
          continue;
        const std::string mistake = mistake_in(name, address);
        if (!mistake.empty()) mistakes += "<" + tag.name + "> " + address + ": " + mistake + "\n";
      }
    }
    CAPTURE(name);
    CHECK(mistakes == "");
  }
}

TEST_CASE("no page of the site loads anything from another host") {
  for (const auto& [name, page] : pages()) {
    CAPTURE(name);
    for (const Tag& tag : page.tags) {
      for (const auto& [attribute, value] : tag.attributes) {
        if (attribute == "xmlns" || attribute == "xmlns:xlink" || attribute == "title" ||
            attribute == "alt" || (tag.name == "a" && attribute == "href"))
          continue;
        CAPTURE(tag.name, attribute);
        CHECK_FALSE(is_elsewhere(value));
      }
    }
  }
  for (const auto& entry : fs::recursive_directory_iterator(site())) {
    if (entry.path().extension() != ".css") continue;
    const std::string text = rmsnorm::read_file(entry.path());
    CAPTURE(entry.path().string());
    CHECK(text.find("@import") == std::string::npos);
    for (const std::string& url : urls_of(text)) {
      if (url.starts_with("data:")) continue;
      CAPTURE(url);
      CHECK_FALSE(is_elsewhere(url));
      CHECK(fs::exists(entry.path().parent_path() / url));
    }
  }
}

TEST_CASE("no page of the site is larger than 300 KB") {
  for (const auto& [name, page] : pages()) {
    CAPTURE(name);
    CHECK(page.text.size() <= kLargestPage);
  }
}

TEST_CASE("a page's headings go down one level at a time, from a single first one") {
  for (const auto& [name, page] : pages()) {
    CAPTURE(name);
    int last = 0;
    int first_level = 0;
    for (const Tag& tag : page.tags) {
      const bool is_heading = tag.name.size() == 2 && tag.name[0] == 'h' &&
                              std::isdigit(static_cast<unsigned char>(tag.name[1])) != 0;
      if (!is_heading || tag["role"] == "presentation") continue;
      const int level = tag.name[1] - '0';
      CAPTURE(without_tags(text_until(page.text, tag, "</h")));
      CHECK(level <= last + 1);
      last = level;
      if (level == 1) ++first_level;
    }
    CHECK(first_level == 1);
  }
}

TEST_CASE("every picture of the site says what it shows") {
  for (const auto& [name, page] : pages()) {
    CAPTURE(name);
    for (const Tag& tag : page.tags) {
      if (tag.name == "img") CHECK_FALSE(tag["alt"].empty());
      if (tag.name == "img" && tag["src"].starts_with("charts/")) CHECK(tag["alt"].size() > 10);
      if (tag.name == "svg")
        CHECK((tag["role"] == "img" && tag.has("aria-labelledby")) != tag.has("aria-hidden"));
    }
  }
}

TEST_CASE("a glossary's explanation follows its heading, whatever names it has") {
  const std::string& text = pages().at("glossary.html").text;
  CHECK(text.find("<p class=\"meaning\"><a id=") != std::string::npos);
  CHECK(text.find("</a><p class=\"meaning\">") == std::string::npos);
}

TEST_CASE("no page of the site is a list of nothing, and the first says its name once") {
  CHECK(pages().count("pages.html") == 0);
  CHECK(pages().count("usergroup0.html") == 0);
  CHECK(
      pages().at("index.html").text.find("<title>RMSNorm, Step by Step</title>") !=
      std::string::npos);
}

TEST_CASE("a page of the site has each of its identifiers once") {
  for (const auto& [name, page] : pages()) {
    std::set<std::string> seen;
    CAPTURE(name);
    for (const Tag& tag : page.tags) {
      if (!tag.has("id")) continue;
      CAPTURE(tag["id"]);
      CHECK(seen.insert(tag["id"]).second);
    }
  }
}

TEST_CASE("no page of the site shows what its makers write for Markdown or Doxygen") {
  for (const auto& [name, page] : pages()) {
    if (!name.starts_with("lesson_") && name != "index.html" && name != "glossary.html" &&
        name != "method.html" && name != "cpu_device.html")
      continue;
    std::string prose;
    for (const Tag& tag : page.tags) {
      if (tag.name == "p" || tag.name == "li" || tag.name == "td")
        prose += without_tags(text_until(page.text, tag, "</" + tag.name)) + "\n";
    }
    CAPTURE(name);
    for (const char* mark : {"```", "](", "**", "\\ref", "\\htmlonly", "\\subpage", "$`", "<!--"})
      CHECK(prose.find(mark) == std::string::npos);
  }
}

TEST_CASE("the difference that a page shows makes one lesson's kernel of the other's") {
  const std::vector<fs::path> lessons = lesson_folders();
  REQUIRE(lessons.size() >= 2);
  for (std::size_t i = 1; i < lessons.size(); ++i) {
    const std::string numbers = lessons[i - 1].filename().string().substr(0, 2) + "_" +
                                lessons[i].filename().string().substr(0, 2);
    CAPTURE(numbers);
    const auto page = pages().find("change_" + numbers + ".html");
    REQUIRE(page != pages().end());
    const ShownDifference shown = shown_difference(page->second);
    CHECK(shown.before == kernel_of(lessons[i - 1]));
    CHECK(shown.after == kernel_of(lessons[i]));
    const std::string size = "<span class=\"plus\">+" + std::to_string(shown.added) +
                             "</span> <span class=\"minus\">&minus;" +
                             std::to_string(shown.removed) + "</span>";
    CHECK(page->second.text.find(size) != std::string::npos);
    const auto lesson = pages().find("lesson_" + lessons[i].filename().string() + ".html");
    REQUIRE(lesson != pages().end());
    CHECK(lesson->second.text.find(size) != std::string::npos);
  }
}

TEST_CASE("the pages of results have a row for every recorded result") {
  std::size_t rows = 0;
  std::string all;
  for (const auto& [name, page] : pages()) {
    if (!name.starts_with("results")) continue;
    all += page.text;
    for (const Tag& tag : page.tags) rows += tag.has("data-regime") ? 1 : 0;
  }
  std::size_t recorded = 0;
  for (const auto& entry : fs::directory_iterator(top() / "plots/data")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".csv") || name.ends_with("-trace.csv")) continue;
    const std::size_t lines = lines_of(entry.path()).size() - 1;
    recorded += lines;
    if (!name.ends_with("-profile.csv")) {
      for (const rmsnorm::Result& r : rmsnorm::read_csv(entry.path()))
        CHECK(all.find(r.version) != std::string::npos);
    }
  }
  REQUIRE(recorded > 0);
  CHECK(rows >= recorded);  // and those of the CPU device's counts
}

TEST_CASE("a lesson links each word of the glossary once, to the place that explains it") {
  for (const fs::path& lesson : lesson_folders()) {
    const std::string name = "lesson_" + lesson.filename().string() + ".html";
    CAPTURE(name);
    const auto page = pages().find(name);
    REQUIRE(page != pages().end());
    std::set<std::string> targets;
    for (const Tag& tag : page->second.tags) {
      if (tag["class"] != "term") continue;
      CAPTURE(tag["href"]);
      CHECK(targets.insert(tag["href"]).second);
      CHECK_FALSE(tag["title"].empty());
    }
    CHECK(targets.size() >= 3);
  }
}
