#include "tests/html.hpp"

#include <algorithm>
#include <cctype>

namespace tests {
namespace {

std::size_t skip_spaces(std::string_view text, std::size_t at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
  return at;
}

std::size_t end_of_name(std::string_view text, std::size_t at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) == 0 &&
         text[at] != '=' && text[at] != '>' && text[at] != '/')
    ++at;
  return at;
}

/// Reads the attributes behind a tag's name, up to and with its ">".
void read_attributes(std::string_view page, std::size_t at, Tag& tag) {
  while (at < page.size()) {
    at = skip_spaces(page, at);
    if (at >= page.size() || page[at] == '>') break;
    if (page[at] == '/') {
      ++at;
      continue;
    }
    const std::size_t name_end = end_of_name(page, at);
    const std::string name(page.substr(at, name_end - at));
    at = skip_spaces(page, name_end);
    std::string value;
    if (at < page.size() && page[at] == '=') {
      at = skip_spaces(page, at + 1);
      if (at < page.size() && (page[at] == '"' || page[at] == '\'')) {
        const std::size_t close = std::min(page.find(page[at], at + 1), page.size());
        value = unescaped(std::string(page.substr(at + 1, close - at - 1)));
        at = std::min(close + 1, page.size());
      } else {
        const std::size_t close = std::min(page.find_first_of(" >\n", at), page.size());
        value = unescaped(std::string(page.substr(at, close - at)));
        at = close;
      }
    }
    if (name.empty()) break;
    tag.attributes[name] = value;
  }
  tag.end = std::min(at + 1, page.size());
}

}  // namespace

std::string Tag::operator[](const std::string& attribute) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? "" : found->second;
}

std::vector<Tag> tags_of(std::string_view page) {
  std::vector<Tag> tags;
  for (std::size_t at = page.find('<'); at < page.size(); at = page.find('<', at)) {
    if (page.substr(at).starts_with("<!--")) {
      at = std::min(page.find("-->", at), page.size());
      continue;
    }
    if (at + 1 >= page.size() || std::isalpha(static_cast<unsigned char>(page[at + 1])) == 0) {
      ++at;
      continue;
    }
    const std::size_t name_end = end_of_name(page, at + 1);
    Tag tag{std::string(page.substr(at + 1, name_end - at - 1)), {}, name_end};
    read_attributes(page, name_end, tag);
    at = tag.end;
    if (tag.name == "script" || tag.name == "style")
      at = std::min(page.find("</" + tag.name, at), page.size());
    tags.push_back(std::move(tag));
  }
  return tags;
}

std::set<std::string> ids_of(const std::vector<Tag>& tags) {
  std::set<std::string> ids;
  for (const Tag& tag : tags) {
    if (tag.has("id")) ids.insert(tag["id"]);
    if (tag.name == "a" && tag.has("name")) ids.insert(tag["name"]);
  }
  return ids;
}

std::string unescaped(std::string text) {
  for (const auto& [code, character] :
       {std::pair("&lt;", "<"), std::pair("&gt;", ">"), std::pair("&quot;", "\""),
        std::pair("&#39;", "'"), std::pair("&amp;", "&")}) {
    const std::string from = code;
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1))
      text.replace(at, from.size(), character);
  }
  return text;
}

std::vector<std::string> urls_of(std::string_view style_sheet) {
  std::vector<std::string> urls;
  for (std::size_t at = style_sheet.find("url("); at != std::string_view::npos;
       at = style_sheet.find("url(", at + 1)) {
    const std::size_t close = style_sheet.find(')', at);
    std::string url(style_sheet.substr(at + 4, close - at - 4));
    url.erase(
        std::remove_if(url.begin(), url.end(), [](char c) { return c == '"' || c == '\''; }),
        url.end());
    urls.push_back(url);
  }
  return urls;
}

}  // namespace tests
