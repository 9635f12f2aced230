#pragma once
/// \file
/// A CUDA source as tokens.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rmsnorm::cpu_device {

/// A piece of a source. All their texts together are the source.
struct Token {
  /// What it can be.
  enum class Kind {
    blank,      ///< a blank, the end of a line or a comment
    word,       ///< also a number
    literal,    ///< in quotes
    mark,       ///< punctuation
    directive,  ///< a line of the preprocessor, but for #define
  };
  Kind kind;          ///< one of these
  std::string text;   ///< as it stands there
  int line;           ///< from 1
  bool in_directive;  ///< also what a macro stands for: #define NAME this
  bool after_blank;   ///< whether there is one before it

  /// Whether it has this text, and is no literal.
  bool is(std::string_view other) const { return kind != Kind::literal && text == other; }
  bool is_blank() const { return kind == Kind::blank; }          ///< of that kind
  bool opens() const { return is("(") || is("[") || is("{"); }   ///< a bracket
  bool closes() const { return is(")") || is("]") || is("}"); }  ///< one
};
/// A source, or a part of one.
using Tokens = std::vector<Token>;

/// Cuts a source into tokens.
/// \throws std::runtime_error if a comment or a raw string has no end.
Tokens tokens_of(std::string_view source, const std::string& file);

/// "FILE:LINE: SENTENCE"
std::string error_at(const std::string& file, int line, std::string_view sentence);

/// A text as a literal.
std::string quoted(const std::string& text);

/// "include" of "#include <header>", "unroll" of "unroll(2)".
std::string_view directive_name(std::string_view text);

/// The code of the tokens in [begin, end), on one line.
std::string joined(const Tokens& tokens, std::size_t begin, std::size_t end);

/// Where the bracket closes that opens at `open`; the number of tokens if it does not. A < is a
/// bracket if it is that one, or inside it and in no other bracket.
std::size_t group_end(const Tokens& tokens, std::size_t open);

}  // namespace rmsnorm::cpu_device
