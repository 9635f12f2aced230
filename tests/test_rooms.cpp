/// \file
/// The rooms of common/: each uses those above it, and none is large.

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/repository.hpp"

namespace fs = std::filesystem;
using namespace tests;

namespace {

/// In their order: a room uses itself and those before it.
const std::vector<std::string> kRooms = {"base",    "contract", "operations", "records",
                                         "tensors", "verify",   "measure",    "programs"};
const std::string kCpuDevice = "cpu_device";

/// Header and source of a name count once, and main functions not at all.
constexpr std::size_t kMaxRoom = 14;

/// The files that a line `#include "..."` names.
std::vector<std::string> includes_of(const fs::path& file) {
  const std::regex include("#include \"(.*)\".*");
  std::vector<std::string> names;
  std::smatch match;
  for (const std::string& line : lines_of(file)) {
    if (std::regex_match(line, match, include)) names.push_back(match[1]);
  }
  return names;
}

/// The room of "common/ROOM/file.hpp".
std::string room_of(const fs::path& file) {
  const auto part = file.begin();
  return part != file.end() && *part == "common" ? std::next(part)->string() : "";
}

bool may_use(const std::string& room, const std::string& other) {
  if (room == kCpuDevice) return other == kCpuDevice || other == "base";
  const auto place = [](const std::string& name) {
    return std::find(kRooms.begin(), kRooms.end(), name);
  };
  return place(other) <= place(room) && place(other) != kRooms.end();
}

/// All files of common/, from the top.
std::vector<fs::path> files_of_rooms() {
  std::vector<fs::path> files;
  for (const fs::path& file : files_with({".hpp", ".cpp", ".cu", ".in"})) {
    const fs::path from_top = fs::relative(file, top());
    if (!room_of(from_top).empty()) files.push_back(from_top);
  }
  return files;
}

/// The headers that a file includes, and those that they do.
void add_headers(const fs::path& file, std::set<fs::path>& headers) {
  for (const std::string& name : includes_of(file)) {
    for (const fs::path& header : {top() / name, file.parent_path() / name}) {
      if (fs::exists(header) && headers.insert(header).second) add_headers(header, headers);
    }
  }
}

}  // namespace

TEST_CASE("a room of common/ uses those above it and the CPU device uses base alone") {
  const std::vector<fs::path> files = files_of_rooms();
  REQUIRE(files.size() > 80);
  for (const fs::path& file : files) {
    CAPTURE(file);
    const std::string room = room_of(file);
    CHECK((room == kCpuDevice || std::count(kRooms.begin(), kRooms.end(), room) == 1));
    for (const std::string& name : includes_of(top() / file)) {
      CAPTURE(name);
      CHECK_FALSE(name.starts_with("lessons/"));
      CHECK_FALSE(name.starts_with("library/"));
      if (name.starts_with("common/") && name.find('@') == name.npos) {
        CHECK(may_use(room, room_of(name)));
      }
    }
  }
  CHECK(may_use("verify", "contract"));
  CHECK_FALSE(may_use("contract", "verify"));
  CHECK_FALSE(may_use(kCpuDevice, "contract"));
}

TEST_CASE("a room of common/ is not large") {
  std::map<std::string, std::set<std::string>> names;
  for (const fs::path& file : files_of_rooms()) {
    const std::string name = file.stem().stem().string();
    if (!name.ends_with("main")) names[room_of(file)].insert(name);
  }
  CHECK(names.size() == kRooms.size() + 1);
  for (const std::string& room : kRooms) {
    CAPTURE(room);
    CHECK(names[room].size() <= kMaxRoom);
  }
}

TEST_CASE("what nvcc compiles for a kernel has nothing of fmt and Catch2 in it") {
  int kernels = 0;
  for (const fs::path& file : files_with({".cu", ".cuh", ".in"})) {
    const bool is_kernel = file.extension() != ".in" || file.filename() == "operation.cu.in";
    if (!is_kernel) continue;
    std::set<fs::path> headers = {file};
    add_headers(file, headers);
    for (const fs::path& header : headers) {
      for (const std::string& line : lines_of(header)) {
        CAPTURE(file, header);
        CHECK_FALSE((line.starts_with("#include <fmt/") || line.starts_with("#include <catch2/")));
      }
    }
    ++kernels;
  }
  CHECK(kernels > 10);
}
