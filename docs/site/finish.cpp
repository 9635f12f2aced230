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

/// Doxygen's lists and copies of files, which repeat what other pages say.
bool only_repeats(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  static constexpr const char* kParts[] = {
      "_source.html", "-members.html",  "dir_",         "kernel_",   "namespace", "usergroup",
      "files.html",   "annotated.html", "classes.html", "functions", "globals",   "hierarchy.html"};
  return std::any_of(std::begin(kParts), std::end(kParts), has);
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
  std::sort(names.begin(), names.end());
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

/// Doxygen's HTML with what it has no template or option for.
std::string finished_page(std::string html) {
  static const std::pair<std::regex, const char*> kReplaced[] = {
      // Doxygen takes `--option` in a comment for a dash and `__shared__` for bold print.
      {std::regex("&ndash;(?=[a-z])"), "--"},
      {std::regex("<b>(shared|global|device|host|restrict|syncthreads)</b>"),
       "<code>__$1__</code>"},
      // It makes no heading of a page's title, and appends the site's name to every title.
      {std::regex("<div class=\"title\">(.*?)</div>"), "<h1 class=\"title\">$1</h1>"},
      {std::regex("<title>RMSNorm, Step by Step - "), "<title>"},
      // Its lists of what is on a page, and its links to more, also lead to what is not there.
      {std::regex("<div class=\"summary\">[\\s\\S]*?</div>"), ""},
      {std::regex(" ?<a href=\"[^\"]*#details\">More\\.\\.\\.</a>"), ""}};
  for (const auto& [pattern, text] : kReplaced) html = std::regex_replace(html, pattern, text);
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

void finish(const fs::path& root, const fs::path& html) {
  for (const auto& entry : fs::directory_iterator(html)) {
    if (entry.path().extension() == ".html")
      write_file(entry.path(), finished_page(read_file(entry.path())));
  }
  write_file(html / "search_index.js", search_index(html));
  for (const auto& entry : fs::directory_iterator(root / "docs/figures")) {
    const std::string svg = read_file(entry.path());
    const std::string stem = entry.path().stem().string();
    write_file(html / "figures" / (stem + "-light.svg"), drawing_for(svg, false));
    write_file(html / "figures" / (stem + "-dark.svg"), drawing_for(svg, true));
  }
}

}  // namespace rmsnorm::site
