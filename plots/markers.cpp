#include "plots/markers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace rmsnorm::plots {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOpening = "<!-- results:";
constexpr std::string_view kClosing = "-->";

/// The words of a marker, "begin" or "end" first; nothing if the line is no marker.
std::optional<std::vector<std::string>> words_of_marker(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos || !line.substr(begin).starts_with(kOpening))
    return std::nullopt;
  const std::size_t end = line.find_last_not_of(" \t\r\n") + 1;
  std::string_view inside = line.substr(begin, end - begin);
  if (!inside.ends_with(kClosing)) throw std::runtime_error("the marker does not end with '-->'");
  inside.remove_prefix(kOpening.size());
  inside.remove_suffix(kClosing.size());
  std::istringstream words{std::string(inside)};
  return std::vector<std::string>(std::istream_iterator<std::string>(words), {});
}

/// Goes through a page line by line.
class Rewriter {
 public:
  explicit Rewriter(const MakeBlock& make_block) : make_block_(make_block) {}

  /// `line` includes its newline, if it has one.
  void add(std::string_view line, std::size_t number) {
    const auto words = words_of_marker(line);
    if (!words) {
      if (!begin_line_) text_ += line;  // what stands between markers is made anew
      return;
    }
    const std::string kind = words->empty() ? "" : words->front();
    if (kind == "begin") {
      begin(line, number, {words->begin() + 1, words->end()});
    } else if (kind == "end" && words->size() == 1) {
      end(line);
    } else {
      throw std::runtime_error("a marker is 'results:begin KIND...' or 'results:end'");
    }
  }

  /// The line of a block that has no end yet.
  std::optional<std::size_t> open_block() const { return begin_line_; }
  const std::string& text() const { return text_; }

 private:
  void begin(std::string_view line, std::size_t number, const std::vector<std::string>& words) {
    if (begin_line_) {
      throw std::runtime_error(
          fmt::format("results:begin inside the block of line {}", *begin_line_));
    }
    begin_line_ = number;
    // Empty lines around the block: without them Markdown may take the table for part of the
    // comment.
    text_ += fmt::format("{}\n{}\n", line, make_block_(words));
  }

  void end(std::string_view line) {
    if (!begin_line_) throw std::runtime_error("results:end without results:begin");
    begin_line_.reset();
    text_ += line;
  }

  const MakeBlock& make_block_;
  std::string text_;
  std::optional<std::size_t> begin_line_;
};

void add_if_file(std::vector<fs::path>& pages, const fs::path& file) {
  if (fs::is_regular_file(file)) pages.push_back(file);
}

}  // namespace

std::string with_blocks(
    const std::string& text, const std::string& name, const MakeBlock& make_block) {
  Rewriter rewriter(make_block);
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    ++number;
    try {
      rewriter.add(std::string_view(text).substr(at, end - at), number);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(fmt::format("{}:{}: {}", name, number, error.what()));
    }
    at = end;
  }
  if (const auto line = rewriter.open_block()) {
    throw std::runtime_error(fmt::format("{}:{}: results:begin without results:end", name, *line));
  }
  return rewriter.text();
}

std::vector<fs::path> pages_below(const fs::path& root) {
  if (!fs::is_directory(root))
    throw std::runtime_error(fmt::format("{} is not a folder", root.string()));
  std::vector<fs::path> pages;
  add_if_file(pages, root / "README.md");
  if (fs::is_directory(root / "lessons")) {
    for (const auto& entry : fs::directory_iterator(root / "lessons"))
      add_if_file(pages, entry.path() / "README.md");
  }
  if (fs::is_directory(root / "docs")) {
    for (const auto& entry : fs::directory_iterator(root / "docs")) {
      if (entry.path().extension() == ".md") add_if_file(pages, entry.path());
    }
  }
  std::sort(pages.begin(), pages.end());
  return pages;
}

}  // namespace rmsnorm::plots
