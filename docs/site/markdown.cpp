#include "docs/site/markdown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "docs/site/text.hpp"

namespace rmsnorm::site {
namespace {

using Lines = std::vector<std::string>;

bool is_blank(const std::string& line) {
  return line.find_first_not_of(' ') == std::string::npos;
}

/// Whether text may have links: not in a heading, a link or an image's description.
bool is_prose(cmark_node* text) {
  for (cmark_node* node = text; node != nullptr; node = cmark_node_parent(node)) {
    const cmark_node_type type = cmark_node_get_type(node);
    if (type == CMARK_NODE_HEADING || type == CMARK_NODE_LINK || type == CMARK_NODE_IMAGE)
      return false;
  }
  return true;
}

/// The lines of a message without the breaks that only fit it to a page of Markdown: those before
/// a word that has no room.
Lines unwrapped(const Lines& lines) {
  constexpr std::size_t kWidth = 100;
  Lines joined;
  std::size_t last = 0;  // the size of the line before
  for (const std::string& line : lines) {
    if (last > 0 && !is_blank(line) && last + 1 + std::min(line.find(' '), line.size()) > kWidth) {
      joined.back() += " " + line;
    } else {
      joined.push_back(line);
    }
    last = line.size();
  }
  return joined;
}

/// Makes a page's nodes what they are on the site. Called for those inside first.
class Writer {
 public:
  explicit Writer(const Surroundings& surroundings) : surroundings_(surroundings) {}

  void operator()(cmark_node* node) const {
    switch (cmark_node_get_type(node)) {
      case CMARK_NODE_TEXT:
        if (surroundings_.terms != nullptr && is_prose(node))
          replace(node, surroundings_.terms->link(literal_of(node)));
        break;
      case CMARK_NODE_LINK:
        cmark_node_set_url(node, surroundings_.address(cmark_node_get_url(node)).c_str());
        break;
      case CMARK_NODE_IMAGE:
        replace(node, surroundings_.image(cmark_node_get_url(node), "", plain_text(node)));
        break;
      case CMARK_NODE_PARAGRAPH:
        paragraph(node);
        break;
      case CMARK_NODE_HEADING:
        heading(node);
        break;
      case CMARK_NODE_CODE_BLOCK:
        code(node);
        break;
      case CMARK_NODE_HTML_BLOCK:
        html(node);
        break;
      default:
        if (cmark_node_get_type_string(node) == std::string("table")) table(node);
    }
  }

 private:
  static void paragraph(cmark_node* node) {
    const std::string html = html_of(node);
    if (html.starts_with("<p>|"))
      throw std::runtime_error("a table has no line below its header, or other columns: " + html);
    if (html.starts_with("<p><figure")) replace(node, between(html, "<p>", "</p>"));
  }

  void heading(cmark_node* node) const {
    const int level = cmark_node_get_heading_level(node);
    const std::string title = plain_text(node);
    if (level < 2 || level > 5)
      throw std::runtime_error("a heading has two to five '#', not as in: " + title);
    const std::string label = section_label(surroundings_.label, slug_of(title));
    const std::string html = between(html_of(node), ">", "</h");
    replace(node, site::heading(level, label, html));
  }

  static void code(cmark_node* node) {
    const std::string text = literal_of(node);
    const std::string kind = cmark_node_get_fence_info(node);
    int size = 0, offset = 0;
    char mark = 0;
    const bool is_fenced = cmark_node_get_fenced(node, &size, &offset, &mark) != 0;
    const auto lines = std::ranges::count(text, '\n');
    if (is_fenced && cmark_node_get_end_line(node) - cmark_node_get_start_line(node) != lines + 1)
      throw std::runtime_error("a block of code has no end: " + kind);
    if (kind == "math") {
      replace(
          node,
          "<div class=\"math wide\" tabindex=\"0\">" + escape_html(trimmed(text)) + "</div>\n");
    } else if (kind == "cpp") {
      if (text.find("*/") != std::string::npos)
        throw std::runtime_error("there is no way to show the end of a comment: " + text);
      // For Doxygen itself, amid a page's HTML.
      replace(node, "\\endhtmlonly\n\\code{.cpp}\n" + text + "\\endcode\n\\htmlonly[block]\n");
    } else {
      replace(node, fragment(text, kind));
    }
  }

