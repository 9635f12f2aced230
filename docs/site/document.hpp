#pragma once
/// \file
/// A page of Markdown, as cmark-gfm reads it.

#include <cmark-gfm.h>

#include <memory>
#include <string>
#include <string_view>

namespace rmsnorm::site {

struct FreeNode {
  void operator()(cmark_node* node) const { cmark_node_free(node); }
};

/// A page's tree: blocks, and what is inside them.
using Document = std::unique_ptr<cmark_node, FreeNode>;

/// The tree of a page, with tables. Text stays in one piece where a line ends.
Document parse(std::string_view markdown);

/// Calls see(node) for all nodes, those inside first; it may replace its node.
template <class See>
void for_each_node(cmark_node* node, See&& see) {
  for (cmark_node* child = cmark_node_first_child(node); child != nullptr;) {
    cmark_node* const next = cmark_node_next(child);
    for_each_node(child, see);
    child = next;
  }
  see(node);
}

/// A node's own text: that of code, of HTML, or of prose.
std::string literal_of(cmark_node* node);

/// The text in a node, without markup.
std::string plain_text(cmark_node* node);

/// The node as HTML.
std::string html_of(cmark_node* node);

/// Puts HTML into a node's place. The node is no more.
void replace(cmark_node* node, const std::string& html);

/// The anchor that a heading has by GitHub's rules, "What is x?" has "what-is-x": lower case,
/// spaces become hyphens, of the rest letters, digits, - and _ stay. Beyond ASCII, what lies from
/// U+00C0 to U+1FFF is taken for letters, except the signs x and /.
std::string slug_of(std::string_view heading);

}  // namespace rmsnorm::site
