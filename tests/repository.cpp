#include "tests/repository.hpp"

#include <algorithm>
#include <cctype>

#include "common/base/files.hpp"

namespace tests {

namespace fs = std::filesystem;

const fs::path& top() {
  static const fs::path folder = RMSNORM_SOURCE_DIR;
  return folder;
}

std::vector<fs::path> files_with(const std::vector<std::string>& extensions) {
  std::vector<fs::path> files;
  for (auto entry = fs::recursive_directory_iterator(top()); entry != end(entry); ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory()) {
      const bool is_readers = entry->path() == top() / "exercises";
      if (is_readers || name.starts_with(".") || name.starts_with("build")) {
        entry.disable_recursion_pending();
      }
    } else if (std::count(extensions.begin(), extensions.end(), entry->path().extension()) > 0) {
      files.push_back(entry->path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

namespace {

bool has_number(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return name.size() > 3 && std::isdigit(name[0]) != 0 && std::isdigit(name[1]) != 0 &&
         name[2] == '_';
}

/// The folders in lessons/ whose names have a number in front, or have none, sorted.
std::vector<fs::path> folders_of_lessons(bool with_number) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(top() / "lessons")) {
    if (entry.is_directory() && has_number(entry.path()) == with_number) {
      folders.push_back(entry.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace

std::vector<fs::path> lesson_folders() {
  return folders_of_lessons(true);
}

std::vector<fs::path> project_folders() {
  return folders_of_lessons(false);
}

std::vector<std::string> exercises() {
  std::vector<std::string> names;
  for (const auto& folders : {lesson_folders(), project_folders()}) {
    for (const fs::path& folder : folders) {
      if (fs::exists(folder / "goals.cpp")) names.push_back(folder.filename());
    }
  }
  return names;
}

fs::path given_file(const std::string& slug) {
  const fs::path own = top() / "lessons" / slug / "exercise.cu";
  return fs::exists(own) ? own : RMSNORM_EXERCISES_DIR / fs::path(slug + ".cu");
}

std::vector<std::string> lines_of(const fs::path& file) {
  return lines_in(rmsnorm::read_file(file));
}

std::vector<std::string> lines_in(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::size_t columns(std::string_view line) {
  const auto begins_a_character = [](char byte) { return (byte & 0xc0) != 0x80; };
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), begins_a_character));
}

}  // namespace tests
