#include "common/cpu_device/compiler/tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace rmsnorm::cpu_device {
namespace {

bool is_in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (c & 0x80) != 0;
}

/// Cuts a source into tokens.
class Tokenizer {
 public:
  Tokenizer(std::string_view source, const std::string& file) : rest_(source), file_(file) {}

  Tokens run() {
    Tokens tokens;
    int line = 1;
    bool line_is_empty = true;  // so far
    bool in_directive = false;
    bool after_blank = false;
    try {
      while (!rest_.empty()) {
        in_directive = in_directive || (rest_[0] == '#' && line_is_empty);
        const auto [kind, size] = in_directive && line_is_empty ? directive() : next();
        const std::string text(rest_.substr(0, size));
        tokens.push_back({kind, text, line, in_directive, after_blank});
        after_blank = kind == Token::Kind::blank;
        line_is_empty = text == "\n" || (line_is_empty && after_blank);
        in_directive = in_directive && text != "\n";
        line += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
        rest_.remove_prefix(size);
      }
    } catch (const Endless&) {
      throw std::runtime_error(error_at(file_, line, "this comment or raw string has no end"));
    }
    return tokens;
  }

 private:
  using KindAndSize = std::pair<Token::Kind, std::size_t>;
  struct Endless {};

  /// A macro may launch a kernel: it is cut up. Other directives are no C++, as "#error don't".
  KindAndSize directive() const {
    if (directive_name(rest_) == "define") return {Token::Kind::mark, 1};
    return {Token::Kind::directive, std::min({line(), rest_.find("//"), rest_.find("/*")})};
  }

  KindAndSize next() const {
    using enum Token::Kind;
    const char c = rest_[0];
    if (rest_.starts_with("//")) return {blank, line()};
    if (rest_.starts_with("/*")) return {blank, until("*/", 2)};
    if (rest_.starts_with("\\\n")) return {blank, 2};
    if (rest_.starts_with("\\\r\n")) return {blank, 3};
    if (std::isspace(static_cast<unsigned char>(c)) != 0) return {blank, 1};
    if ((c == '"' || c == '\'') && quoted() > 0) return {literal, quoted()};
    if (rest_.starts_with("<<<")) return {mark, 3};
    if (rest_.starts_with("::")) return {mark, 2};
    if (!is_in_word(c)) return {mark, 1};  // of ">>>" each one alone: it may close templates

    std::size_t size = 1;
    const bool is_number = std::isdigit(static_cast<unsigned char>(c)) != 0;
    const auto separates = [&](std::size_t i) {  // as in 1'000
      return is_number && rest_[i] == '\'' && i + 1 < rest_.size() && is_in_word(rest_[i + 1]);
    };
    while (size < rest_.size() && (is_in_word(rest_[size]) || separates(size))) ++size;
    for (const std::string_view raw : {"R\"", "u8R\"", "uR\"", "UR\"", "LR\""}) {
      if (size != raw.size() - 1 || !rest_.starts_with(raw)) continue;
      const std::size_t open = std::min(rest_.find('('), rest_.size());
      return {literal, until(fmt::format("){}\"", rest_.substr(size + 1, open - size - 1)), open)};
    }
    return {word, size};
  }

  /// To the end of the line, or of a later one if backslashes join them.
  std::size_t line() const {
    std::size_t end = rest_.find('\n');
    while (end != rest_.npos) {
      const std::string_view line = rest_.substr(0, end);
      if (!line.ends_with('\\') && !line.ends_with("\\\r")) return end;
      end = rest_.find('\n', end + 1);
    }
    return rest_.size();
  }

  std::size_t until(std::string_view end, std::size_t from) const {
    const std::size_t found = rest_.find(end, from);
    return found == rest_.npos ? throw Endless() : found + end.size();
  }

  /// 0 if the literal does not end in its line, as in "don't" where the preprocessor skips.
  std::size_t quoted() const {
    for (std::size_t i = 1; i < rest_.size() && rest_[i] != '\n'; ++i) {
      if (rest_[i] == rest_[0]) return i + 1;
      if (rest_[i] == '\\') ++i;
    }
    return 0;
  }

  std::string_view rest_;
  const std::string& file_;
};

}  // namespace

Tokens tokens_of(std::string_view source, const std::string& file) {
  return Tokenizer(source, file).run();
}

std::string error_at(const std::string& file, int line, std::string_view sentence) {
  return fmt::format("{}:{}: {}", file, line, sentence);
}

std::string quoted(const std::string& text) {
  std::ostringstream out;
  out << std::quoted(text);
  return out.str();
}

std::string_view directive_name(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of("# \t"), text.size()));
  return text.substr(0, text.find_first_of(" \t\r\n<\"("));
}

std::string joined(const Tokens& tokens, std::size_t begin, std::size_t end) {
  std::string text;
  bool after_blank = false;
  for (std::size_t i = begin; i < end; ++i) {
    const Token& token = tokens[i];
    after_blank = after_blank || token.after_blank;
    if (token.is_blank()) continue;
    const bool touch = !text.empty() && is_in_word(text.back()) && is_in_word(token.text[0]);
    if (!text.empty() && (after_blank || touch)) text += ' ';
    text += token.text;
    after_blank = false;
  }
  return text;
}

std::size_t group_end(const Tokens& tokens, std::size_t open) {
  const std::string_view brackets = "()[]{}<>";
  const std::string_view close = brackets.substr(brackets.find(tokens[open].text) + 1, 1);
  for (std::size_t i = open + 1; i < tokens.size(); ++i) {
    if (tokens[i].is(close)) return i;
    if (tokens[i].closes()) break;
    if (tokens[i].opens() || (close == ">" && tokens[i].is("<"))) i = group_end(tokens, i);
  }
  return tokens.size();
}

}  // namespace rmsnorm::cpu_device
