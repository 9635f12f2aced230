#include "docs/site/search_index.hpp"

#include <algorithm>

#include "common/base/files.hpp"
#include "docs/site/text.hpp"

namespace rmsnorm::site {
namespace {

namespace fs = std::filesystem;

/// The position behind an element that begins at a position.
std::size_t behind(std::string_view html, std::size_t at, const std::string& name) {
  const std::size_t end = html.find("</" + name + ">", at);
  return end == std::string_view::npos ? html.size() : end + name.size() + 3;
}

/// Doxygen's lists and copies of files, which repeat what other pages say.
bool is_worth_it(const std::string& name) {
  for (const char* part :
       {"_source.html", "-members.html", "dir_", "change_", "kernel_", "namespace", "usergroup",
        "files.html", "annotated.html", "classes.html", "pages.html", "functions", "globals",
        "hierarchy.html"}) {
    if (name.find(part) != std::string::npos) return false;
  }
  return name.ends_with(".html");
}

/// Lessons first, then the other pages, then the API reference and the sources.
int rank_of(const std::string& name) {
  if (name.starts_with("lesson_") && name.find("_8hpp") == std::string::npos) return 0;
  const bool is_reference = name.starts_with("class") || name.starts_with("struct") ||
                            name.find("_8hpp") != std::string::npos || name.starts_with("source_");
  return is_reference ? 2 : 1;
}

std::string json_string(std::string text) {
  text = replace_all(replace_all(std::move(text), "\\", "\\\\"), "\"", "\\\"");
  text = replace_all(std::move(text), "<", "\\u003c");
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  return "\"" + text + "\"";
}

}  // namespace

std::string text_of_html(std::string_view html) {
  std::string text;
  for (std::size_t at = 0; at < html.size();) {
    if (html[at] != '<') {
      const char c = html[at] == '\n' ? ' ' : html[at];
      if (c != ' ' || (!text.empty() && text.back() != ' ')) text += c;
      ++at;
      continue;
    }
    bool skipped = false;
    for (const std::string begin :
         {"script", "style", "svg", "button", "select", "nav", "p class=\"lesson-links\"",
          "div hidden"}) {
      if (html.substr(at + 1).starts_with(begin)) {
        at = behind(html, at, begin.substr(0, begin.find(' ')));
        skipped = true;
        break;
      }
    }
    if (skipped) continue;
    const std::size_t end = html.find('>', at);
    if (end == std::string_view::npos) break;
    const bool is_inline = html.substr(at, 5) == "<code" || html.substr(at, 6) == "</code" ||
                           html.substr(at, 2) == "<a" || html.substr(at, 3) == "</a" ||
                           html.substr(at, 5) == "<span" || html.substr(at, 6) == "</span";
    if (!is_inline && !text.empty() && text.back() != ' ') text += ' ';
    at = end + 1;
  }
  for (const auto& [code, character] :
       {std::pair("&lt;", "<"), std::pair("&gt;", ">"), std::pair("&quot;", "\""),
        std::pair("&#160;", " "), std::pair("&nbsp;", " "), std::pair("&#9670;", ""),
        std::pair("&middot;", "\u00b7"), std::pair("&minus;", "\u2212"),
        std::pair("&ndash;", "\u2013"), std::pair("&mdash;", "\u2014"),
        std::pair("&times;", "\u00d7"), std::pair("&#39;", "'"), std::pair("&amp;", "&")})
    text = replace_all(text, code, character);
  return trimmed(text);
}

std::vector<SearchEntry> sections_of(std::string_view html, const std::string& name) {
  const std::string page = text_of_html(between(html, "<h1 class=\"title\">", "</h1>"));
  std::vector<SearchEntry> entries = {{name, page, "", ""}};
  std::size_t at = html.find("<div class=\"contents\">");
  if (page.empty() || at == std::string_view::npos) return {};
  const std::size_t toc = html.find("<div class=\"toc", at);
  if (toc != std::string_view::npos) at = behind(html, toc, "div");
  while (at < html.size()) {
    const std::size_t heading = std::min({html.find("<h2", at), html.find("<h3", at), html.size()});
    entries.back().text = text_of_html(html.substr(at, heading - at));
    if (heading == html.size()) break;
    const std::string level(html.substr(heading + 1, 2));
    const std::size_t end = behind(html, heading, level);
    const std::string_view inside = html.substr(heading, end - heading);
    std::string anchor = between(inside, " id=\"", "\"");
    if (anchor.empty()) anchor = between(inside, "href=\"#", "\"");
    entries.push_back(
        {anchor.empty() ? name : name + "#" + anchor, page, text_of_html(inside), ""});
    at = end;
  }
  return entries;
}

std::string search_index(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (is_worth_it(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::pair(rank_of(a), a) < std::pair(rank_of(b), b);
  });
  std::string js = "const SEARCH_INDEX = [\n";
  for (const std::string& name : names) {
    for (const SearchEntry& entry : sections_of(read_file(folder / name), name)) {
      if (entry.section.empty() && entry.text.empty() && rank_of(name) == 2) continue;
      std::string text = entry.text;
      if (name.starts_with("source_")) text.clear();  // the name is enough
      js += "[" + json_string(entry.address) + "," + json_string(entry.page) + "," +
            json_string(entry.section) + "," + json_string(text) + "],\n";
    }
  }
  return js + "];\n";
}

}  // namespace rmsnorm::site
