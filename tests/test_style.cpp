/// \file
/// The form of the sources.

#include <algorithm>
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

constexpr int kLongestKernel = 90;  // lines
constexpr std::size_t kWidestLine = 100;
constexpr std::size_t kWidestKernel = 78;  // the pages show kernels in a column of about 80

std::vector<fs::path> lesson_sources() {
  std::vector<fs::path> files;
  for (const fs::path& folder : lesson_folders()) files.push_back(folder / "rms_norm.cu");
  return files;
}

/// The same, and the variants that are files of their own.
std::vector<fs::path> kernel_sources() {
  std::vector<fs::path> files = lesson_sources();
  for (const fs::path& folder : lesson_folders()) {
    if (fs::exists(folder / "variants.cu")) files.push_back(folder / "variants.cu");
  }
  return files;
}

/// The tag of a line "// [kernel]", or "".
std::string tag_of(const std::string& line) {
  static const std::regex kTag("\\s*// \\[(\\w+)\\]\\s*");
  std::smatch match;
  return std::regex_match(line, match, kTag) ? match[1].str() : "";
}

/// Runs a tool that may not be installed; its words are the failure's explanation.
Finished run_tool(std::vector<std::string> command, const std::vector<fs::path>& files) {
  for (const fs::path& file : files) command.push_back(file.string());
  return run_without_gpu(command);
}

bool has(const std::string& tool) {
  return run_without_gpu({tool, "--version"}).exit_code == 0;
}

}  // namespace

TEST_CASE("every source is formatted as .clang-format says") {
  if (!has("clang-format")) SKIP_TEST("clang-format is not installed");
  const std::vector<fs::path> sources = files_with({".cpp", ".hpp", ".cu", ".cuh"});
  REQUIRE(sources.size() > 40);
  const Finished finished = run_tool({"clang-format", "--dry-run", "-Werror"}, sources);
  INFO(finished.err);
  CHECK(finished.exit_code == 0);
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
  const Finished finished = run_tool({"shellcheck"}, scripts);
  INFO(finished.out << finished.err);
  CHECK(finished.exit_code == 0);
}

TEST_CASE("no tagged piece of a lesson is wider than 78 columns") {
  for (const fs::path& file : lesson_sources()) {
    std::string open_tag;
    std::size_t number = 0;
    for (const std::string& line : lines_of(file)) {
      INFO(file.string() << ":" << ++number);
      const std::string tag = tag_of(line);
      if (!tag.empty()) open_tag = open_tag.empty() ? tag : "";
      const bool is_shown =
          !open_tag.empty() && open_tag != "variant";  // a whole lesson of its own
      if (is_shown) CHECK(columns(line) <= kWidestKernel);
    }
  }
}

TEST_CASE(
    "every lesson has its kernel of 90 lines at most between tags and every tag has its pair") {
  for (const fs::path& file : lesson_sources()) {
    CAPTURE(file.string());
    std::map<std::string, int> tags;
    std::string open_tag;
    int lines_of_kernel = 0;
    for (const std::string& line : lines_of(file)) {
      const std::string tag = tag_of(line);
      if (tag.empty()) {
        lines_of_kernel += open_tag == "kernel";
        continue;
      }
      CHECK((open_tag.empty() || tag == open_tag));  // tagged pieces do not overlap
      open_tag = open_tag.empty() ? tag : "";
      ++tags[tag];
    }
    CHECK(tags["kernel"] == 2);
    CHECK(lines_of_kernel <= kLongestKernel);
    for (const auto& [tag, count] : tags) CHECK(count == 2);
  }
}

TEST_CASE("no line of a source is wider than 100 columns") {
  for (const fs::path& file : files_with({".cpp", ".hpp", ".cu", ".cuh", ".edit"})) {
    std::size_t number = 0;
    for (const std::string& line : lines_of(file)) {
      INFO(file.string() << ":" << ++number);
      CHECK(columns(line) <= kWidestLine);
    }
  }
}

TEST_CASE("Catch2 and the format library stay out of the files that nvcc compiles") {
  for (const fs::path& file : files_with({".cu", ".cuh"})) {
    for (const std::string& line : lines_of(file)) {
      CAPTURE(file.string(), line);
      CHECK(line.find("#include <catch2") == std::string::npos);
      CHECK(line.find("#include <fmt") == std::string::npos);
    }
  }
}

TEST_CASE("a lesson includes no header of this project but that of its operation") {
  const std::regex kOperation("#include \"common/operations/\\w+[.]hpp\"");
  for (const fs::path& file : kernel_sources()) {
    for (const std::string& line : lines_of(file)) {
      CAPTURE(file.string());
      if (line.starts_with("#include \"")) CHECK(std::regex_match(line, kOperation));
    }
  }
}
