#include "docs/site/difference.hpp"

#include <algorithm>
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

std::string span(const std::string& name, std::string_view text) {
  return name.empty() ? escape_html(text)
                      : "<span class=\"" + name + "\">" + escape_html(text) + "</span>";
}

/// A line of C++ with Doxygen's classes for colours.
std::string coloured(const std::string& line) {
  if (line.starts_with("#")) return span("preprocessor", line);
  // Comments, strings and characters, numbers and words. Block comments are not used here.
  static const std::regex kToken(R"(//.*|"(?:\\.|[^"\\])*"|\w[\w']*|'(?:\\.|[^'\\])*')");
  std::string html;
  auto end = line.cbegin();
  for (std::sregex_iterator token(line.begin(), line.end(), kToken), none; token != none; ++token) {
    const std::string text = token->str();
    const bool is_keyword = kKeywords.find(" " + text + " ") != std::string_view::npos;
    html += span("", {end, (*token)[0].first});
    html += span(
        text.starts_with("//")              ? "comment"
        : text[0] == '"' || text[0] == '\'' ? "stringliteral"
        : is_keyword                        ? "keyword"
                                            : "",
        text);
    end = (*token)[0].second;
  }
  return html + span("", {end, line.cend()});
}

// --- the table

std::string row(const DifferenceLine& line) {
  const char* const name = line.kind == Kind::added     ? "added"
                           : line.kind == Kind::removed ? "removed"
                                                        : "both";
  const char* const sign = line.kind == Kind::added ? "+" : line.kind == Kind::removed ? "-" : "";
  const auto number = [](std::size_t n) { return n > 0 ? std::to_string(n) : std::string(); };
  return "<tr class=\"" + std::string(name) + "\"><td class=\"n\">" + number(line.old_number) +
         "</td><td class=\"n\">" + number(line.new_number) + "</td><td class=\"sign\">" + sign +
         "</td><td class=\"line\">" + coloured(line.text) + "</td></tr>\n";
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
  std::string html =
      "<div class=\"scroll diff\" tabindex=\"0\"><table>\n<thead class=\"unseen\"><tr>"
      "<th scope=\"col\">before</th><th scope=\"col\">after</th><th scope=\"col\">sign</th>"
      "<th scope=\"col\">line</th></tr></thead>\n";
  for (std::size_t i = 0; i < lines.size();) {
    std::size_t end = i;
    while (end < lines.size() && lines[end].kind == Kind::both) ++end;
    const std::size_t head = i == 0 ? 0 : kContext;
    const std::size_t tail = end == lines.size() ? 0 : kContext;
    const bool folds = end - i >= head + tail + kLeastFold;
    if (end > i) {
      html += "<tbody>\n";
      const std::size_t first_folded = folds ? i + head : end;
      const std::size_t last_folded = folds ? end - tail : end;
      for (; i < first_folded; ++i) html += row(lines[i]);
      if (folds) {
        html += "</tbody>\n<tbody class=\"fold\"><tr><td colspan=\"4\"><button type=\"button\">" +
                std::to_string(last_folded - first_folded) +
                " unchanged lines</button></td></tr></tbody>\n<tbody class=\"folded\">\n";
        for (; i < last_folded; ++i) html += row(lines[i]);
        html += "</tbody>\n<tbody>\n";
      }
      for (; i < end; ++i) html += row(lines[i]);
      html += "</tbody>\n";
    }
    if (i < lines.size()) {
      html += "<tbody class=\"change\">\n";
      while (i < lines.size() && lines[i].kind != Kind::both) html += row(lines[i++]);
      html += "</tbody>\n";
    }
  }
  return html + "</table></div>\n";
}

}  // namespace rmsnorm::site
