#pragma once
/// \file
/// The glossary: its terms, and links to them from the other pages.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "docs/site/document.hpp"

namespace rmsnorm::site {

/// A word of the glossary.
struct Term {
  std::string name;        ///< as the glossary writes it: "shared memory"
  std::string anchor;      ///< on the glossary's page
  std::string definition;  ///< its first sentence, in plain text
};

/// The terms of docs/glossary.md: the bold words that begin its list items,
/// `- **fp32**, **fp64**: ...`.
std::vector<Term> terms_of(std::string_view glossary);

/// Makes each term of the glossary's tree a heading of its own, so that search finds it.
void make_headings_of_terms(const Document& glossary);

/// Writes prose as HTML, and makes links of terms, each the first time that it occurs.
class TermLinker {
 public:
  /// \param terms  the glossary's; they must outlive the linker
  /// \param page  the address of the glossary's page
  TermLinker(const std::vector<Term>& terms, std::string page);

  /// The prose as HTML. \param prose plain text, without markup
  std::string link(std::string_view prose);

 private:
  const Term* term_at(std::string_view prose, std::size_t at, std::size_t* size) const;

  const std::vector<Term>& terms_;
  std::string page_;
  std::set<std::string> used_;
};

}  // namespace rmsnorm::site
