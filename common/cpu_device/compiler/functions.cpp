#include "common/cpu_device/compiler/functions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace rmsnorm::cpu_device {
namespace {

// Of C++'s own, what has no __device__.
constexpr std::string_view kOfHost[] = {
    "accumulate", "cerr",       "clamp", "copy",        "cout",        "deque",      "endl",
    "fill",       "function",   "list",  "make_shared", "make_unique", "map",        "max",
    "min",        "shared_ptr", "sort",  "string",      "to_string",   "unique_ptr", "vector"};

/// The functions of a file, and who calls whom: what g++ does not mind and nvcc refuses.
class Functions {
 public:
  Functions(const Tokens& tokens, const std::string& file) : file_(file) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].is_blank() || tokens[i].in_directive) continue;
      tokens_.push_back(tokens[i]);
      places_.push_back(i);
    }
    for (std::size_t i = 1; i < tokens_.size(); ++i) {
      find_class(i);
      find_array(i);
      find(i);
    }
  }

  /// \throws std::runtime_error with the line of the first mistake.
  void check() const {
    if (!is_balanced()) return;  // where a function ends is not known
    const auto is_kernel = [](const Function& f) { return f.is_kernel; };
    const auto is_of_host = [](const Function& f) { return f.is_of_host; };
    const auto is_of_device = [](const Function& f) { return f.is_of_device && !f.is_kernel; };
    for_uses("<<<", [&](const Function&, const Token& token) {
      if (all(token.text, [&](const Function& f) { return !f.is_kernel; })) {
        refuse(token, "{} has no __global__", token.text);
      }
    });
    for_uses("(", [&](const Function& caller, const Token& token) {
      const std::string& name = token.text;
      if (all(name, is_kernel)) {
        refuse(
            token,
            "{0} is a kernel: call it as {0}<<<blocks, threads>>>(arguments), from the host's code",
            name);
      }
      if (!caller.is_of_host && !caller.is_constant && all(name, is_of_host)) {
        refuse(token, "a kernel cannot call {0}: it has no __device__", name);
      }
      if (caller.is_of_host && !has_device_code(caller) && all(name, is_of_device)) {
        refuse(
            token, "{} is the host's code, which cannot call {}: it has no __host__", caller.name,
            name);
      }
    });
    for_uses("::", [&](const Function& caller, const Token& token) {
      if (caller.is_of_device && token.is("std")) check_std(&token - tokens_.data());
    });
    for_uses("[", [&](const Function& caller, const Token& token) {
      const bool is_of_kernel = caller.is_of_device || caller.is_kernel;
      if (is_of_kernel && host_arrays_.contains(token.text) && has_variable_index(caller, token)) {
        refuse(
            token,
            "a kernel cannot use {0}: it is the host's (__device__ const makes it one's own)",
            token.text);
      }
    });
    for (const auto& [name, range] : classes_) {
      if (is_functor_of_host(range)) check_functor(name);
    }
  }

  /// The tokens __device__ of the functions that do not call themselves, even through others: those
  /// that nvcc takes into their callers.
  std::vector<std::size_t> inlined() const {
    if (!is_balanced()) return {};  // where a function ends is not known
    std::vector<std::size_t> found;
    for (const Function& function : functions_) {
      if (function.device == kNone || function.body == 0) continue;
      std::set<std::string> called;
      add_called(function, called);
      if (!called.contains(function.name)) found.push_back(places_[function.device]);
    }
    return found;
  }

 private:
  static constexpr std::size_t kNone = -1;
  struct Function {
    std::string name;
    bool is_kernel = false;
    bool is_constant = false;    ///< constexpr: of host and device if need be
    bool is_of_host = false;     ///< alone
    bool is_of_device = false;   ///< alone
    std::size_t device = kNone;  ///< its token __device__
    std::size_t begin = 0;       ///< its tokens, from its name on
    std::size_t body = 0;        ///< likewise, of what it does; none of a declaration
    std::size_t end = 0;
  };
  using Range = std::pair<std::size_t, std::size_t>;  ///< of tokens

  /// Notes the class that begins with token i, if one does.
  void find_class(std::size_t i) {
    if (!tokens_[i - 1].is("struct") && !tokens_[i - 1].is("class")) return;
    std::size_t open = i + 1;  // behind what it may inherit from
    while (open < tokens_.size() && (tokens_[open].kind == Token::Kind::word ||
                                     tokens_[open].is(":") || tokens_[open].is("::"))) {
      ++open;
    }
    if (open < tokens_.size() && tokens_[open].is("{")) {
      classes_.emplace(tokens_[i].text, Range(open, group_end(tokens_, open)));
    }
  }

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
    if (is_constant) host_arrays_.insert(tokens_[i].text);
  }

  /// Whether the index behind an array's name has a variable of the function, and no constant.
  bool has_variable_index(const Function& function, const Token& array) const {
    const auto at = static_cast<std::size_t>(&array - tokens_.data());
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
    if (std::find(std::begin(kIndices), std::end(kIndices), name) != std::end(kIndices))
      return true;
    for (std::size_t i = function.begin + 1; i < word; ++i) {
      const Token& type = tokens_[i - 1];
      if (tokens_[i].text != name || type.kind != Token::Kind::word || type.is("return")) continue;
      return !tokens_[i - 2].is("constexpr") && !tokens_[i - 3].is("constexpr");
    }
    return false;
  }

  /// Whether a class has an operator(), and each is of the host alone.
  bool is_functor_of_host(const Range& range) const {
    bool any = false;
    for (const Function& function : functions_) {
      if (function.name != "operator" || !tokens_[function.begin + 1].is("(") ||
          function.begin < range.first || function.begin > range.second) {
        continue;
      }
      if (!function.is_of_host) return false;
      any = true;
    }
    return any;
  }

  /// Refuses a functor of the host in a kernel, or as an argument of a kernel's template.
  void check_functor(const std::string& name) const {
    const auto look = [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        if (!tokens_[i].is(name) || tokens_[i].kind != Token::Kind::word) continue;
        refuse(tokens_[i], "a kernel cannot call {}'s operator(): it has no __device__", name);
      }
    };
    for (const Function& function : functions_) {
      if (function.is_kernel || function.is_of_device) look(function.begin, function.end);
    }
    for_uses("<<<", [&](const Function&, const Token& kernel) {
      const auto at = static_cast<std::size_t>(&kernel - tokens_.data());
      look(at, behind_template_arguments(at + 1));
    });
  }

  /// Notes the function that is declared with token i as its name, if one is; skips its body.
  void find(std::size_t& i) {
    constexpr std::string_view kNoNames[] = {
        "alignas", "alignof", "decltype", "noexcept", "sizeof"};
    constexpr std::string_view kNoTypes[] = {"case", "delete", "else", "new", "return", "throw"};
    const Token& before = tokens_[i - 1];
    const std::string& name = tokens_[i].text;
    const bool is_statement =
        std::find(std::begin(kNoTypes), std::end(kNoTypes), before.text) != std::end(kNoTypes);
    const bool has_type = (before.kind == Token::Kind::word && !is_statement) || before.is("*") ||
                          before.is("&") || before.is(">") || before.is(")");
    if (tokens_[i].kind != Token::Kind::word || i + 1 == tokens_.size() ||
        !tokens_[i + 1].is("(") || !has_type || name.starts_with("__") ||
        std::find(std::begin(kNoNames), std::end(kNoNames), name) != std::end(kNoNames)) {
      return;
    }
    Function found{.name = tokens_[i].text, .is_of_host = true, .begin = i};
    int angles = 0;
    bool returns = true;  // something
    bool is_of_both = false;
    for (std::size_t k = i; k-- > 0;) {
      const Token& token = tokens_[k];
      if (token.is(";") || token.is("{") || token.is("}")) break;
      if (token.is("=") && angles == 0) return;  // a call that gives a variable its value
      if (token.is(">")) ++angles;
      if (token.is("<")) --angles;
      found.is_kernel = found.is_kernel || token.is("__global__");
      found.is_constant = found.is_constant || token.is("constexpr") || token.is("consteval");
      if (token.is("__global__") || token.is("__device__")) found.is_of_host = false;
      if (token.is("__device__")) found.device = k;
      if (token.is("__host__")) is_of_both = true;
      if (token.is("void")) returns = false;
    }
    if (found.is_kernel && returns) {
      refuse(tokens_[i], "a kernel returns nothing: {} has to be __global__ void", found.name);
    }
    found.is_of_host = found.is_of_host && !found.is_constant;
    found.is_of_device = !found.is_of_host && !is_of_both && !found.is_constant;
    std::size_t end = group_end(tokens_, i + 1) + 1;
    while (end < tokens_.size() && !tokens_[end].is("{") && !tokens_[end].is(";")) {
      if (tokens_[end].closes() || tokens_[end].is("=") || tokens_[end].is(",")) return;
      if (tokens_[end].is("(")) end = group_end(tokens_, end);
      ++end;
    }
    if (end >= tokens_.size()) return;
    if (tokens_[end].is("{")) {
      found.body = end;
      found.end = group_end(tokens_, end);
      i = found.end;
    }
    functions_.push_back(found);
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

  /// Calls visit(function, token) for each word in a function that is followed by such a mark.
  void for_uses(std::string_view mark, const auto& visit) const {
    for (const Function& function : functions_) {
      for (std::size_t i = function.body; i < function.end; ++i) {
        const Token& token = tokens_[i];
        if (token.kind != Token::Kind::word || is_declared_or_member(function, i)) continue;
        const std::size_t next = behind_template_arguments(i + 1);
        if (next < tokens_.size() && tokens_[next].is(mark)) visit(function, token);
      }
    }
  }

  bool is_balanced() const {
    const auto count = [&](std::string_view brace) {
      return std::count_if(
          tokens_.begin(), tokens_.end(), [&](const Token& token) { return token.is(brace); });
    };
    return count("{") == count("}");
  }

  /// Refuses std::NAME, at token i, where it is the host's; not where the compiler computes it.
  void check_std(std::ptrdiff_t at) const {
    const auto i = static_cast<std::size_t>(at);
    if (i + 2 >= tokens_.size()) return;
    const std::string& name = tokens_[i + 2].text;
    if (std::find(std::begin(kOfHost), std::end(kOfHost), name) == std::end(kOfHost)) return;
    for (std::size_t k = i; k-- > 0 && !tokens_[k].is(";") && !tokens_[k].is("}");) {
      if (tokens_[k].is("constexpr") || tokens_[k].is("static_assert")) return;
    }
    const bool has_twin = name == "max" || name == "min";
    refuse(
        tokens_[i], "a kernel cannot use std::{0}: it has no __device__{1}", name,
        has_twin ? fmt::format(" ({}() without std:: has one)", name) : "");
  }

  /// Whether there is a lambda for the device in it.
  bool has_device_code(const Function& function) const {
    const auto at = [&](std::size_t i) { return tokens_.begin() + static_cast<std::ptrdiff_t>(i); };
    return std::any_of(at(function.body), at(function.end), [](const Token& token) {
      return token.is("__device__");
    });
  }

  std::size_t behind_template_arguments(std::size_t i) const {
    if (i >= tokens_.size() || !tokens_[i].is("<")) return i;
    const std::size_t end = group_end(tokens_, i);
    return end == tokens_.size() ? i : end + 1;
  }

  /// Whether there are functions of this name, and all are like that.
  bool all(const std::string& name, const auto& is_so) const {
    bool any = false;
    for (const Function& function : functions_) {
      if (function.name != name) continue;
      if (!is_so(function)) return false;
      any = true;
    }
    return any;
  }

  /// Whether the word is somebody's member, in a namespace, or a variable of the function's own.
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
    for (std::size_t i = function.body + 1; i <= word; ++i) {
      if (declares(i)) return true;
    }
    return false;
  }

  template <class... Values>
  [[noreturn]] void refuse(
      const Token& token, fmt::format_string<const Values&...> sentence,
      const Values&... values) const {
    throw std::runtime_error(error_at(file_, token.line, fmt::format(sentence, values...)));
  }

  const std::string& file_;
  Tokens tokens_;                    // without blanks and directives
  std::vector<std::size_t> places_;  // of each among all tokens
  std::vector<Function> functions_;
  std::map<std::string, Range> classes_;  // by name, what stands in their braces
  std::set<std::string> host_arrays_;
};

}  // namespace

void check_functions(const Tokens& tokens, const std::string& file) {
  Functions(tokens, file).check();
}

std::vector<std::size_t> inlined_functions(const Tokens& tokens, const std::string& file) {
  return Functions(tokens, file).inlined();
}

}  // namespace rmsnorm::cpu_device
