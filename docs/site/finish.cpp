#include <algorithm>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.hpp"
#include "docs/site/site.hpp"
#include "docs/site/text.hpp"

namespace rmsnorm::site {
namespace {

namespace fs = std::filesystem;

std::string with_title_as_heading(const std::string& html) {
  const std::string begin = "<div class=\"title\">";
  const std::string title = between(html, begin, "</div>");
  return replace_all(html, begin + title + "</div>", "<h1 class=\"title\">" + title + "</h1>");
}

std::string with_lower_headings(std::string html) {
  for (char level = '5'; level >= '1'; --level) {
    const std::string below(1, static_cast<char>(level + 1));
    for (const std::string begin : {"<h", "</h"}) {
      for (const std::string end : {">", " "})
        html = replace_all(html, begin + level + end, begin + below + end);
    }
  }
  return html;
}

/// The start page is called as the site is.
std::string with_title_once(const std::string& html) {
  const std::string title = between(html, "<title>", "</title>");
  const std::size_t dash = title.find(" - ");
  if (dash == std::string::npos || title.substr(0, dash) != title.substr(dash + 3)) return html;
  return replace_all(html, "<title>" + title + "<", "<title>" + title.substr(0, dash) + "<");
}

/// Doxygen's lists and copies of files, which repeat what other pages say.
bool only_repeats(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  static constexpr const char* kParts[] = {
      "_source.html", "-members.html", "dir_",          "change_",        "kernel_",
      "namespace",    "usergroup",     "files.html",    "annotated.html", "classes.html",
      "functions",    "globals",       "hierarchy.html"};
  return std::any_of(std::begin(kParts), std::end(kParts), has);
}

/// Lessons first, then the other pages, then the API reference and the sources.
int rank_of(const std::string& name) {
  const bool is_reference = name.starts_with("class") || name.starts_with("struct") ||
                            name.find("_8hpp") != std::string::npos || name.starts_with("source_");
  return is_reference ? 2 : name.starts_with("lesson_") ? 0 : 1;
}

std::string json_string(std::string text) {
  text = replace_all(replace_all(std::move(text), "\\", "\\\\"), "\"", "\\\"");
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  return "\"" + text + "\"";
}

/// What the site's search looks through, as a program that defines SEARCH_INDEX: the name and the
/// HTML of every page. theme/site.js makes words of it.
std::string search_index(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".html") && !only_repeats(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::pair(rank_of(a), a) < std::pair(rank_of(b), b);
  });
  std::string js = "const SEARCH_INDEX = [\n";
  for (const std::string& name : names) {
    const std::string html = read_file(folder / name);
    const bool name_is_enough = name.starts_with("source_") && !name.ends_with("_8hpp.html");
    const std::string text =
        between(html, "<h1 class=\"title\">", name_is_enough ? "</h1>" : "<!-- contents -->");
    js += "[" + json_string(name) + "," + json_string("<h1>" + text) + "],\n";
  }
  return js + "];\n";
}

/// Doxygen takes `--option` for a dash and `__shared__` for bold print.
std::string with_names_as_written(const std::string& html) {
  static const std::regex kOption("&ndash;(?=[a-z])");
  static const std::regex kDunder("<b>(shared|global|device|host|restrict|syncthreads)</b>");
  if (html.find("&ndash;") == std::string::npos && html.find("<b>") == std::string::npos)
    return html;
  return std::regex_replace(
      std::regex_replace(html, kOption, "--"), kDunder, "<code>__$1__</code>");
}

/// Without Doxygen's links to more about what is described below them, or, often, is not.
std::string without_more(const std::string& html) {
  static const std::regex kMore(" ?<a href=\"[^\"]*#details\">More\\.\\.\\.</a>");
  return std::regex_replace(html, kMore, "");
}

/// The text of a page with its title as the heading of the first level and all others below it,
/// and, where there are formulas, with the program that sets them.
std::string finished_page(std::string html) {
  if (html.find("<h1") != std::string::npos) html = with_lower_headings(std::move(html));
  // No part of the text; its script looks for an h3.
  for (const std::string level : {"3", "4"}) {
    html = replace_all(
        html, "<h" + level + ">Table of Contents</h" + level + ">",
        "<h3 role=\"presentation\">On this page</h3>");
  }
  html = with_title_once(with_title_as_heading(with_names_as_written(without_more(html))));
  html = replace_all(html, "<div id=\"doc-content\"", "<div id=\"doc-content\" role=\"main\"");
  html = replace_all(
      html, "<div id=\"side-nav\"",
      "<div id=\"side-nav\" role=\"navigation\" aria-label=\"All pages\"");
  // Doxygen's list of what is on a page also names what it has left out.
  const std::string summary = between(html, "<div class=\"summary\">", "</div>");
  if (!summary.empty())
    html = replace_all(html, "<div class=\"summary\">" + summary + "</div>", "");
  if (html.find("class=\"math") != std::string::npos) {
    html = replace_all(
        html, "</head>",
        "<link rel=\"stylesheet\" href=\"katex/katex.min.css\">\n"
        "<script src=\"katex/katex.min.js\"></script>\n</head>");
  }
  return html;
}

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

void finish(const fs::path& root, const fs::path& html, const fs::path& katex) {
  // An empty list: all pages hang below the first.
  fs::remove(html / "pages.html");
  const std::string entry = "{text:\"Pages\",url:\"pages.html\"},";
  write_file(html / "menudata.js", replace_all(read_file(html / "menudata.js"), entry, ""));
  for (const auto& entry : fs::directory_iterator(html)) {
    if (entry.path().extension() != ".html") continue;
    const std::string name = entry.path().stem().string();
    write_file(
        entry.path(),
        replace_all(
            finished_page(read_file(entry.path())), "<body>", "<body data-page=\"" + name + "\">"));
  }
  write_file(html / "search_index.js", search_index(html));
  fs::copy(root / "plots/charts", html / "charts");
  for (const auto& entry : fs::directory_iterator(root / "docs/figures")) {
    const std::string svg = read_file(entry.path());
    const std::string stem = entry.path().stem().string();
    write_file(html / "figures" / (stem + "-light.svg"), drawing_for(svg, false));
    write_file(html / "figures" / (stem + "-dark.svg"), drawing_for(svg, true));
  }
  fs::create_directories(html / "katex");
  fs::copy(katex / "fonts", html / "katex/fonts");
  for (const char* name : {"katex.min.js", "katex.min.css"})
    fs::copy(katex / name, html / "katex" / name);
}

}  // namespace rmsnorm::site
