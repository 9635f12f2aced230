#include "docs/site/markdown.hpp"

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <utility>
#include <vector>

#include "docs/site/text.hpp"

namespace rmsnorm::site {
namespace {

using Lines = std::vector<std::string>;

bool is_blank(const std::string& line) {
  return line.find_first_not_of(' ') == std::string::npos;
}

std::size_t indentation(const std::string& line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// --- within a line

/// Where the character at `open`, one of ( and [, is closed again; npos if nowhere.
std::size_t closing(std::string_view text, std::size_t open) {
  const char begin = text[open];
  const char end = begin == '(' ? ')' : ']';
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '`') {  // brackets in code do not count
      const std::size_t close = text.find('`', i + 1);
      if (close != std::string_view::npos) i = close;
      continue;
    }
    depth += text[i] == begin ? 1 : text[i] == end ? -1 : 0;
    if (depth == 0) return i;
  }
  return std::string_view::npos;
}

/// Where emphasis that `mark` opens at `open` is closed; npos if it is none.
std::size_t emphasis_end(std::string_view text, std::size_t open, std::string_view mark) {
  const std::size_t first = open + mark.size();
  if (first >= text.size() || text[first] == ' ' || text[first] == '\n' || text[first] == '*')
    return std::string_view::npos;
  for (std::size_t i = first + 1; i + mark.size() <= text.size(); ++i) {
    if (text[i] == '`') {
      i = std::min(text.find('`', i + 1), text.size());
      continue;
    }
    if (!text.substr(i).starts_with(mark) || text[i - 1] == ' ') continue;
    const std::size_t after = i + mark.size();
    if (mark == "*" && after < text.size() && text[after] == '*') {
      ++i;  // the marks of a bold piece inside
      continue;
    }
    return i;
  }
  return std::string_view::npos;
}

class Inline {
 public:
  Inline(std::string_view text, const Surroundings& surroundings)
      : text_(text), surroundings_(surroundings) {}

  std::string html() {
    while (at_ < text_.size()) {
      if (!code() && !formula() && !escaped() && !image() && !link() && !tag() && !emphasis())
        prose_ += text_[at_++];
    }
    flush();
    return html_;
  }

 private:
  void flush() {
    html_ +=
        surroundings_.terms == nullptr ? escape_html(prose_) : surroundings_.terms->link(prose_);
    prose_.clear();
  }

  void add(const std::string& html, std::size_t next) {
    flush();
    html_ += html;
    at_ = next;
  }

  bool code() {
    if (text_[at_] != '`') return false;
    const std::size_t size = std::min(text_.find_first_not_of('`', at_), text_.size()) - at_;
    const std::string mark(size, '`');
    const std::size_t end = text_.find(mark, at_ + size);
    if (end == std::string_view::npos) return false;
    std::string code(text_.substr(at_ + size, end - at_ - size));
    std::replace(code.begin(), code.end(), '\n', ' ');
    add("<code>" + escape_html(code) + "</code>", end + size);
    return true;
  }

  /// $`x`$, or $x$ with no space inside at its ends and no digit behind.
  bool formula() {
    if (text_[at_] != '$' || at_ + 1 >= text_.size()) return false;
    const bool quoted = text_[at_ + 1] == '`';
    const std::size_t begin = at_ + (quoted ? 2 : 1);
    const std::size_t end = text_.find(quoted ? "`$" : "$", begin);
    if (end == std::string_view::npos || end == begin) return false;
    const std::size_t next = end + (quoted ? 2 : 1);
    if (!quoted) {
      const bool spaced = text_[begin] == ' ' || text_[end - 1] == ' ';
      const bool price = next < text_.size() && std::isdigit(text_[next]) != 0;
      if (spaced || price) return false;
    }
    add("<span class=\"math\">" + escape_html(text_.substr(begin, end - begin)) + "</span>", next);
    return true;
  }

  bool escaped() {
    if (text_[at_] != '\\' || at_ + 1 >= text_.size()) return false;
    if (std::ispunct(static_cast<unsigned char>(text_[at_ + 1])) == 0) return false;
    prose_ += text_[at_ + 1];
    at_ += 2;
    return true;
  }

  /// The text and the target of "[text](target)" at a position; `next` is what follows.
  bool read_link(std::size_t open, std::string* text, std::string* target, std::size_t* next) {
    if (open >= text_.size() || text_[open] != '[') return false;
    const std::size_t close = closing(text_, open);
    if (close == std::string_view::npos || close + 1 >= text_.size() || text_[close + 1] != '(')
      return false;
    const std::size_t end = closing(text_, close + 1);
    if (end == std::string_view::npos) return false;
    *text = std::string(text_.substr(open + 1, close - open - 1));
    *target = trimmed(text_.substr(close + 2, end - close - 2));
    *next = end + 1;
    return true;
  }

