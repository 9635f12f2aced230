#include "docs/site/glossary.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "docs/site/text.hpp"

namespace rmsnorm::site {
namespace {

/// Words that everybody reads without a glossary, most often in their everyday sense.
constexpr std::array kEverydayWords = {"problem", "result", "lesson", "hidden",
                                       "host",    "device", "bound",  "slug",
                                       "roof",    "vector", "spread", "RMSNorm"};

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalnum(byte) != 0 || c == '_' || byte >= 0x80;
}

/// Names such as SM and L2 are written in one way; other words may begin a sentence.
bool has_one_spelling(std::string_view name) {
  return std::any_of(name.begin(), name.end(), [](unsigned char c) { return std::isupper(c); });
}

/// Whether the prose goes on with the name; a space of the name may be a newline there.
bool goes_on_with(std::string_view prose, std::string_view name) {
  if (prose.size() < name.size()) return false;
  const bool exactly = has_one_spelling(name);
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = prose[i] == '\n' ? ' ' : prose[i];
    const int lower = std::tolower(static_cast<unsigned char>(c));
    if (exactly ? c != name[i] : lower != static_cast<unsigned char>(name[i])) return false;
  }
  return true;
}

std::string plain(std::string_view markdown) {
  std::string text;
  for (std::size_t i = 0; i < markdown.size(); ++i) {
    if (markdown[i] == '*' || markdown[i] == '`') continue;
    if (markdown[i] == '[') continue;
    if (markdown[i] == ']') {
      if (i + 1 < markdown.size() && markdown[i + 1] == '(') i = markdown.find(')', i);
      if (i == std::string_view::npos) break;
      continue;
    }
    text += markdown[i];
  }
  return text;
}

std::string first_sentence(const std::string& text) {
  const std::size_t end = text.find(". ");
  return end == std::string::npos ? text : text.substr(0, end + 1);
}

}  // namespace

std::vector<Term> terms_of(std::string_view glossary) {
  std::vector<Term> terms;
  const std::vector<std::string> lines = split_lines(glossary);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].starts_with("- **")) continue;
    std::string item = lines[i].substr(2);
    while (i + 1 < lines.size() && lines[i + 1].starts_with("  "))
      item += " " + trimmed(lines[++i]);
    const std::size_t colon = item.find(": ");
    const std::string definition =
        colon == std::string::npos ? "" : first_sentence(plain(item.substr(colon + 2)));
    const std::string names = item.substr(0, colon);
    for (std::size_t at = names.find("**"); at != std::string::npos;) {
      const std::size_t end = names.find("**", at + 2);
      if (end == std::string::npos) break;
      const std::string name = names.substr(at + 2, end - at - 2);
      terms.push_back({name, section_label("term", name), definition});
      at = names.find("**", end + 2);
    }
  }
  return terms;
}

TermLinker::TermLinker(const std::vector<Term>& terms, std::string page)
    : terms_(terms), page_(std::move(page)), used_(kEverydayWords.begin(), kEverydayWords.end()) {}

const Term* TermLinker::term_at(std::string_view prose, std::size_t at, std::size_t* size) const {
  const Term* longest = nullptr;
  for (const Term& term : terms_) {
    if (!goes_on_with(prose.substr(at), term.name)) continue;
    std::size_t end = at + term.name.size();
    if (end < prose.size() && prose[end] == 's') ++end;  // a plural
    if (end < prose.size() && (is_word(prose[end]) || prose[end] == '-')) continue;
    if (longest != nullptr && longest->name.size() >= term.name.size()) continue;
    longest = &term;
    *size = end - at;
  }
  return longest;
}

std::string TermLinker::link(std::string_view prose) {
  if (page_.empty()) return escape_html(prose);
  std::string html;
  for (std::size_t at = 0; at < prose.size();) {
    const bool begins_word =
        is_word(prose[at]) && (at == 0 || (!is_word(prose[at - 1]) && prose[at - 1] != '-'));
    std::size_t size = 0;
    const Term* term = begins_word ? term_at(prose, at, &size) : nullptr;
    if (term == nullptr || used_.count(term->name) > 0) {
      size = std::max<std::size_t>(size, 1);
      html += escape_html(prose.substr(at, size));
    } else {
      used_.insert(term->name);
      html += "<a class=\"term\" href=\"" + page_ + "#" + term->anchor + "\" title=\"" +
              escape_html(term->definition) + "\">" + escape_html(prose.substr(at, size)) + "</a>";
    }
    at += size;
  }
  return html;
}

}  // namespace rmsnorm::site
