/// \file
/// Files are written whole or not at all. (The tests may run as root, to whom permissions mean
/// nothing: what cannot be written here is what nobody can write.)

#include <filesystem>
#include <string>

#include "common/base/files.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using tests::contains;
using tests::TemporaryFolder;

namespace fs = std::filesystem;

namespace {

std::size_t count_files(const TemporaryFolder& folder) {
  const auto entries = fs::directory_iterator(folder / "");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace

TEST_CASE("what is written is what is read to the byte") {
  const TemporaryFolder folder;
  const std::string text("line\r\n\0\xff end without a newline", 31);
  write_file(folder / "file", text);
  CHECK(read_file(folder / "file") == text);
  write_file(folder / "file", "");
  CHECK(read_file(folder / "file").empty());
  CHECK(count_files(folder) == 1);
  write_file(folder / "a" / "b" / "file", "text");  // whose folder is made
  CHECK(read_file(folder / "a" / "b" / "file") == "text");
}

TEST_CASE("a file that cannot be read is reported by its name with the reason") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(
      read_file(folder / "none"),
      contains((folder / "none").string()) && contains("No such file or directory"));
  CHECK_THROWS_WITH(read_file(folder / ""), contains("it is a folder"));
}

TEST_CASE("a target that is a folder or below a file is reported and nothing is left behind") {
  const TemporaryFolder folder;
  write_file(folder / "target" / "inside", "kept");
  CHECK_THROWS_WITH(
      write_file(folder / "target", "text"),
      contains("cannot write " + (folder / "target").string()));
  CHECK_THROWS_WITH(
      write_file(folder / "target" / "inside" / "file", "text"),
      contains("cannot write") && contains("Not a directory"));
  CHECK(read_file(folder / "target" / "inside") == "kept");
  CHECK(count_files(folder) == 1);
}

TEST_CASE("a disk that is full leaves the old file as it was") {
  if (!fs::exists("/dev/full")) SKIP_TEST("there is no /dev/full");
  const TemporaryFolder folder;
  write_file(folder / "file", "kept");
  fs::create_symlink("/dev/full", folder / "file.partial");
  CHECK_THROWS_WITH(
      write_file(folder / "file", "text"),
      contains("cannot write " + (folder / "file").string()) && contains("No space left"));
  CHECK(read_file(folder / "file") == "kept");
  CHECK(count_files(folder) == 1);
}

TEST_CASE("a device is written to and stays a device") {
  write_file("/dev/null", "text");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK_FALSE(fs::exists("/dev/null.partial"));
  if (!fs::exists("/dev/full")) SKIP_TEST("there is no /dev/full");
  CHECK_THROWS_WITH(write_file("/dev/full", "text"), contains("cannot write /dev/full"));
}

TEST_CASE("a symbolic link stays one and what it leads to is replaced") {
  const TemporaryFolder folder;
  write_file(folder / "a" / "file", "old");
  fs::create_symlink(folder / "a" / "file", folder / "link");
  write_file(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_file(folder / "a" / "file") == "new");
}

TEST_CASE("finding out whether a file can be written changes nothing") {
  const TemporaryFolder folder;
  require_writable(folder / "new");
  CHECK(count_files(folder) == 0);

  write_file(folder / "old", "an hour's results");
  require_writable(folder / "old");
  CHECK(read_file(folder / "old") == "an hour's results");

  fs::create_symlink(folder / "target", folder / "link");
  require_writable(folder / "link");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK_FALSE(fs::exists(folder / "target"));

  CHECK_THROWS_WITH(require_writable(folder / "old" / "below"), contains("cannot write"));
}
