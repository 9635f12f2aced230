#include "docs/site/document.hpp"

#include <cmark-gfm-core-extensions.h>

#include <cctype>
#include <cstdlib>

namespace rmsnorm::site {

Document parse(std::string_view markdown) {
  cmark_gfm_core_extensions_ensure_registered();
  cmark_parser* const parser = cmark_parser_new(CMARK_OPT_DEFAULT);
  cmark_parser_attach_syntax_extension(parser, cmark_find_syntax_extension("table"));
  cmark_parser_feed(parser, markdown.data(), markdown.size());
  Document document(cmark_parser_finish(parser));
  cmark_parser_free(parser);
  for_each_node(document.get(), [](cmark_node* node) {
    if (cmark_node_get_type(node) != CMARK_NODE_SOFTBREAK) return;
    cmark_node* const text = cmark_node_new(CMARK_NODE_TEXT);
    cmark_node_set_literal(text, "\n");
    cmark_node_replace(node, text);
    cmark_node_free(node);
  });
  cmark_consolidate_text_nodes(document.get());
  return document;
}

std::string literal_of(cmark_node* node) {
  const char* const literal = cmark_node_get_literal(node);
  return literal == nullptr ? "" : literal;
}

std::string plain_text(cmark_node* node) {
  std::string text;
  for_each_node(node, [&](cmark_node* inside) {
    if (cmark_node_get_type(inside) != CMARK_NODE_HTML_INLINE) text += literal_of(inside);
  });
  return text;
}

std::string html_of(cmark_node* node) {
  char* const html = cmark_render_html(node, CMARK_OPT_UNSAFE, nullptr);
  std::string copy = html;
  std::free(html);
  return copy;
}

void replace(cmark_node* node, const std::string& html) {
  const bool is_block = (cmark_node_get_type(node) & CMARK_NODE_TYPE_MASK) == CMARK_NODE_TYPE_BLOCK;
  cmark_node* const made =
      cmark_node_new(is_block ? CMARK_NODE_HTML_BLOCK : CMARK_NODE_HTML_INLINE);
  cmark_node_set_literal(made, html.c_str());
  cmark_node_replace(node, made);
  cmark_node_free(node);
}

std::string slug_of(std::string_view heading) {
  std::string slug;
  for (std::size_t i = 0; i < heading.size();) {
    const auto byte = static_cast<unsigned char>(heading[i]);
    const std::size_t size = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    const std::string_view character = heading.substr(i, size);
    if (size > 1) {
      const bool is_sign = character == "\u00d7" || character == "\u00f7";
      if (character >= "\u00c0" && character < "\u2000" && !is_sign) slug += character;
    } else if (std::isalnum(byte) != 0 || byte == '-' || byte == '_') {
      slug += static_cast<char>(std::tolower(byte));
    } else if (byte == ' ' || byte == '\n') {
      slug += '-';
    }
    i += size;
  }
  return slug;
}

}  // namespace rmsnorm::site