  bool image() {
    std::string alt, file;
    std::size_t next = 0;
    if (text_[at_] != '!' || !read_link(at_ + 1, &alt, &file, &next)) return false;
    add(surroundings_.image(file, "", alt), next);
    return true;
  }

  bool link() {
    std::string text, target;
    std::size_t next = 0;
    if (!read_link(at_, &text, &target, &next)) return false;
    Surroundings without_terms = surroundings_;
    without_terms.terms = nullptr;
    const std::string address = surroundings_.address(target);
    add("<a href=\"" + escape_html(address) + "\">" + Inline(text, without_terms).html() + "</a>",
        next);
    return true;
  }

  bool tag() {
    if (text_[at_] != '<' || at_ + 1 >= text_.size()) return false;
    const char first = text_[at_ + 1];
    if (std::isalpha(static_cast<unsigned char>(first)) == 0 && first != '/') return false;
    const std::size_t end = text_.find('>', at_);
    if (end == std::string_view::npos) return false;
    const std::string inside(text_.substr(at_ + 1, end - at_ - 1));
    if (inside.starts_with("https://")) {
      add("<a href=\"" + escape_html(inside) + "\">" + escape_html(inside) + "</a>", end + 1);
    } else {
      add("<" + inside + ">", end + 1);
    }
    return true;
  }

  bool emphasis() {
    if (text_[at_] != '*') return false;
    const std::string mark = text_.substr(at_).starts_with("**") ? "**" : "*";
    const std::size_t end = emphasis_end(text_, at_, mark);
    if (end == std::string_view::npos) return false;
    const std::string inside(text_.substr(at_ + mark.size(), end - at_ - mark.size()));
    const std::string name = mark == "**" ? "strong" : "em";
    flush();
    html_ += "<" + name + ">" + Inline(inside, surroundings_).html() + "</" + name + ">";
    at_ = end + mark.size();
    return true;
  }

  std::string_view text_;
  const Surroundings& surroundings_;
  std::size_t at_ = 0;
  std::string prose_;
  std::string html_;
};

// --- blocks

/// The size of what begins a list's item, "- " or "12. ", or 0; `number` is 0 for "- ".
std::size_t bullet(const std::string& line, int* number = nullptr) {
  const std::size_t begin = indentation(line);
  std::size_t end = begin;
  while (end < line.size() && std::isdigit(static_cast<unsigned char>(line[end])) != 0) ++end;
  if (number != nullptr) *number = end > begin ? std::stoi(line.substr(begin, end - begin)) : 0;
  const bool numbered = end > begin && line.compare(end, 2, ". ") == 0;
  if (numbered) return end + 2;
  if (line.compare(begin, 2, "- ") == 0 || line.compare(begin, 2, "* ") == 0) return begin + 2;
  return 0;
}

/// The cells of a table's line.
Lines cells_of(const std::string& line) {
  Lines cells(1);
  bool in_code = false;
  const std::string inside = trimmed(line).substr(1);
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] == '`') in_code = !in_code;
    if (inside.compare(i, 2, "\\|") == 0) {
      cells.back() += inside[++i];
    } else if (inside[i] == '|' && !in_code) {
      cells.emplace_back();
    } else {
      cells.back() += inside[i];
    }
  }
  cells.pop_back();  // behind the last bar
  for (std::string& cell : cells) cell = trimmed(cell);
  return cells;
}

class Blocks {
 public:
  explicit Blocks(const Surroundings& surroundings) : surroundings_(surroundings) {}

  std::string finish() {
    flush();
    return std::exchange(text_, "");
  }

  void read(const Lines& lines, bool tight = false) {
    for (std::size_t i = 0; i < lines.size();) {
      if (is_blank(lines[i])) {
        ++i;
      } else if (lines[i].starts_with("```")) {
        fence(lines, &i);
      } else if (lines[i].starts_with("#")) {
        heading(lines[i++]);
      } else if (lines[i].starts_with("<!--")) {
        while (lines[i].find("-->") == std::string::npos && i + 1 < lines.size()) ++i;
        ++i;
      } else if (lines[i] == "---") {
        html_ += "<hr>\n";
        ++i;
      } else if (lines[i].starts_with("<picture>")) {
        picture(lines, &i);
      } else if (lines[i].starts_with("<details") || lines[i].starts_with("</details")) {
        details(lines[i++]);
      } else if (lines[i].starts_with("|")) {
        table(lines, &i);
      } else if (lines[i].starts_with(">")) {
        quote(lines, &i);
      } else if (bullet(lines[i]) > 0 && indentation(lines[i]) < 4) {
        list(lines, &i);
      } else if (indentation(lines[i]) >= 4) {
        indented_code(lines, &i);
      } else {
        paragraph(lines, &i, tight);
      }
    }
  }

