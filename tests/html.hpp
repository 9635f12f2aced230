#pragma once
/// \file
/// As much of HTML as it takes to check the built site.

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tests {

/// An opening tag of a page.
struct Tag {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::size_t end;  ///< the position behind it

  /// An attribute's value, "" if there is none.
  std::string operator[](const std::string& attribute) const;
  /// Whether it has the attribute, with or without a value.
  bool has(const std::string& attribute) const { return attributes.count(attribute) > 0; }
};

/// The opening tags of a page, in order. Comments, and what is inside scripts and style sheets, are
/// left out.
std::vector<Tag> tags_of(std::string_view page);

/// The values of id and, for links, of name.
std::set<std::string> ids_of(const std::vector<Tag>& tags);

/// Text with &lt; and its like replaced by the characters.
std::string unescaped(std::string text);

/// The files that a style sheet names in url(...).
std::vector<std::string> urls_of(std::string_view style_sheet);

}  // namespace tests
