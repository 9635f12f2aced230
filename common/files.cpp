#include "common/files.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace rmsnorm {

namespace fs = std::filesystem;

std::string read_file(const fs::path& file) {
  if (fs::is_directory(file)) {
    throw std::runtime_error(fmt::format("cannot read {}: it is a folder", file.string()));
  }
  std::ifstream in(file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad()) {
    throw std::runtime_error(
        fmt::format("cannot read {}: {}", file.string(), std::strerror(errno)));
  }
  return text;
}

void write_file(const fs::path& file, std::string_view text) {
  std::error_code error;
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), error);
  fs::path temporary = file;
  temporary += ".partial";
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) {
    const std::string reason = std::strerror(errno);
    fs::remove(temporary, error);
    throw std::runtime_error(fmt::format("cannot write {}: {}", file.string(), reason));
  }
  fs::rename(temporary, file, error);
  if (error) {
    fs::remove(temporary);
    throw std::runtime_error(fmt::format("cannot write {}: {}", file.string(), error.message()));
  }
}

}  // namespace rmsnorm