 private:
  void flush() {
    if (!html_.empty()) text_ += html_block(std::exchange(html_, ""));
  }

  std::string to_html(const std::string& text) { return Inline(text, surroundings_).html(); }

  void fence(const Lines& lines, std::size_t* i) {
    const std::string mark = lines[*i].substr(0, lines[*i].find_first_not_of('`'));
    const std::string kind = trimmed(lines[*i].substr(mark.size()));
    std::string code;
    for (++*i; *i < lines.size() && !lines[*i].starts_with(mark); ++*i) code += lines[*i] + "\n";
    if (*i == lines.size()) throw std::runtime_error("a block of code has no end: " + mark + kind);
    ++*i;
    if (kind == "math") {
      html_ += "<div class=\"math wide\" tabindex=\"0\">" + escape_html(trimmed(code)) + "</div>\n";
      return;
    }
    flush();
    text_ += code_block(code, kind);
  }

  void indented_code(const Lines& lines, std::size_t* i) {
    std::string code;
    for (; *i < lines.size() && (indentation(lines[*i]) >= 4 || is_blank(lines[*i])); ++*i)
      code += (lines[*i].size() > 4 ? lines[*i].substr(4) : "") + "\n";
    flush();
    text_ += code_block(trimmed(code) + "\n", "text");
  }

  void heading(const std::string& line) {
    static const char* const kCommands[] = {"section", "subsection", "subsubsection", "paragraph"};
    const std::size_t level = line.find_first_not_of('#');
    if (level < 2 || level > 5)
      throw std::runtime_error("a heading has two to five '#', not as in: " + line);
    const std::string title = trimmed(line.substr(level));
    Surroundings without_terms = surroundings_;
    without_terms.terms = nullptr;
    flush();
    text_ += "\n\\" + std::string(kCommands[level - 2]) + " " +
             section_label(surroundings_.label, slug_of(title)) + " " +
             replace_all(Inline(title, without_terms).html(), "@", "\\@") + "\n\n";
  }

  void picture(const Lines& lines, std::size_t* i) {
    std::string all;
    while (*i < lines.size() && !lines[*i].starts_with("</picture>")) all += lines[(*i)++] + "\n";
    ++*i;
    html_ += surroundings_.image(
        between(all, "<img", ">").empty() ? "" : between(all, " src=\"", "\""),
        between(all, "srcset=\"", "\""), between(all, "alt=\"", "\""));
  }

  void details(const std::string& line) {
    const std::string summary = between(line, "<summary>", "</summary>");
    html_ += summary.empty()
                 ? line + "\n"
                 : "<details>\n<summary>" + Inline(summary, surroundings_).html() + "</summary>\n";
  }

  void table(const Lines& lines, std::size_t* i) {
    const Lines header = cells_of(lines[*i]);
    if (*i + 1 >= lines.size() || !lines[*i + 1].starts_with("|"))
      throw std::runtime_error("a table has no line below its header: " + lines[*i]);
    Lines alignments;
    for (const std::string& rule : cells_of(lines[*i + 1]))
      alignments.push_back(rule.ends_with(":") ? " class=\"number\"" : "");
    if (alignments.size() != header.size())
      throw std::runtime_error("the line below a table's header has other columns: " + lines[*i]);
    html_ += "<div class=\"scroll\" tabindex=\"0\"><table class=\"markdownTable\">\n<thead><tr>";
    for (std::size_t c = 0; c < header.size(); ++c)
      html_ += "<th scope=\"col\"" + alignments[c] + ">" + to_html(header[c]) + "</th>";
    html_ += "</tr></thead>\n<tbody>\n";
    for (*i += 2; *i < lines.size() && lines[*i].starts_with("|"); ++*i) {
      html_ += "<tr>";
      const Lines cells = cells_of(lines[*i]);
      for (std::size_t c = 0; c < cells.size() && c < header.size(); ++c)
        html_ += "<td" + alignments[c] + ">" + to_html(cells[c]) + "</td>";
      html_ += "</tr>\n";
    }
    html_ += "</tbody></table></div>\n";
  }

