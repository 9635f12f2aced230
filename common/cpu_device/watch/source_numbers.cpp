/// \file
/// Numbers in the reader's files.

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "common/cpu_device/interface/coverage.hpp"
#include "common/cpu_device/runtime/source_lines.hpp"

namespace rmsnorm {
namespace {

/// Adds the numbers of a text that are no part of a word or of a fraction, and in no comment.
void add_numbers(const std::string& text, std::set<int>& numbers) {
  constexpr int kMostDigits = 6;
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '\'';
  };
  for (std::size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "//") == 0) {
      i = std::min(text.find('\n', i), text.size());
    } else if (!is_word(text[i])) {
      ++i;
    } else {
      std::string word;
      for (; i < text.size() && is_word(text[i]); ++i) {
        if (text[i] != '\'') word += text[i];
      }
      const bool is_number = word.find_first_not_of("0123456789") == word.npos;
      if (is_number && !word.empty() && word.size() <= kMostDigits) numbers.insert(std::stoi(word));
    }
  }
}

}  // namespace

std::vector<int> numbers_in_sources(const std::vector<std::size_t>& places) {
  std::set<std::string> files;
  for (const std::size_t place : places) {
    for (const cpu_device::SourceLine& line : cpu_device::user_lines(&__executable_start + place)) {
      if (!line.file.empty() && !line.file.starts_with("/usr/")) files.insert(line.file);
    }
  }
  std::set<int> numbers;
  for (const std::string& name : files) {
    std::ifstream file = cpu_device::open_source(name);
    add_numbers({std::istreambuf_iterator<char>(file), {}}, numbers);
  }
  return {numbers.upper_bound(2), numbers.end()};
}

}  // namespace rmsnorm
