#pragma once
/// \file
/// The code on the pages.

#include <cstddef>
#include <string>
#include <vector>

namespace tests {

/// A fenced block of code.
struct Fence {
  std::size_t line;      ///< of the fence itself, from 1
  std::string language;  ///< the first word behind the fence
  std::vector<std::string> code;
};

/// The page's fenced blocks.
std::vector<Fence> fences_of(const std::string& page);

}  // namespace tests