  void quote(const Lines& lines, std::size_t* i) {
    Lines inside;
    for (; *i < lines.size() && lines[*i].starts_with(">"); ++*i)
      inside.push_back(lines[*i].size() > 1 ? lines[*i].substr(2) : "");
    const std::string kind = inside.empty() ? "" : between(inside[0], "[!", "]");
    if (kind.empty()) {
      html_ += "<blockquote>\n";
      read(inside);
      html_ += "</blockquote>\n";
      return;
    }
    inside.erase(inside.begin());
    std::string name = kind;
    for (std::size_t c = 1; c < name.size(); ++c)
      name[c] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[c])));
    const bool warns = kind == "WARNING" || kind == "CAUTION";
    html_ += "<dl class=\"section " + std::string(warns ? "warning" : "note") + "\"><dt>" + name +
             "</dt><dd>\n";
    read(inside);
    html_ += "</dd></dl>\n";
  }

  void list(const Lines& lines, std::size_t* i) {
    int number = 0;
    const std::size_t outside = indentation(lines[*i]);
    bullet(lines[*i], &number);
    const bool numbered = number > 0;
    html_ += !numbered     ? "<ul>\n"
             : number == 1 ? "<ol>\n"
                           : "<ol start=\"" + std::to_string(number) + "\">\n";
    while (*i < lines.size() && bullet(lines[*i]) > 0 && indentation(lines[*i]) == outside) {
      int this_number = 0;
      const std::size_t size = bullet(lines[*i], &this_number);
      if ((this_number > 0) != numbered) break;
      Lines item = {lines[(*i)++].substr(size)};
      bool loose = false;
      for (; *i < lines.size(); ++*i) {
        const std::string& line = lines[*i];
        if (is_blank(line)) {
          // A blank line belongs to the item if what follows is indented as the item's text is.
          std::size_t next = *i + 1;
          while (next < lines.size() && is_blank(lines[next])) ++next;
          if (next == lines.size() || indentation(lines[next]) < size) break;
          loose = true;
          item.emplace_back();
        } else if (indentation(line) >= size) {
          item.push_back(line.substr(size));
        } else if (bullet(line) > 0 || line.starts_with("```") || line.starts_with("<")) {
          break;
        } else {
          item.push_back(trimmed(line));
        }
      }
      html_ += "<li>";
      read(item, !loose);
      html_ += "</li>\n";
      std::size_t next = *i;
      while (next < lines.size() && is_blank(lines[next])) ++next;
      if (next < lines.size() && bullet(lines[next]) > 0 && indentation(lines[next]) == outside)
        *i = next;
    }
    html_ += numbered ? "</ol>\n" : "</ul>\n";
  }

  void paragraph(const Lines& lines, std::size_t* i, bool tight) {
    std::string text;
    for (; *i < lines.size() && !is_blank(lines[*i]); ++*i) {
      const std::string& line = lines[*i];
      const bool other = line.starts_with("```") || line.starts_with("|") ||
                         line.starts_with("#") || line.starts_with("<details") ||
                         line.starts_with("</details") || line.starts_with("<!--") ||
                         (bullet(line) > 0 && !text.empty() && tight);
      if (other) break;
      text += (text.empty() ? "" : "\n") + trimmed(line);
    }
    const std::string html = to_html(text);
    const bool is_figure = html.starts_with("<figure");
    html_ += tight || is_figure ? html + "\n" : "<p>" + html + "</p>\n";
  }

  const Surroundings& surroundings_;
  std::string html_;  // not yet in text_
  std::string text_;
};

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

std::string to_doxygen(std::string_view page, const Surroundings& surroundings) {
  title_of(page);
  Lines lines = split_lines(page);
  lines.erase(lines.begin());
  lines.erase(std::remove_if(lines.begin(), lines.end(), is_navigation), lines.end());
  while (!lines.empty() && (is_blank(lines.back()) || lines.back() == "---")) lines.pop_back();
  Blocks blocks(surroundings);
  blocks.read(lines);
  return blocks.finish();
}

std::string inline_html(std::string_view text, const Surroundings& surroundings) {
  return Inline(text, surroundings).html();
}

std::string html_block(const std::string& html) {
  return "\n\\htmlonly[block]\n" + replace_all(html, "*/", "*&#47;") + "\\endhtmlonly\n";
}

std::string code_block(const std::string& code, std::string_view kind) {
  if (kind == "cpp") return "\n\\code{.cpp}\n" + code + "\\endcode\n";
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
  return html_block(html + "</div>\n");
}

}  // namespace rmsnorm::site
