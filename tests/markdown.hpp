#pragma once
/// \file
/// As much of Markdown, as GitHub has it, as it takes to check the pages.

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace tests {

/// Something in a page and the line, from 1, where it stands or begins.
struct Found {
  std::size_t line;
  std::string text;
};

/// A fenced block of code.
struct Fence {
  std::size_t line;      ///< of the fence itself
  std::string language;  ///< the first word behind the fence
  std::vector<std::string> code;
};

/// What the page's links and images point to: [text](target), [name]: target, src="target",
/// srcset="target" and href="target". Code is left out.
std::vector<Found> links_of(const std::string& page);

/// The anchors that a page's headings have by GitHub's rules, and its <a id="..."> and name="...".
std::set<std::string> anchors_of(const std::string& page);

/// The page's fenced blocks.
std::vector<Fence> fences_of(const std::string& page);

/// The measured numbers with a unit of speed or time, GB/s, TB/s or us, that stand outside the
/// blocks between results:begin and results:end.
std::vector<Found> typed_results_of(const std::string& page);

/// Whether the code is a part of the source: its lines in one piece. Spaces at the ends of lines,
/// and a common indentation, make no difference.
bool occurs_in(const std::vector<std::string>& code, const std::vector<std::string>& source);

}  // namespace tests
