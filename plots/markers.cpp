#include "plots/markers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace rmsnorm::plots {
namespace {

namespace fs = std::filesystem;

/// The words of a line `<!-- results:WORDS... -->`; none if the line is no marker.
/// \throws std::runtime_error for markers that are not whole or of no known kind
std::vector<std::string> words_of_marker(const std::string& line) {
  constexpr std::string_view kOpening = "<!-- results:";
  constexpr std::string_view kClosing = "-->";
  std::istringstream trimmed(line);
  std::string inside;
  std::getline(trimmed >> std::ws, inside);
  if (!inside.starts_with(kOpening)) return {};
  inside.erase(inside.find_last_not_of(" \t\r") + 1);
  if (!inside.ends_with(kClosing)) throw std::runtime_error("the marker does not end with '-->'");
  std::istringstream between(
      inside.substr(kOpening.size(), inside.size() - kOpening.size() - kClosing.size()));
  const std::vector<std::string> words(std::istream_iterator<std::string>(between), {});
  const bool is_begin = !words.empty() && words[0] == "begin";
  if (!is_begin && words != std::vector<std::string>{"end"})
    throw std::runtime_error("a marker is 'results:begin KIND...' or 'results:end'");
  return words;
}

void add_if_file(std::vector<fs::path>& pages, const fs::path& file) {
  if (fs::is_regular_file(file)) pages.push_back(file);
}

}  // namespace

std::string with_blocks(
    const std::string& text, const std::string& name, const MakeBlock& make_block) {
  std::string result;
  std::size_t number = 0;
  std::size_t begin = 0;  // the line of a block that has no end yet
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string line = text.substr(at, end - at);
    at = end;
    ++number;
    try {
      const std::vector<std::string> words = words_of_marker(line);
      if (words.empty()) {
        if (begin == 0) result += line;  // what stands between markers is made anew
      } else if (words[0] == "begin") {
        if (begin != 0)
          throw std::runtime_error(fmt::format("results:begin inside the block of line {}", begin));
        begin = number;
        // Empty lines around the block: without them Markdown may take the table for part of the
        // comment.
        result += fmt::format("{}\n{}\n", line, make_block({words.begin() + 1, words.end()}));
      } else {
        if (begin == 0) throw std::runtime_error("results:end without results:begin");
        begin = 0;
        result += line;
      }
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(fmt::format("{}:{}: {}", name, number, error.what()));
    }
  }
  if (begin != 0) {
    throw std::runtime_error(fmt::format("{}:{}: results:begin without results:end", name, begin));
  }
  return result;
}

std::vector<fs::path> pages_below(const fs::path& root) {
  if (!fs::is_directory(root))
    throw std::runtime_error(fmt::format("{} is not a folder", root.string()));
  std::vector<fs::path> pages;
  add_if_file(pages, root / "README.md");
  add_if_file(pages, root / "library" / "README.md");
  if (fs::is_directory(root / "lessons")) {
    for (const auto& entry : fs::directory_iterator(root / "lessons"))
      add_if_file(pages, entry.path() / "README.md");
  }
  if (fs::is_directory(root / "docs")) {
    for (const auto& entry : fs::directory_iterator(root / "docs")) {
      if (entry.path().extension() == ".md") add_if_file(pages, entry.path());
    }
  }
  std::ranges::sort(pages);
  return pages;
}

}  // namespace rmsnorm::plots
