#include "common/cpu_device/compiler/functions.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string_view>

namespace rmsnorm::cpu_device {
namespace {

/// The functions of kernels in a file, and its constant arrays.
class Functions {
 public:
  explicit Functions(const Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].is_blank() || tokens[i].in_directive) continue;
      tokens_.push_back(tokens[i]);
      places_.push_back(i);
    }
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      find_array(i);
      if (tokens_[i].is("__global__") || tokens_[i].is("__device__")) find_function(i);
    }
  }

  /// check_arrays()
  void check_arrays(const std::string& file) const {
    if (!is_balanced()) return;  // where a function ends is not known
    for (const Function& function : functions_) {
      for (std::size_t i = function.body; i < function.end; ++i) {
        if (tokens_[i].kind != Token::Kind::word || !tokens_[i + 1].is("[") ||
            !host_arrays_.contains(tokens_[i].text) || is_declared_or_member(function, i)) {
          continue;
        }
        if (!has_variable_index(function, i)) continue;
        throw std::runtime_error(error_at(
            file, tokens_[i].line,
            "a kernel cannot use " + tokens_[i].text +
                ": it is the host's (__device__ const makes it one's own)"));
      }
    }
  }

  /// inlined_functions()
  std::vector<std::size_t> inlined() const {
    if (!is_balanced()) return {};  // where a function ends is not known
    std::vector<std::size_t> found;
    for (const Function& function : functions_) {
      if (!tokens_[function.keyword].is("__device__")) continue;
      std::set<std::string> called;
      add_called(function, called);
      if (!called.contains(function.name)) found.push_back(places_[function.keyword]);
    }
    return found;
  }

 private:
  /// Tokens are counted without blanks.
  struct Function {
    std::string name;
    std::size_t keyword;  ///< its token __device__ or __global__
    std::size_t begin;    ///< its tokens, from its name on
    std::size_t body;     ///< likewise, of what it does
    std::size_t end;
  };

  /// Notes the constant array outside of functions that is declared with token i as its name, if
  /// one is: without another word, it is the host's.
  void find_array(std::size_t i) {
    if (i + 1 >= tokens_.size() || tokens_[i].kind != Token::Kind::word ||
        !tokens_[i + 1].is("[")) {
      return;
    }
    bool is_constant = false;
    for (std::size_t k = i; k-- > 0;) {
      const Token& token = tokens_[k];
      if (token.is(";") || token.is("{") || token.is("}")) break;
      if (token.is("(") || token.is("=") || token.text.starts_with("__")) return;
      is_constant = is_constant || token.is("const") || token.is("constexpr");
    }
    if (is_constant && is_outside_of_functions(tokens_, i)) host_arrays_.insert(tokens_[i].text);
  }

  /// Whether the index behind an array's name has a variable of the function, and no constant.
  bool has_variable_index(const Function& function, std::size_t at) const {
    for (std::size_t k = at; k-- > function.body && !tokens_[k].is(";") && !tokens_[k].is("}");) {
      if (tokens_[k].is("constexpr") || tokens_[k].is("static_assert")) return false;
    }
    const std::size_t end = group_end(tokens_, at + 1);
    for (std::size_t i = at + 2; i < end; ++i) {
      if (tokens_[i].kind == Token::Kind::word && is_variable(function, i)) return true;
    }
    return false;
  }

  /// Whether a word in a function is a parameter or a variable of its own, or a kernel's index.
  bool is_variable(const Function& function, std::size_t word) const {
    constexpr std::string_view kIndices[] = {"threadIdx", "blockIdx", "blockDim", "gridDim"};
    const std::string& name = tokens_[word].text;
    if (std::ranges::find(kIndices, name) != std::end(kIndices)) return true;
    for (std::size_t i = function.begin + 1; i < word; ++i) {
      const Token& type = tokens_[i - 1];
      if (tokens_[i].text != name || type.kind != Token::Kind::word || type.is("return")) continue;
      return !tokens_[i - 2].is("constexpr") && !tokens_[i - 3].is("constexpr");
    }
    return false;
  }

  /// Notes the function that is declared with __global__ or __device__ at token i, if one is.
  void find_function(std::size_t i) {
    constexpr std::string_view kNoNames[] = {"alignas", "decltype"};
    std::size_t open = i + 1;
    for (; open < tokens_.size(); ++open) {
      const Token& token = tokens_[open];
      if (token.is("=") || token.is("{") || token.is(";")) return;  // a variable's, or a lambda's
      if (token.is("<")) open = behind_template_arguments(open) - 1;
      if (!token.is("(")) continue;
      const std::string& before = tokens_[open - 1].text;
      const bool is_name = std::ranges::find(kNoNames, before) == std::end(kNoNames);
      if (is_name && !before.starts_with("__")) break;
      open = group_end(tokens_, open);
    }
    if (open == tokens_.size() || tokens_[open - 1].kind != Token::Kind::word) return;  // operator*
    std::size_t body = group_end(tokens_, open) + 1;
    while (body < tokens_.size() && !tokens_[body].is("{")) {
      if (tokens_[body].is(";") || tokens_[body].closes()) return;
      body = tokens_[body].is("(") ? group_end(tokens_, body) + 1 : body + 1;
    }
    if (body >= tokens_.size()) return;
    functions_.push_back({tokens_[open - 1].text, i, open - 1, body, group_end(tokens_, body)});
  }

  /// Adds the names of all that a function calls, and of what those call.
  void add_called(const Function& caller, std::set<std::string>& called) const {
    for (std::size_t i = caller.body; i < caller.end; ++i) {
      const std::string& name = tokens_[i].text;
      const std::size_t next = behind_template_arguments(i + 1);
      if (next >= tokens_.size() || !tokens_[next].is("(") || called.contains(name)) continue;
      for (const Function& function : functions_) {
        if (function.name != name) continue;
        called.insert(name);
        add_called(function, called);
      }
    }
  }

  bool is_balanced() const {
    const auto count = [&](std::string_view brace) {
      return std::ranges::count_if(tokens_, [&](const Token& token) { return token.is(brace); });
    };
    return count("{") == count("}");
  }

  std::size_t behind_template_arguments(std::size_t i) const {
    if (i >= tokens_.size() || !tokens_[i].is("<")) return i;
    const std::size_t end = group_end(tokens_, i);
    return end == tokens_.size() ? i : end + 1;
  }

  /// Whether the word is somebody's member, in a namespace, or a parameter or a variable of the
  /// function's own.
  bool is_declared_or_member(const Function& function, std::size_t word) const {
    const auto declares = [&](std::size_t i) {
      const Token& before = tokens_[i - 1];
      return tokens_[i].text == tokens_[word].text && before.kind == Token::Kind::word &&
             !before.is("return") && !before.is("else") && !before.is("do");
    };
    const Token& before = tokens_[word - 1];
    if (before.is(".") || before.is("::") || (before.is(">") && tokens_[word - 2].is("-"))) {
      return true;
    }
    for (std::size_t i = function.begin + 1; i < function.body; ++i) {  // parameters
      const Token& type = tokens_[i - 1];
      const Token& next = tokens_[i + 1];
      const bool is_parameter = (type.kind == Token::Kind::word || type.is("*") || type.is("&")) &&
                                (next.is(",") || next.is(")") || next.is("[") || next.is("="));
      if (is_parameter && tokens_[i].text == tokens_[word].text) return true;
    }
    for (std::size_t i = function.body + 1; i <= word; ++i) {
      if (declares(i)) return true;
    }
    return false;
  }

  Tokens tokens_;                    // without blanks and directives
  std::vector<std::size_t> places_;  // of each among all tokens
  std::vector<Function> functions_;
  std::set<std::string> host_arrays_;
};

}  // namespace