  void html(cmark_node* node) const {
    const std::string text = literal_of(node);
    const std::string summary = between(text, "<summary>", "</summary>");
    if (text.starts_with("<!--")) {
      replace(node, "");
    } else if (text.starts_with("<picture>")) {
      replace(
          node, surroundings_.image(
                    between(text, " src=\"", "\""), between(text, "srcset=\"", "\""),
                    between(text, "alt=\"", "\"")));
    } else if (!summary.empty()) {
      Surroundings unlinked = surroundings_;
      unlinked.terms = nullptr;  // a click is to unfold
      // On paper there are no hints, and answers come last.
      const std::string kind = slug_of(summary.substr(0, summary.find(' ')));
      replace(
          node, replace_all(
                    replace_all(
                        text, "<summary>" + summary, "<summary>" + inline_html(summary, unlinked)),
                    "<details>", "<details data-kind=\"" + kind + "\">"));
    }
  }

  static void table(cmark_node* node) {
    std::string html = replace_all(html_of(node), "<th>", "<th scope=\"col\">");
    html = replace_all(html, "<th align", "<th scope=\"col\" align");
    html = replace_all(html, " align=\"right\"", " class=\"number\"");
    html = replace_all(
        html, "<table>", "<div class=\"scroll\" tabindex=\"0\"><table class=\"markdownTable\">");
    replace(node, replace_all(html, "</table>", "</table></div>"));
  }

  const Surroundings& surroundings_;
};

/// Whether a line only leads to other pages: the site has better ways to do so.
bool is_navigation(const std::string& line) {
  const bool begins = line.starts_with("[Start](") || line.starts_with("previous: [");
  return begins && line.ends_with(")");
}

}  // namespace

std::string title_of(std::string_view page) {
  const std::string first(page.substr(0, page.find('\n')));
  if (!first.starts_with("# "))
    throw std::runtime_error("a page begins with its title, '# ...', not with: " + first);
  return trimmed(first.substr(2));
}

Document for_site(std::string_view page, const Surroundings& surroundings) {
  title_of(page);
  Lines lines = split_lines(page);
  lines.erase(lines.begin());
  lines.erase(std::remove_if(lines.begin(), lines.end(), is_navigation), lines.end());
  while (!lines.empty() && (is_blank(lines.back()) || lines.back() == "---")) lines.pop_back();
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  Document document = parse(text);
  for_each_node(document.get(), Writer(surroundings));
  return document;
}

std::string to_doxygen(const Document& page) {
  return html_block(html_of(page.get()));
}

std::string inline_html(std::string_view text, const Surroundings& surroundings) {
  const Document document = parse(text);
  for_each_node(document.get(), Writer(surroundings));
  return between(html_of(document.get()), "<p>", "</p>");
}

std::string fragment(const std::string& code, std::string_view kind) {
  // Columns stay in line; a message may be broken to fit the page.
  const bool has_columns = kind == "sh" || code.find("  ") != std::string::npos;
  std::string html = has_columns ? "<div class=\"fragment\">" : "<div class=\"fragment prose\">";
  for (const std::string& line : has_columns ? split_lines(code) : unwrapped(split_lines(code))) {
    std::size_t remark = std::string::npos;
    if (kind == "sh") remark = line.starts_with("# ") ? 0 : line.find("  # ");
    html += "<div class=\"line\">" + escape_html(line.substr(0, remark));
    if (remark != std::string::npos)
      html += "<span class=\"comment\">" + escape_html(line.substr(remark)) + "</span>";
    html += "</div>\n";
  }
  return html + "</div>\n";
}

std::string html_block(const std::string& html) {
  return "\n\\htmlonly[block]\n" + replace_all(html, "*/", "*&#47;") + "\\endhtmlonly\n";
}

std::string heading(int level, const std::string& label, const std::string& title) {
  return fmt::format("<h{0}><a class=\"anchor\" id=\"{1}\"></a>{2}</h{0}>\n", level, label, title);
}

}  // namespace rmsnorm::site
