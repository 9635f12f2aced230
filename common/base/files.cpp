#include "common/base/files.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace rmsnorm {

namespace fs = std::filesystem;

namespace {

/// What a path means where it is a symbolic link, also one that leads to nothing yet.
fs::path without_links(const fs::path& file) {
  if (fs::is_symlink(file) && !fs::exists(file)) return file.parent_path() / fs::read_symlink(file);
  return fs::weakly_canonical(file);
}

}  // namespace

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
  const auto check = [&](bool fine, const std::string& reason) {
    if (!fine) throw std::runtime_error(fmt::format("cannot write {}: {}", file.string(), reason));
  };
  const auto write_to = [&](const fs::path& target) {
    std::ofstream out(target, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    return !out.fail();
  };

  // A device or a pipe, as /dev/null, is written to and must stay what it is.
  std::error_code error;
  if (fs::exists(file, error) && !fs::is_regular_file(file) && !fs::is_directory(file)) {
    check(write_to(file), std::strerror(errno));
    return;
  }

  // A symbolic link stays as well: what it leads to is replaced.
  fs::path target;
  try {
    target = without_links(file);
  } catch (const fs::filesystem_error& reason) {
    check(false, reason.code().message());
  }
  fs::create_directories(target.parent_path(), error);
  fs::path temporary = target;
  temporary += ".partial";
  if (!write_to(temporary)) {
    const std::string reason = std::strerror(errno);
    fs::remove(temporary, error);
    check(false, reason);
  }
  fs::rename(temporary, target, error);
  if (error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    check(false, error.message());
  }
}

void require_writable(const fs::path& file) {
  std::error_code error;
  if (fs::is_regular_file(file, error)) return write_file(file, read_file(file));
  const bool is_new = !fs::exists(file, error);
  write_file(file, "");
  if (is_new) fs::remove(without_links(file), error);  // the file, not a link to it
}

}  // namespace rmsnorm
