/// \file
/// The form of the sources.

#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/repository.hpp"

namespace fs = std::filesystem;
using namespace tests;

namespace {

constexpr int kMaxLines = 90;  // of a kernel
constexpr std::size_t kMaxColumns = 100;
constexpr std::size_t kMaxKernelColumns = 78;  // the pages show kernels in a column of about 80

/// The tag of a line "// [kernel]", or "".
std::string tag_of(const std::string& line) {
  static const std::regex kTag("\\s*// \\[(\\w+)\\]\\s*");
  std::smatch match;
  return std::regex_match(line, match, kTag) ? match[1].str() : "";
}

bool has(const std::string& tool) {
  return run({tool, "--version"}).exit_code == 0;
}

/// Runs a tool on files: it has to find nothing.
void check_with(std::vector<std::string> command, const std::vector<fs::path>& files) {
  command.insert(command.end(), files.begin(), files.end());
  const Finished finished = run(command);
  INFO(finished.out << finished.err);
  CHECK(finished.exit_code == 0);
}

}  // namespace

TEST_CASE("every source is formatted as .clang-format says") {
  // Each version breaks some lines in another way.
  if (run({"clang-format", "--version"}).out.find(" version 14.") == std::string::npos) {
    SKIP_TEST("the sources are formatted by clang-format 14, Debian 12's, which is not installed");
  }
  std::vector<fs::path> sources = files_with({".cpp", ".hpp", ".cu", ".cuh"});
  for (const std::string& slug : exercises()) sources.push_back(given_file(slug));
  REQUIRE(sources.size() > 40);
  check_with({"clang-format", "--dry-run", "-Werror"}, sources);
}

TEST_CASE("shellcheck finds nothing in the shell scripts") {
  std::vector<fs::path> scripts = files_with({".sh"});
  scripts.insert(scripts.end(), {top() / "rmsnorm", top() / ".ci" / "run"});
  for (const fs::path& script : scripts) {
    CAPTURE(script.string());
    REQUIRE(fs::is_regular_file(script));
    if (!lines_of(script).front().starts_with("#!")) continue;  // it is for another one to read
    CHECK((fs::status(script).permissions() & fs::perms::owner_exec) != fs::perms::none);
  }
  if (!has("shellcheck")) SKIP_TEST("shellcheck is not installed");
  check_with({"shellcheck"}, scripts);
}

TEST_CASE("every lesson has a kernel of 90 lines of 78 columns at most, and every tag its pair") {
  for (const fs::path& folder : lesson_folders()) {
    const fs::path file = folder / "rms_norm.cu";
    std::map<std::string, int> tags;
    std::string open_tag;
    int lines_of_kernel = 0;
    std::size_t number = 0;
    for (const std::string& line : lines_of(file)) {
      INFO(file.string() << ":" << ++number);
      const std::string tag = tag_of(line);
      if (!tag.empty()) {
        CHECK((open_tag.empty() || tag == open_tag));  // tagged pieces do not overlap
        open_tag = open_tag.empty() ? tag : "";
        ++tags[tag];
        continue;
      }
      lines_of_kernel += open_tag == "kernel";
      const bool is_shown = !open_tag.empty() && open_tag != "variant";  // that is a lesson itself
      if (is_shown) CHECK(columns(line) <= kMaxKernelColumns);
    }
    CAPTURE(file.string());
    CHECK(tags["kernel"] == 2);
    CHECK(lines_of_kernel <= kMaxLines);
    for (const auto& [tag, count] : tags) CHECK(count == 2);
  }
}

TEST_CASE("no line of a source is wider than 100 columns") {
  for (const fs::path& file : files_with({".cpp", ".hpp", ".cu", ".cuh", ".edit"})) {
    const std::size_t most = kMaxColumns + (file.extension() == ".edit" ? 1 : 0);  // its "+" or "-"
    std::size_t number = 0;
    for (const std::string& line : lines_of(file)) {
      INFO(file.string() << ":" << ++number);
      CHECK(columns(line) <= most);
    }
  }
}

TEST_CASE("a lesson includes no header of this project but that of its operation") {
  const std::regex kOperation("#include \"common/operations/\\w+[.]hpp\"");
  for (const fs::path& folder : lesson_folders()) {
    for (const fs::path& file : {folder / "rms_norm.cu", folder / "variants.cu"}) {
      if (!fs::exists(file)) continue;
      for (const std::string& line : lines_of(file)) {
        CAPTURE(file.string());
        if (line.starts_with("#include \"")) CHECK(std::regex_match(line, kOperation));
      }
    }
  }
}
