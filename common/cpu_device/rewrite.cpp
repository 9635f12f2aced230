#include "common/cpu_device/rewrite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

#include "common/cpu_device/rewrite_ptx.hpp"

// In two steps: the source is cut into tokens, then some tokens get another text. Blanks and
// comments are tokens that keep theirs, and so no line moves.
namespace rmsnorm::cpu_device {
namespace {

/// What the CPU device lacks, by how the header's name begins or by a word.
struct Feature {
  std::string_view word;
  std::string_view name;
};
constexpr std::array kMissingHeaders{
    Feature{"cooperative_groups", "cooperative groups"},
    Feature{"cuda/", "libcu++"},
    Feature{"cub/", "CUB"},
    Feature{"thrust/", "Thrust"},
    Feature{"cuda.h", "the driver's functions"},
    Feature{"mma.h", "tensor cores"},
};
// But these of them it has.
constexpr std::string_view kHeaders[] = {
    "cooperative_groups.h",
    "cooperative_groups/reduce.h",
    "cooperative_groups/scan.h",
    "cooperative_groups/memcpy_async.h",
    "cuda/annotated_ptr",
    "cuda/atomic",
    "cuda/barrier",
    "cuda/cmath",
    "cuda/functional",
    "cuda/pipeline",
    "cub/cub.cuh",
    "cub/block/block_load.cuh",
    "cub/block/block_reduce.cuh",
    "cub/block/block_scan.cuh",
    "cub/block/block_store.cuh",
    "cub/warp/warp_reduce.cuh",
    "cub/warp/warp_scan.cuh"};
// Of C++'s own, what has no __device__.
constexpr std::string_view kOfHost[] = {
    "accumulate", "cerr",       "clamp", "copy",        "cout",        "deque",      "endl",
    "fill",       "function",   "list",  "make_shared", "make_unique", "map",        "max",
    "min",        "shared_ptr", "sort",  "string",      "to_string",   "unique_ptr", "vector"};
// And what is no calculation.
constexpr std::string_view kNotOfCudaStd[] = {"atomic", "barrier", "chrono", "latch", "semaphore"};
constexpr std::array kMissingWords{
    Feature{"clock64", "clock64(): there is no clock"},
    Feature{"__trap", "__trap()"},
    Feature{"tex1Dfetch", "tex1Dfetch(): there are no textures"},
    Feature{"cudaTextureObject_t", "cudaTextureObject_t: there are no textures"},
};

// What a kernel says of its launches, and what looks whether a launch is like that.
constexpr std::pair<std::string_view, const char*> kPromises[] = {
    {"__launch_bounds__", "check_launch_bounds({{__FILE__, __LINE__}}, {})"},
    {"__cluster_dims__", "check_cluster<{}>({{__FILE__, __LINE__}})"}};

struct Token {
  enum class Kind { blank, word, literal, mark, directive };
  Kind kind;
  std::string text;
  int line;
  bool in_directive;  ///< also what a macro stands for: #define NAME this
  bool after_blank;

  bool is(std::string_view other) const { return kind != Kind::literal && text == other; }
  bool is_blank() const { return kind == Kind::blank; }
  bool opens() const { return is("(") || is("[") || is("{"); }
  bool closes() const { return is(")") || is("]") || is("}"); }
};
using Tokens = std::vector<Token>;

std::string error_at(const std::string& file, int line, std::string_view sentence) {
  return fmt::format("{}:{}: {}", file, line, sentence);
}

bool is_in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (c & 0x80) != 0;
}

/// "include" of "#include <header>", "unroll" of "unroll(2)".
std::string_view directive_name(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of("# \t"), text.size()));
  return text.substr(0, text.find_first_of(" \t\r\n<\"("));
}

/// Cuts a source into tokens; all their texts together are the source.
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
      throw std::runtime_error(error_at(file_, line, "this literal or comment has no end"));
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
    if (c == '"' || c == '\'') return {literal, quoted()};
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

  std::size_t quoted() const {
    for (std::size_t i = 1; i < rest_.size() && rest_[i] != '\n'; ++i) {
      if (rest_[i] == rest_[0]) return i + 1;
      if (rest_[i] == '\\') ++i;
    }
    throw Endless();
  }

  std::string_view rest_;
  const std::string& file_;
};

