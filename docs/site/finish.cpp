#include "docs/site/finish.hpp"

#include <utility>

#include "common/base/files.hpp"
#include "docs/site/drawing.hpp"
#include "docs/site/search_index.hpp"
#include "docs/site/text.hpp"

namespace rmsnorm::site {
namespace {

namespace fs = std::filesystem;

std::string with_title_as_heading(std::string html) {
  static constexpr std::string_view kTitle = "<div class=\"title\">";
  const std::size_t title = html.find(kTitle);
  if (title == std::string::npos) return html;
  const std::size_t end = html.find("</div>", title);
  if (end == std::string::npos) return html;
  html.replace(end, 6, "</h1>");
  html.replace(title, kTitle.size(), "<h1 class=\"title\">");
  return html;
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

}  // namespace

std::string finished_page(std::string html) {
  if (html.find("<h1") != std::string::npos) html = with_lower_headings(std::move(html));
  // No part of the text; its script looks for an h3.
  for (const std::string level : {"3", "4"}) {
    html = replace_all(
        html, "<h" + level + ">Table of Contents</h" + level + ">",
        "<h3 role=\"presentation\">On this page</h3>");
  }
  html = with_title_once(with_title_as_heading(std::move(html)));
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

void finish(const fs::path& root, const fs::path& html, const fs::path& katex) {
  // An empty list: all pages hang below the first.
  fs::remove(html / "pages.html");
  const std::string entry = "{text:\"Pages\",url:\"pages.html\"},";
  write_file(html / "menudata.js", replace_all(read_file(html / "menudata.js"), entry, ""));
  for (const auto& entry : fs::directory_iterator(html)) {
    if (entry.path().extension() != ".html") continue;
    write_file(entry.path(), finished_page(read_file(entry.path())));
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
