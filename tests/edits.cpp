#include "tests/edits.hpp"

#include <algorithm>
#include <stdexcept>

#include "tests/repository.hpp"

namespace fs = std::filesystem;

namespace tests {
namespace {

Edit read_edit(const fs::path& file) {
  Edit edit{fs::relative(file, top()), {}};
  for (const std::string& line : lines_of(file)) {
    if (line.empty()) return edit;
    if (line.starts_with("  ") && !edit.head.empty()) {
      std::string& text = edit.head.back().second;
      text += (text.empty() ? "" : " ") + line.substr(2);
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == line.npos) throw std::runtime_error(file.string() + ": no entry: " + line);
    const std::size_t text = std::min(colon + 2, line.size());
    edit.head.emplace_back(line.substr(0, colon), line.substr(text));
  }
  throw std::runtime_error(file.string() + " has no edit behind its head");
}

/// The text with "FILE:LINE" for each name of a mark.
std::string with_places(std::string text, const Edit& edit) {
  const std::vector<std::string> lines = lines_of(top() / edit.file);
  for (const auto& [name, mark] :
       {std::pair("MISTAKE", "// <-- mistake"), std::pair("SEEN", "// <-- seen"),
        std::pair("OTHER", "// <-- other")}) {
    const std::size_t at = text.find(name);
    if (at == text.npos) continue;
    const auto has_mark = [&](const std::string& line) { return line.ends_with(mark); };
    if (std::count_if(lines.begin(), lines.end(), has_mark) != 1) {
      throw std::runtime_error(edit.file.string() + " has not one line with " + mark);
    }
    const auto line = std::find_if(lines.begin(), lines.end(), has_mark) - lines.begin() + 1;
    text.replace(at, std::string(name).size(), edit.file.string() + ":" + std::to_string(line));
  }
  return text;
}

}  // namespace

Entry entry_of(const Edit& edit, const std::string& name) {
  for (const auto& [key, text] : edit.head) {
    if (key != name && !key.starts_with(name + " on ")) continue;
    const std::string on = key == name ? "" : key.substr(name.size() + 4);
    return {on, with_places(text, edit), true};
  }
  return {};
}

std::vector<Edit> edits_in(const fs::path& folder) {
  std::vector<Edit> edits;
  for (const fs::directory_entry& file : fs::directory_iterator(top() / folder)) {
    if (file.path().extension() == ".edit") edits.push_back(read_edit(file));
  }
  std::sort(
      edits.begin(), edits.end(), [](const Edit& a, const Edit& b) { return a.file < b.file; });
  return edits;
}

}  // namespace tests