/// The code of the tokens in [begin, end), on one line.
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

/// Where the bracket closes that opens at `open`; the number of tokens if it does not. A < is a
/// bracket if it is that one, or inside it and in no other bracket.
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

class Rewriter {
 public:
  Rewriter(std::string_view source, const std::string& file)
      : file_(file), tokens_(Tokenizer(source, file).run()) {}

  std::string run() {
    const Functions functions(tokens_, file_);
    functions.check();
    for (const std::size_t i : functions.inlined()) tokens_[i].text += " RMSNORM_INLINED";
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (token.kind == Token::Kind::directive) directive(i);
      if (token.is("<<<")) launch(i);
      if (token.is("__shared__")) shared(i);
      if (token.is("printf")) print(i);
      if (token.is("cudaLaunchKernel") || token.is("cudaLaunchCooperativeKernel")) drop_cast(i);
      for (const Feature& feature : kMissingWords) {
        if (token.is(feature.word)) throw missing(token, std::string(feature.name));
      }
      if (token.is("__constant__")) constant(i);
      if (token.is("__device__") || token.is("__constant__")) device_variable(i);
      if (token.is("{")) constants_.emplace_back();
      if (token.is("}") && constants_.size() > 1) constants_.pop_back();
      if (token.is("asm") || token.is("__asm__") || token.is("__asm")) {
        assembly(i);
      }
    }
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      for (const auto& [keyword, check] : kPromises) {
        if (tokens_[i].is(keyword) && !tokens_[i].in_directive) promise(i, check);
      }
    }
    std::string text;
    for (const Token& token : tokens_) text += token.text;
    return text;
  }

 private:
  /// Translates the pragma to unroll a loop, drops others for nvcc, and refuses the headers of what
  /// is missing.
  void directive(std::size_t at) {
    std::string& text = tokens_[at].text;
    const std::string_view name = directive_name(text);
    const std::size_t name_end = text.find(name) + name.size();
    if (name == "pragma") {
      const std::string_view pragma = directive_name(std::string_view(text).substr(name_end));
      const std::size_t end = text.find(pragma, name_end) + pragma.size();
      if (pragma == "unroll" && text.find_first_not_of(" \t\r", end) == text.npos) {
        text = "#pragma GCC unroll 16";  // loops of a known length; all of it, up to 16
      } else if (pragma == "unroll" || pragma.starts_with("nv_")) {
        std::erase_if(text, [](char c) { return c != '\n'; });
      }
    } else if (name == "include") {
      const std::size_t open = std::min(text.find_first_of("<\"", name_end), text.size());
      include(tokens_[at], open, text.find_first_of(">\"", open + 1));
    }
  }

  /// <cuda/std/X> is <X>.
  void include(Token& token, std::size_t open, std::size_t close) const {
    if (close == std::string::npos) return;
    const std::string header = token.text.substr(open + 1, close - open - 1);
    const auto is_one_of = [](const auto& names, std::string_view name) {
      return std::find(std::begin(names), std::end(names), name) != std::end(names);
    };
    const std::string std = "cuda/std/";
    if (header.starts_with(std) && !is_one_of(kNotOfCudaStd, header.substr(std.size()))) {
      token.text.erase(open + 1, std.size());
      return;
    }
    for (const Feature& feature : kMissingHeaders) {
      if (!header.starts_with(feature.word) || is_one_of(kHeaders, header)) continue;
      const std::string name = token.text.substr(open, close - open + 1);
      throw missing(token, fmt::format("{} ({})", name, feature.name));
    }
  }

  /// The promise becomes a kernel's first statement, which holds the launch against it.
  void promise(std::size_t keyword, const char* check) {
    std::size_t open = keyword + 1;
    while (open < tokens_.size() && tokens_[open].is_blank()) ++open;
    const std::size_t close = open < tokens_.size() ? group_end(tokens_, open) : open;
    for (std::size_t i = close; i < tokens_.size() && !tokens_[i].is(";"); ++i) {
      if (tokens_[i].is("{")) {
        tokens_[i].text += " ::rmsnorm::cpu_device::" +
                           fmt::format(fmt::runtime(check), joined(tokens_, open + 1, close)) + ";";
        return;
      }
      if (tokens_[i].opens()) i = group_end(tokens_, i);
    }
  }

  /// asm("instruction; instruction;" : outputs : inputs : what changes) becomes their C++.
  void assembly(std::size_t keyword) {
    std::size_t open = keyword;
    while (open < tokens_.size() && !tokens_[open].is("(")) ++open;
    const std::size_t end = open < tokens_.size() ? group_end(tokens_, open) : open;
    if (end >= tokens_.size()) throw error(tokens_[keyword], "this asm has no end");
    int section = 0;  // between the colons
    std::string text;
    std::vector<std::string> operands;
    for (std::size_t i = open + 1; i < end; ++i) {
      if (tokens_[i].is(":")) ++section;
      if (tokens_[i].is("::")) section += 2;
      if (tokens_[i].kind == Token::Kind::literal && section == 0) {
        text += tokens_[i].text.substr(1, tokens_[i].text.size() - 2);
      }
      if (!tokens_[i].opens()) continue;
      const std::size_t close = group_end(tokens_, i);
      if (tokens_[i].is("(")) operands.push_back("(" + joined(tokens_, i + 1, close) + ")");
      i = close;
    }
    for (const char* const blank : {"\\n", "\\t", "\n", "\t"}) {
      for (std::size_t at; (at = text.find(blank)) != text.npos;) {
        text.replace(at, std::string_view(blank).size(), " ");
      }
    }
    std::string statements;
    while (!text.empty()) {
      const std::size_t stop = std::min(text.find(';'), text.size());
      std::string instruction = text.substr(0, stop);
      text.erase(0, stop + 1);
      instruction.erase(0, instruction.find_first_not_of(' '));
      if (instruction.empty()) continue;
      const std::string statement = rewrite_ptx(instruction, operands);
      const std::string name = instruction.substr(0, instruction.find(' '));
      if (statement.empty()) throw missing(tokens_[keyword], "PTX instruction " + name);
      statements += statement + " ";
    }
    for (std::size_t i = keyword; i <= end; ++i) {
      if (tokens_[i].text.find('\n') == std::string::npos) tokens_[i].text = "";
      tokens_[i].kind = Token::Kind::blank;
    }
    tokens_[keyword].text = "do { " + statements + "} while (false)";
  }

  /// A kernel's printf() is the device's, which does not show all of it.
  void print(std::size_t name) {
    std::size_t next = name + 1;
    while (next < tokens_.size() && tokens_[next].is_blank()) ++next;
    if (next >= tokens_.size() || !tokens_[next].is("(")) return;
    std::size_t first = name;
    if (first > 0 && tokens_[first - 1].is("::")) {
      first -= first > 1 && tokens_[first - 2].is("std") ? 2 : 1;
    }
    if (first > 0 && (tokens_[first - 1].is(".") || tokens_[first - 1].is(">") ||
                      tokens_[first - 1].kind == Token::Kind::word)) {
      return;  // somebody's member, or another namespace's
    }
    for (; first < name; ++first) tokens_[first].text.clear();
    tokens_[name].text = "::rmsnorm::cpu_device::print";
  }

  /// A kernel that is handed to the runtime as a void* is handed as what it is.
  void drop_cast(std::size_t function) {
    std::size_t first = function + 1;
    while (first < tokens_.size() && (tokens_[first].is_blank() || tokens_[first].is("("))) ++first;
    if (tokens_[first - 1].is("(") && !tokens_[first].is("reinterpret_cast")) --first;
    for (std::size_t end = first + 1; end < std::min(first + 10, tokens_.size()); ++end) {
      std::string cast = joined(tokens_, first, end);
      std::erase(cast, ' ');
      if (cast != "(void*)" && cast != "(constvoid*)" && cast != "reinterpret_cast<void*>" &&
          cast != "reinterpret_cast<constvoid*>") {
        continue;
      }
      for (; first < end; ++first) tokens_[first].text = tokens_[first].is("\n") ? "\n" : "";
      return;
    }
  }

  /// The first token of the name, with its namespaces and template arguments, that ends before
  /// `end`; `end` if it is no name.
  std::size_t name_before(std::size_t end) const {
    std::size_t first = end;
    for (std::size_t i = end;;) {
      const auto back = [&] {
        do --i;
        while (i > 0 && tokens_[i].is_blank());
      };
      if (i == 0) return first;
      back();
      if (tokens_[i].is(">")) {  // the template's arguments
        int brackets = 0;
        for (int depth = 1; depth > 0 && i > 0;) {
          --i;
          if (tokens_[i].is(";")) return end;
          brackets += tokens_[i].closes() ? 1 : tokens_[i].opens() ? -1 : 0;
          if (brackets == 0) depth += tokens_[i].is(">") ? 1 : tokens_[i].is("<") ? -1 : 0;
        }
        back();
      }
      const bool is_name = tokens_[i].kind == Token::Kind::word && !tokens_[i].is("return");
      if (!is_name) return first;
      first = i;
      if (i == 0) return first;
      back();
      if (tokens_[i].is(".") || tokens_[i].is(">") || tokens_[i].is("*")) return end;  // no name
      if (!tokens_[i].is("::")) return first;
      first = i;
    }
  }

  /// kernel<<<grid, block>>>(x) becomes RMSNORM_KERNEL(kernel) ->*Launch(grid, block)(x). If it is
  /// not a name that stands there, it need not be understood: a call binds tighter than ->*.
  void launch(std::size_t open) {
    for (std::size_t i = open + 1; i < tokens_.size(); ++i) {
      const bool leaves_macro = tokens_[open].in_directive && !tokens_[i].in_directive;
      if (leaves_macro || tokens_[i].is("<<<") || tokens_[i].is(";") || tokens_[i].closes()) break;
      if (tokens_[i].opens()) i = group_end(tokens_, i);
      std::size_t end = i;
      while (end < tokens_.size() && tokens_[end].is(">")) ++end;
      if (end - i >= 3) {  // the last three: others before them close templates
        const std::size_t name = name_before(open);
        tokens_[open].text = " ->*::rmsnorm::cpu_device::Launch(";
        if (name != open) {
          tokens_[name].text.insert(0, "RMSNORM_KERNEL(");
          tokens_[open].text.insert(0, ")");
        }
        tokens_[end - 3].text = ")";
        tokens_[end - 2].text = tokens_[end - 1].text = "";
        return;
      }
      if (end > i) i = end - 1;
    }
    throw error(tokens_[open], "this <<< has no >>>");
  }

  /// Of constants there is room for so many bytes; nobody knows of those in braces that are closed.
  void constant(std::size_t keyword) {
    const auto ends = [&](std::size_t i) {
      return tokens_[i].in_directive || tokens_[i].is("=") || tokens_[i].is("{") ||
             tokens_[i].is("[") || tokens_[i].is(";");
    };
    std::size_t name = keyword;  // the last word in front of the bounds or the value
    std::size_t i = keyword + 1;
    for (; i < tokens_.size() && !ends(i); ++i) {
      if (tokens_[i].is("(") || tokens_[i].is("<")) i = group_end(tokens_, i);
      if (i < tokens_.size() && tokens_[i].kind == Token::Kind::word) name = i;
    }
    while (i < tokens_.size() && !tokens_[i].is(";")) {
      i = tokens_[i].opens() ? group_end(tokens_, i) + 1 : i + 1;
    }
    const std::size_t before = keyword > 1 && tokens_[keyword - 1].is_blank() ? keyword - 2 : 0;
    if (i >= tokens_.size() || tokens_[i].in_directive || tokens_[before].is("extern")) return;
    constants_.back().push_back(tokens_[name].text);
    std::string sum = "0";
    for (const auto& of_scope : constants_) {
      for (const std::string& constant : of_scope) sum += fmt::format(" + sizeof({})", constant);
    }
    Token check = tokens_[i];
    check.kind = Token::Kind::blank;
    check.text = fmt::format(
        " static_assert({} <= 65536, \"a GPU has 65536 bytes for __constant__ variables\");", sum);
    tokens_.insert(tokens_.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(check));
  }

  /// A variable of the device that can change gets a section of the program where the watcher
  /// knows it. (A template's cannot have one.)
  void device_variable(std::size_t keyword) {
    std::size_t first = keyword;
    while (first > 0 && !tokens_[first - 1].is(";") && !tokens_[first - 1].closes() &&
           !tokens_[first - 1].is("{") && tokens_[first - 1].kind != Token::Kind::directive) {
      --first;
    }
    int words = 0;
    bool is_constant = false;
    for (std::size_t i = first; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (i >= keyword && token.in_directive) return;
      if (token.is("template") || token.is("operator")) return;
      if (token.is("const") || token.is("constexpr")) is_constant = true;
      if (token.is("*")) is_constant = false;
      words += token.kind == Token::Kind::word ? 1 : 0;
      if (token.is("<")) i = group_end(tokens_, i);
      if (token.is("alignas") || token.is("__align__")) i = group_end(tokens_, i + 1);
      if (token.is("(") || token.closes() || i >= tokens_.size()) return;
      if (token.is("=") || token.is(";") || token.is("[") || token.is("{")) break;
    }
    constexpr int kAtLeast = 3;  // __device__ TYPE NAME
    if (words < kAtLeast || is_constant) return;
    tokens_[keyword].text = "__attribute__((section(\"rmsnorm_device\")))";
  }

  /// A declaration of __shared__ variables becomes one of references; with extern, of a pointer.
  void shared(std::size_t keyword) {
    const auto ends_statement = [](const Token& token) {
      return token.in_directive || token.is(";") || token.is("{") || token.is("}") || token.is(":");
    };
    std::size_t first = keyword;
    while (first > 0 && !ends_statement(tokens_[first - 1])) --first;
    while (tokens_[first].is_blank()) ++first;

    Tokens code;  // without blanks; what is in brackets is one token
    std::size_t i = first;
    for (; i < tokens_.size() && !tokens_[i].is(";"); ++i) {
      if (tokens_[i].is_blank()) continue;
      code.push_back(tokens_[i]);
      if (!tokens_[i].opens() && !tokens_[i].is("<")) continue;
      const std::size_t end = group_end(tokens_, i);
      if (end == tokens_.size()) throw unreadable(tokens_[i]);
      std::string inside = joined(tokens_, i + 1, end);
      // A bound becomes part of a template argument, which a bare > would end.
      if (code.back().is("[") && inside.find('>') != inside.npos) inside = "(" + inside + ")";
      code.back().text += inside + tokens_[end].text;
      i = end;
    }
    if (i == tokens_.size()) throw unreadable(tokens_[keyword]);

    const std::string text = declarations_or_semicolon(code);
    for (std::size_t k = first; k < i; ++k) {
      if (tokens_[k].in_directive) throw unreadable(tokens_[keyword]);
      if (!tokens_[k].is_blank() || tokens_[k].is(" ")) tokens_[k].text.clear();
    }
    tokens_[first].text = text;
  }

  /// The same, of what may go on in the next statement.
  std::string declarations_or_semicolon(const Tokens& code) {
    constexpr std::ptrdiff_t kAtLeast = 3;  // __shared__ TYPE NAME
    try {
      return declarations(code);
    } catch (const std::runtime_error&) {
      for (std::size_t k = kAtLeast; k < code.size(); ++k) {
        const Token& before = code[k - 1];
        const bool is_whole = before.kind == Token::Kind::word || before.text.ends_with(']');
        if (is_whole && code[k].line > before.line && code[k].kind == Token::Kind::word) {
          throw error(before, "there is no ; behind this __shared__ variable");
        }
      }
      throw;
    }
  }

  /// The C++ for a declaration, which is given without its semicolon.
  std::string declarations(const Tokens& code) {
    std::string text;
    std::string alignment;
    bool is_extern = false;
    Tokens base;         // the type that all variables share: "float" in "float *a, b"
    Tokens words;        // one variable's type and name
    std::string bounds;  // and its "[2][3]"
    const auto add_variable = [&] {
      const bool is_open = bounds.starts_with("[]");
      if (words.size() < 2 || words.back().kind != Token::Kind::word || is_open != is_extern) {
        throw unreadable(code[0]);
      }
      if (is_open) bounds.erase(0, 2);
      const std::string& name = words.back().text;
      std::string type = joined(words, 0, words.size() - 1) + (bounds.empty() ? "" : " ") + bounds;
      if (is_open) check_type(words.back(), type);
      if (!alignment.empty() && !is_open) {
        text += fmt::format(
            "{}struct alignas{} rmsnorm_aligned_{} {{}}", text.empty() ? "" : "; ", alignment,
            name);
        type += fmt::format(", alignof(rmsnorm_aligned_{})", name);
      }
      const char* const form =
          is_open ? "auto* const {0} = ::rmsnorm::cpu_device::dynamic_shared<{1}>(\"{0}\")"
                  : "static constinit ::rmsnorm::cpu_device::SharedVariable rmsnorm_shared_{0}; "
                    "auto& {0} = ::rmsnorm::cpu_device::shared<{1}>(rmsnorm_shared_{0}, \"{0}\")";
      text += (text.empty() ? "" : "; ") + fmt::format(fmt::runtime(form), name, type);
    };

    for (const Token& token : code) {
      const bool has_type = !words.empty();
      const char bracket = token.text[0];
      if (token.is("extern")) {
        is_extern = true;
      } else if (token.is(",")) {
        add_variable();
        if (base.empty()) {
          const auto is_pointer = [](const Token& word) { return word.is("*") || word.is("&"); };
          base.assign(words.begin(), std::find_if(words.begin(), words.end() - 1, is_pointer));
        }
        words = base;
        bounds.clear();
      } else if (bracket == '{' && has_type && (words[0].is("union") || words[0].is("struct"))) {
        // The type moves in front, with a name.
        Token name = words[0];
        name.text = words.size() > 1 ? words[1].text : fmt::format("rmsnorm_type_{}", token.line);
        text += fmt::format("{} {} {}", words[0].text, name.text, token.text);
        words = {name};
      } else if (token.is("=") || (bracket == '{' && words.size() > 1)) {
        throw error(token, "CUDA does not allow an initialiser on a __shared__ variable");
      } else if (
          bracket == '(' && has_type &&
          (words.back().is("alignas") || words.back().is("__align__"))) {
        alignment = token.text;  // a number, or a type that has it
        words.pop_back();
      } else if (has_type && (bracket == '<' || (bracket == '(' && words.back().is("decltype")))) {
        words.back().text += token.text;
      } else if (bracket == '[') {
        if (!token.text.starts_with("[[")) bounds += token.text;  // [[attributes]] are dropped
      } else if (bracket == '(' || bracket == '{' || bracket == '<') {
        throw unreadable(token);
      } else if (!token.is("__shared__") && !token.is("static")) {
        words.push_back(token);
      }
    }
    add_variable();
    return text;
  }

  /// All dynamic shared arrays of one name are one variable.
  void check_type(const Token& name, const std::string& type) {
    const auto [known, is_new] = dynamic_.try_emplace(name.text, type, name.line);
    const auto& [other, line] = known->second;
    if (is_new || other == type) return;
    throw error(
        name,
        fmt::format(
            "{} is an array of {} in line {}: give this one another name, or one type to both",
            name.text, other, line));
  }

  std::runtime_error error(const Token& token, std::string_view sentence) const {
    return std::runtime_error(error_at(file_, token.line, sentence));
  }
  std::runtime_error unreadable(const Token& token) const {
    return error(
        token, "this is neither __shared__ TYPE NAME[BOUND]; nor extern __shared__ TYPE NAME[];");
  }
  MissingFeature missing(const Token& token, const std::string& what) const {
    return MissingFeature(error_at(file_, token.line, "the CPU device has no " + what));
  }

  const std::string& file_;
  Tokens tokens_;
  std::map<std::string, std::pair<std::string, int>> dynamic_;  // each array's type and line
  std::vector<std::vector<std::string>> constants_{1};          // of each brace that is open
};

}  // namespace

std::string rewrite(std::string_view source, const std::string& file) {
  const std::string_view byte_order_mark = "\xef\xbb\xbf";  // some editors put it in front
  if (source.starts_with(byte_order_mark)) source.remove_prefix(byte_order_mark.size());
  return fmt::format("#line 1 {}\n", quoted(file)) + Rewriter(source, file).run();
}

std::string quoted(const std::string& text) {
  std::ostringstream literal;
  literal << std::quoted(text);
  return literal.str();
}

}  // namespace rmsnorm::cpu_device
