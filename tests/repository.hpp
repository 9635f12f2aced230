#pragma once
/// \file
/// The files of this repository, for the tests that read them.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tests {

/// The repository's top folder.
const std::filesystem::path& top();

/// Every file below the top whose extension is one of these, sorted. Hidden folders and those whose
/// names begin with "build" are left out, and the reader's own exercises.
std::vector<std::filesystem::path> files_with(const std::vector<std::string>& extensions);

/// The folders lessons/NN_*/, sorted.
std::vector<std::filesystem::path> lesson_folders();

/// The folders lessons/NAME/ of the projects, sorted.
std::vector<std::filesystem::path> project_folders();

/// The names of all exercises, those of the projects last.
std::vector<std::string> exercises();

/// The file that a reader of an exercise begins with.
std::filesystem::path given_file(const std::string& slug);

/// A file's lines, or a text's, without the newlines.
std::vector<std::string> lines_of(const std::filesystem::path& file);
std::vector<std::string> lines_in(std::string_view text);

/// How many characters a line of UTF-8 has.
std::size_t columns(std::string_view line);

}  // namespace tests
