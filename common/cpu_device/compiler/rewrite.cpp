#include "common/cpu_device/compiler/rewrite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "common/cpu_device/compiler/features.hpp"
#include "common/cpu_device/compiler/functions.hpp"
#include "common/cpu_device/compiler/rewrite_ptx.hpp"
#include "common/cpu_device/compiler/tokens.hpp"

// In two steps: the source is cut into tokens, then some tokens get another text. Blanks and
// comments are tokens that keep theirs, and so no line moves.
namespace rmsnorm::cpu_device {
namespace {

// What a kernel says of its launches, and what looks whether a launch is like that.
constexpr std::pair<std::string_view, const char*> kPromises[] = {
    {"__launch_bounds__", "check_launch_bounds({{__FILE__, __LINE__}}, {})"},
    {"__cluster_dims__", "check_cluster<{}>({{__FILE__, __LINE__}})"}};

class Rewriter {
 public:
  Rewriter(std::string_view source, const std::string& file, const Include& include)
      : file_(file), include_(include), tokens_(tokens_of(source, file)) {}

  std::string run() {
    check_arrays(tokens_, file_);
    for (const std::size_t i : inlined_functions(tokens_)) tokens_[i].text += " RMSNORM_INLINED";
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (token.kind == Token::Kind::directive) directive(i);
      if (token.is("<<<")) launch(i);
      if (token.is("__shared__")) shared(i);
      if (token.is("printf")) print(i);
      if (token.is("cudaLaunchKernel") || token.is("cudaLaunchCooperativeKernel")) drop_cast(i);
      const std::string name(token.kind == Token::Kind::word ? missing_word(token.text) : "");
      if (!name.empty()) tokens_[i].text.insert(0, refused(token, name));
      if (token.is("__constant__")) constant(i);
      if (token.is("__device__") || token.is("__constant__")) device_variable(i);
      if (token.is("{")) constants_.emplace_back();
      if (token.is("}") && constants_.size() > 1) constants_.pop_back();
      if (token.is("asm") || token.is("__asm__") || token.is("__asm")) assembly(i);
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
    const std::string name = token.text.substr(open, close - open + 1);
    const std::string header = name.substr(1, name.size() - 2);
    const std::string std = "cuda/std/";
    if (header.starts_with(std) && is_in_std(header.substr(std.size()))) {
      token.text.erase(open + 1, std.size());
    } else if (const std::string_view feature = missing_header(header); !feature.empty()) {
      token.text = refused(token, fmt::format("{} ({})", name, feature));
    } else if (include_) {
      token.text.replace(open, name.size(), include_(name));
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
    for (std::size_t at; (at = text.find("%=")) != text.npos;) text.replace(at, 2, "");
    std::string statements;
    std::string labels;  // of these braces alone: the same asm may come several times
    while (!text.empty()) {
      const std::size_t stop = std::min(text.find(';'), text.size());
      std::string instruction = text.substr(0, stop);
      text.erase(0, stop + 1);
      instruction.erase(0, instruction.find_first_not_of(' '));
      if (instruction.empty()) continue;
      const std::string statement = rewrite_ptx(instruction, operands);
      const std::string name = instruction.substr(0, instruction.find(' '));
      if (statement.empty()) statements += refused(tokens_[keyword], "PTX instruction " + name);
      statements += statement + " ";
      if (const std::string label = label_of(instruction); !label.empty()) {
        labels += (labels.empty() ? "__label__ " : ", ") + label;
      }
    }
    for (std::size_t i = keyword; i <= end; ++i) {
      if (tokens_[i].text.find('\n') == std::string::npos) tokens_[i].text = "";
      tokens_[i].kind = Token::Kind::blank;
    }
    if (!labels.empty()) labels += "; ";
    tokens_[keyword].text = "do { " + labels + statements + "} while (false)";
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

    names_.clear();
    is_outside_ = is_outside_of_functions(tokens_, keyword);
    const std::string text = declarations_or_semicolon(code);
    for (const std::string& name : names_) call_instead(name, i);
    for (std::size_t k = first; k < i; ++k) {
      if (tokens_[k].in_directive) throw unreadable(tokens_[keyword]);
      if (!tokens_[k].is_blank() || tokens_[k].is(" ")) tokens_[k].text.clear();
    }
    tokens_[first].text = text;
  }

  /// A variable outside of functions is each block's own: its name becomes a call that finds it.
  void call_instead(const std::string& name, std::size_t behind) {
    for (std::size_t i = behind; i < tokens_.size(); ++i) {
      if (tokens_[i].kind != Token::Kind::word || tokens_[i].text != name) continue;
      const Token& before = tokens_[tokens_[i - 1].is_blank() ? i - 2 : i - 1];
      if (before.kind == Token::Kind::word && !before.is("return"))  // another declaration
        throw error(tokens_[i], name + " is a __shared__ variable: give this another name");
      const bool is_member = before.is(".") || joined(tokens_, i - 2, i) == "->";
      if (!is_member) tokens_[i].text = "rmsnorm_get_" + name + "()";
    }
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
      if (is_outside_ && !is_open) {
        names_.push_back(name);
        text += fmt::format(
            "{0}static constinit ::rmsnorm::cpu_device::SharedVariable rmsnorm_shared_{1}; inline "
            "auto& rmsnorm_get_{1}() {{ return ::rmsnorm::cpu_device::shared<{2}>("
            "rmsnorm_shared_{1}, \"{1}\"); }} static_assert(true)",
            text.empty() ? "" : "; ", name, type);
        return;
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
  /// In a program, what is missing is an error only where the preprocessor does not leave it out.
  std::string refused(const Token& token, const std::string& what) const {
    const std::string sentence = "the CPU device has no " + what;
    if (!include_) throw MissingFeature(error_at(file_, token.line, sentence));
    return "_Pragma(" + quoted("GCC error " + quoted("#error " + sentence)) + ") ";
  }

  const std::string& file_;
  const Include& include_;
  Tokens tokens_;
  std::vector<std::string> names_;  // of the variables in the declaration, if it is outside ...
  bool is_outside_ = false;         // ... of all functions
  std::map<std::string, std::pair<std::string, int>> dynamic_;  // each array's type and line
  std::vector<std::vector<std::string>> constants_{1};          // of each brace that is open
};

}  // namespace

std::string rewrite(std::string_view source, const std::string& file, const Include& include) {
  const std::string_view byte_order_mark = "\xef\xbb\xbf";  // some editors put it in front
  if (source.starts_with(byte_order_mark)) source.remove_prefix(byte_order_mark.size());
  return "#line 1 " + quoted(file) + "\n" + Rewriter(source, file, include).run();
}

}  // namespace rmsnorm::cpu_device
