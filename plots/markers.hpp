#pragma once
/// \file
/// The markers in the pages, between which the tables stand.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace rmsnorm::plots {

/// Makes the text between two markers from the words of the first.
using MakeBlock = std::function<std::string(const std::vector<std::string>& words)>;

/// The page's text, with everything between a line `<!-- results:begin WORDS... -->` and the next
/// line `<!-- results:end -->` made anew. The rest stays as it is, to the byte.
/// \throws std::runtime_error with `name` and the line, for markers that are not in pairs and for
/// whatever `make_block` throws.
std::string with_blocks(
    const std::string& text, const std::string& name, const MakeBlock& make_block);

/// The pages that may have markers, sorted: README.md, lessons/*/README.md, docs/*.md and
/// library/README.md.
/// \throws std::runtime_error if `root` is not a folder
std::vector<std::filesystem::path> pages_below(const std::filesystem::path& root);

}  // namespace rmsnorm::plots
