#include "docs/site/difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <utility>

#include "docs/site/text.hpp"

namespace rmsnorm::site {
namespace {

using Kind = DifferenceLine::Kind;

constexpr std::size_t kContext = 4;    // unchanged lines that stay around a change
constexpr std::size_t kLeastFold = 6;  // fewer lines are not worth a fold

constexpr std::string_view kKeywords =
    " alignas auto bool break case char class const constexpr continue default do double else enum "
    "explicit extern false float for if inline int long namespace nullptr operator return short "
    "signed sizeof static static_assert static_cast struct switch template this true typename "
    "unsigned using void while __device__ __global__ __restrict__ __shared__ __launch_bounds__ ";

std::string span(const std::string& name, std::string_view text) {
  if (name.empty() || text.empty()) return escape_html(text);
  return "<span class=\"" + name + "\">" + escape_html(text) + "</span>";
}

/// A line of C++ with Doxygen's classes for colours.
std::string coloured(const std::string& line) {
  if (line.starts_with("#")) return span("preprocessor", line);
  // Comments, strings and characters, numbers and words. Block comments are not used here.
  static const std::regex kToken(R"(//.*|"(?:\\.|[^"\\])*"|\w[\w']*|'(?:\\.|[^'\\])*')");
  std::string html;
  std::size_t end = 0;
  for (std::sregex_iterator token(line.begin(), line.end(), kToken), none; token != none; ++token) {
    const std::string text = token->str();
    const auto begin = static_cast<std::size_t>(token->position());
    const bool is_keyword = kKeywords.find(" " + text + " ") != std::string_view::npos;
    html += escape_html(std::string_view(line).substr(end, begin - end));
    html += span(
        text.starts_with("//")              ? "comment"
        : text[0] == '"' || text[0] == '\'' ? "stringliteral"
        : is_keyword                        ? "keyword"
                                            : "",
        text);
    end = begin + text.size();
  }
  return html + escape_html(std::string_view(line).substr(end));
}

const std::string kTableHead =
    "<table><thead class=\"unseen\"><tr><th scope=\"col\">before</th><th scope=\"col\">after</th>"
    "<th scope=\"col\">sign</th><th scope=\"col\">line</th></tr></thead>\n<tbody>\n";

std::string row(const DifferenceLine& line) {
  static const std::map<Kind, std::pair<const char*, const char*>> kNamesAndSigns = {
      {Kind::both, {"both", ""}}, {Kind::added, {"added", "+"}}, {Kind::removed, {"removed", "-"}}};
  const auto& [name, sign] = kNamesAndSigns.at(line.kind);
  const auto number = [](std::size_t n) { return n > 0 ? std::to_string(n) : std::string(); };
  return fmt::format(
      "<tr class=\"{}\"><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"sign\">{}</td>"
      "<td class=\"line\">{}</td></tr>\n",
      name, number(line.old_number), number(line.new_number), sign, coloured(line.text));
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
  return static_cast<std::size_t>(
      std::ranges::count_if(lines, [&](const DifferenceLine& line) { return line.kind == kind; }));
}

std::string difference_html(const std::vector<DifferenceLine>& lines) {
  std::vector<bool> is_near(lines.size());  // to a change
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].kind == Kind::both) continue;
    const std::size_t end = std::min(i + kContext + 1, lines.size());
    for (std::size_t near = std::max(i, kContext) - kContext; near < end; ++near)
      is_near[near] = true;
  }
  std::string html = "<div class=\"scroll diff\" tabindex=\"0\"><div>\n";
  for (std::size_t begin = 0, end = 0; begin < lines.size(); begin = end) {
    const bool folds = !is_near[begin];
    std::string rows;
    for (; end < lines.size() && is_near[end] != folds; ++end) rows += row(lines[end]);
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
