#include "docs/site/glossary.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <utility>

#include "docs/site/markdown.hpp"
#include "docs/site/text.hpp"

namespace rmsnorm::site {
namespace {

/// Words that everybody reads without a glossary, mostly in an everyday sense or another one: a
/// line of a program, a head of attention.
constexpr std::array kEverydayWords = {
    "problem",   "result",         "lesson",  "hidden", "host",  "device", "bound",
    "slug",      "roof",           "vector",  "spread", "line",  "head",   "tail",
    "operation", "implementation", "RMSNorm", "loss",   "place", "scale",  "group"};

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalnum(byte) != 0 || c == '_' || byte >= 0x80;
}

/// Names such as SM and L2 are written in one way; other words may begin a sentence.
bool has_one_spelling(std::string_view name) {
  return std::ranges::any_of(name, [](unsigned char c) { return std::isupper(c); });
}

bool begins_sentence(std::string_view prose, std::size_t at) {
  const std::size_t before = prose.substr(0, at).find_last_not_of(" \n");
  return before == prose.npos || std::string_view(".:?!(").find(prose[before]) != prose.npos;
}

/// Whether the prose goes on with the name at that place; a space of the name may be a newline
/// there. Within a sentence, a capital makes another name of a word: Windows.
bool goes_on_with(std::string_view prose, std::size_t at, std::string_view name) {
  const bool exactly = has_one_spelling(name) || !begins_sentence(prose, at);
  prose.remove_prefix(at);
  if (prose.size() < name.size()) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = prose[i] == '\n' ? ' ' : prose[i];
    const int lower = std::tolower(static_cast<unsigned char>(c));
    if (exactly ? c != name[i] : lower != static_cast<unsigned char>(name[i])) return false;
  }
  return true;
}

/// The terms of a list's item, each with its first sentence; none if it does not begin with one.
std::vector<Term> terms_of_item(cmark_node* item) {
  std::vector<Term> terms;
  cmark_node* node = cmark_node_first_child(cmark_node_first_child(item));
  if (cmark_node_get_type(node) != CMARK_NODE_STRONG) return terms;
  const std::string text = replace_all(plain_text(item), "\n", " ");
  const std::size_t colon = text.find(": ");
  if (colon == std::string::npos) throw std::runtime_error("a term without a ':': " + text);
  const std::size_t end = text.find(". ", colon);
  for (; node != nullptr && literal_of(node).find(": ") == std::string::npos;
       node = cmark_node_next(node)) {
    if (cmark_node_get_type(node) == CMARK_NODE_STRONG) {
      const std::string name = plain_text(node);
      terms.push_back({name, section_label("term", name), text.substr(colon + 2, end - colon - 1)});
    }
  }
  return terms;
}

}  // namespace

std::vector<Term> terms_of(std::string_view glossary) {
  std::vector<Term> terms;
  for_each_node(parse(glossary).get(), [&](cmark_node* node) {
    if (cmark_node_get_type(node) != CMARK_NODE_ITEM) return;
    for (const Term& term : terms_of_item(node)) terms.push_back(term);
  });
  return terms;
}

void make_headings_of_terms(const Document& glossary) {
  for_each_node(glossary.get(), [](cmark_node* list) {
    if (cmark_node_get_type(list) != CMARK_NODE_LIST) return;
    std::string html;
    for (cmark_node* item = cmark_node_first_child(list); item; item = cmark_node_next(item)) {
      std::string names, anchors;  // the first name's anchor is the heading's own
      const std::vector<Term> terms = terms_of_item(item);
      for (const Term& term : terms) {
        if (!names.empty()) anchors += "<a id=\"" + term.anchor + "\"></a>";
        names += (names.empty() ? "" : ", ") + term.name;
      }
      if (terms.empty()) return;
      const std::string text = html_of(cmark_node_first_child(item));
      html += heading(3, terms.front().anchor, names) + "<p class=\"meaning\">" + anchors +
              trimmed(text.substr(text.find(": ") + 2)) + "</p>\n";
    }
    replace(list, html);
  });
}

TermLinker::TermLinker(const std::vector<Term>& terms, std::string page)
    : terms_(terms), page_(std::move(page)), used_(kEverydayWords.begin(), kEverydayWords.end()) {}

const Term* TermLinker::term_at(std::string_view prose, std::size_t at, std::size_t* size) const {
  const Term* longest = nullptr;
  for (const Term& term : terms_) {
    if (!goes_on_with(prose, at, term.name)) continue;
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
