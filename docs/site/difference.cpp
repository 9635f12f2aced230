#include "docs/site/difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <utility>

#include "docs/site/text.hpp"

namespace rmsnorm::site {
namespace {

using Kind = DifferenceLine::Kind;

constexpr std::size_t kContext = 4;    // unchanged lines that stay around a change
constexpr std::size_t kLeastFold = 6;  // fewer lines are not worth a fold

// --- colours

constexpr std::string_view kKeywords =
    " alignas auto bool break case char class const constexpr continue default do double else enum "
    "explicit extern false float for if inline int long namespace nullptr operator return short "
    "signed sizeof static static_assert static_cast struct switch template this true typename "
    "unsigned using void while __device__ __global__ __restrict__ __shared__ __launch_bounds__ ";

/// Characters of a line.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// What of a line is not in the other: from the first word that differs to the last. Nothing if
/// hardly anything is the same.
Range changed_words(const std::string& line, const std::string& other) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  const std::size_t shorter = std::min(line.size(), other.size());
  std::size_t same = 0;
  while (same < shorter && line[same] == other[same]) ++same;
  std::size_t same_end = 0;
  while (same_end < shorter - same &&
         line[line.size() - 1 - same_end] == other[other.size() - 1 - same_end])
    ++same_end;
  Range range = {same, line.size() - same_end};
  // A boundary within a word, of either line, is moved to the word's end.
  const auto is_within = [&](const std::string& text, std::size_t at) {
    return at > 0 && at < text.size() && is_word(text[at - 1]) && is_word(text[at]);
  };
  const std::size_t other_end = other.size() - same_end;
  if (is_within(line, range.begin) || is_within(other, same)) {
    while (range.begin > 0 && is_word(line[range.begin - 1])) --range.begin;
  }
  if (is_within(line, range.end) || is_within(other, other_end)) {
    while (range.end < line.size() && is_word(line[range.end])) ++range.end;
  }
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t rest = line.size() - (range.end - range.begin);
  return rest < indent + (line.size() - indent) / 3 ? Range{} : range;
}

std::string span(const std::string& name, std::string_view text) {
  if (name.empty() || text.empty()) return escape_html(text);
  return "<span class=\"" + name + "\">" + escape_html(text) + "</span>";
}

/// A part of a line, which begins at `at` in it, with a mark where it is in the range.
std::string marked(const std::string& name, std::string_view text, std::size_t at, Range range) {
  const std::size_t begin = std::clamp(range.begin, at, at + text.size()) - at;
  const std::size_t end = std::clamp(range.end, at, at + text.size()) - at;
  if (begin >= end) return span(name, text);
  return span(name, text.substr(0, begin)) + "<mark>" +
         span(name, text.substr(begin, end - begin)) + "</mark>" + span(name, text.substr(end));
}

/// A line of C++ with Doxygen's classes for colours, and the range marked.
std::string coloured(const std::string& line, Range range) {
  if (line.starts_with("#")) return marked("preprocessor", line, 0, range);
  // Comments, strings and characters, numbers and words. Block comments are not used here.
  static const std::regex kToken(R"(//.*|"(?:\\.|[^"\\])*"|\w[\w']*|'(?:\\.|[^'\\])*')");
  std::string html;
  std::size_t end = 0;
  for (std::sregex_iterator token(line.begin(), line.end(), kToken), none; token != none; ++token) {
    const std::string text = token->str();
    const auto begin = static_cast<std::size_t>(token->position());
    const bool is_keyword = kKeywords.find(" " + text + " ") != std::string_view::npos;
    html += marked("", std::string_view(line).substr(end, begin - end), end, range);
    html += marked(
        text.starts_with("//")              ? "comment"
        : text[0] == '"' || text[0] == '\'' ? "stringliteral"
        : is_keyword                        ? "keyword"
                                            : "",
        text, begin, range);
    end = begin + text.size();
  }
  return html + marked("", std::string_view(line).substr(end), end, range);
}

/// What is to be marked in each line: where as many lines were added as removed, what differs.
std::vector<Range> marks_of(const std::vector<DifferenceLine>& lines) {
  std::vector<Range> marks(lines.size());
  const auto end_of = [&](Kind kind, std::size_t i) {
    while (i < lines.size() && lines[i].kind == kind) ++i;
    return i;
  };
  for (std::size_t i = 0, end = 0; i < lines.size(); i = std::max(end, i + 1)) {
    const std::size_t middle = end_of(Kind::removed, i);
    end = end_of(Kind::added, middle);
    const std::size_t count = middle - i;
    if (end - middle != count) continue;
    for (std::size_t k = i; k < middle; ++k) {
      marks[k] = changed_words(lines[k].text, lines[k + count].text);
      marks[k + count] = changed_words(lines[k + count].text, lines[k].text);
    }
  }
  return marks;
}

// --- the tables

const std::string kTableHead =
    "<table><thead class=\"unseen\"><tr><th scope=\"col\">before</th><th scope=\"col\">after</th>"
    "<th scope=\"col\">sign</th><th scope=\"col\">line</th></tr></thead>\n<tbody>\n";

std::string row(const DifferenceLine& line, Range mark) {
  static const std::map<Kind, std::pair<const char*, const char*>> kNamesAndSigns = {
      {Kind::both, {"both", ""}}, {Kind::added, {"added", "+"}}, {Kind::removed, {"removed", "-"}}};
  const auto& [name, sign] = kNamesAndSigns.at(line.kind);
  const auto number = [](std::size_t n) { return n > 0 ? std::to_string(n) : std::string(); };
  return fmt::format(
      "<tr class=\"{}\"><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"sign\">{}</td>"
      "<td class=\"line\">{}</td></tr>\n",
      name, number(line.old_number), number(line.new_number), sign, coloured(line.text, mark));
}

}  // namespace

std::vector<DifferenceLine> difference_of(
    const std::vector<std::string>& before, const std::vector<std::string>& after) {
  // common[i][j]: the most lines that before[i..] and after[j..] can have in common.
  const std::size_t rows = before.size();
  const std::size_t columns = after.size();
  std::vector<std::vector<std::size_t>> common(rows + 1, std::vector<std::size_t>(columns + 1));
  for (std::size_t i = rows; i-- > 0;) {
    for (std::size_t j = columns; j-- > 0;) {
      common[i][j] = before[i] == after[j] ? common[i + 1][j + 1] + 1
                                           : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::vector<DifferenceLine> lines;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < rows || j < columns) {
    if (i < rows && j < columns && before[i] == after[j]) {
      lines.push_back({Kind::both, i + 1, j + 1, before[i]});
      ++i;
      ++j;
    } else if (i < rows && (j == columns || common[i + 1][j] >= common[i][j + 1])) {
      lines.push_back({Kind::removed, i + 1, 0, before[i]});
      ++i;
    } else {
      lines.push_back({Kind::added, 0, j + 1, after[j]});
      ++j;
    }
  }
  return lines;
}

std::size_t count_of(const std::vector<DifferenceLine>& lines, DifferenceLine::Kind kind) {
  return static_cast<std::size_t>(std::count_if(
      lines.begin(), lines.end(), [&](const DifferenceLine& line) { return line.kind == kind; }));
}

std::string difference_html(const std::vector<DifferenceLine>& lines) {
  std::vector<bool> is_near(lines.size());  // to a change
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].kind == Kind::both) continue;
    const std::size_t end = std::min(i + kContext + 1, lines.size());
    for (std::size_t near = std::max(i, kContext) - kContext; near < end; ++near)
      is_near[near] = true;
  }
  const std::vector<Range> marks = marks_of(lines);
  std::string html = "<div class=\"scroll diff\" tabindex=\"0\"><div>\n";
  for (std::size_t begin = 0, end = 0; begin < lines.size(); begin = end) {
    const bool folds = !is_near[begin];
    std::string rows;
    for (; end < lines.size() && is_near[end] != folds; ++end) rows += row(lines[end], marks[end]);
    const std::string table = kTableHead + rows + "</tbody></table>\n";
    html += folds && end - begin >= kLeastFold
                ? fmt::format(
                      "<details><summary>{} unchanged lines</summary>\n{}</details>\n", end - begin,
                      table)
                : table;
  }
  return html + "</div></div>\n";
}

}  // namespace rmsnorm::site
