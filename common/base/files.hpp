#pragma once
/// \file
/// Whole files, in and out.

#include <filesystem>
#include <string>
#include <string_view>

namespace rmsnorm {

/// The content of a file. \throws std::runtime_error with the file and the reason.
std::string read_file(const std::filesystem::path& file);

/// Replaces a file's content, and makes its folder if there is none. The text goes to a temporary
/// file in the same folder, which is then renamed: nobody ever sees half of it. (A device, as
/// /dev/null, is written to; a symbolic link is followed.)
/// \throws std::runtime_error with the file and the reason.
void write_file(const std::filesystem::path& file, std::string_view text);

/// Finds out, before long work, whether write_file() will work afterwards. What the file holds is
/// kept; if there is none, none is left behind. \throws std::runtime_error as write_file does.
void require_writable(const std::filesystem::path& file);

}  // namespace rmsnorm