std::vector<std::size_t> inlined_functions(const Tokens& tokens) {
  return Functions(tokens).inlined();
}

void check_arrays(const Tokens& tokens, const std::string& file) {
  Functions(tokens).check_arrays(file);
}

bool is_outside_of_functions(const Tokens& tokens, std::size_t at) {
  constexpr std::string_view kOthers[] = {"namespace", "struct", "class", "union", "enum"};
  std::vector<bool> is_other;  // of each brace that is open: one of these, or extern "C"
  for (std::size_t i = 0; i < at; ++i) {
    if (tokens[i].in_directive) continue;
    if (tokens[i].is("}") && !is_other.empty()) is_other.pop_back();
    if (!tokens[i].is("{")) continue;
    const auto ends = [](const Token& token) {
      return token.is(";") || token.is("{") || token.is("}") || token.is(")");
    };
    bool has_word = false;
    for (std::size_t k = i; k > 0 && !ends(tokens[k - 1]); --k) {
      const Token& before = tokens[k - 1];
      has_word |=
          std::ranges::find(kOthers, before.text) != std::end(kOthers) || before.text == "\"C\"";
    }
    is_other.push_back(has_word);
  }
  return std::ranges::find(is_other, false) == is_other.end();
}

}  // namespace rmsnorm::cpu_device
