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
const std::vector<std::string> kRooms = {"base",       "contract", "records", "tensors",
                                         "operations", "verify",   "measure", "programs"};
const std::string kCpuDevice = "cpu_device";

/// The CPU device's own, likewise. Its file device.hpp, which puts them together, is used by no
/// header: only by what a kernel, a program or the harness calls by name.
const std::vector<std::string> kRoomsOfCpuDevice = {"interface", "compiler", "scheduler",
                                                    "runtime",   "watch",    "language"};

/// Header and source of a name count once, and main functions not at all.
constexpr std::size_t kMaxRoom = 14;

constexpr std::size_t kMaxLines = 500;

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

bool is_up_to(
    const std::vector<std::string>& rooms, const std::string& room, const std::string& other) {
  const auto place = [&](const std::string& name) {
    return std::find(rooms.begin(), rooms.end(), name);
  };
  return place(other) <= place(room) && place(other) != rooms.end();
}

/// The room of "common/cpu_device/ROOM/file.hpp"; "" of what belongs to none.
std::string room_of_cpu_device(const fs::path& file) {
  if (room_of(file) != kCpuDevice) return "";
  const auto part = std::next(file.begin(), 2);
  return std::next(part) == file.end() ? "" : part->string();
}

bool may_use(const std::string& room, const fs::path& header) {
  const std::string other = room_of(header);
  if (room == kCpuDevice) return other == kCpuDevice || other == "base";
  const bool is_interface = room_of_cpu_device(header) == "interface";
  return is_up_to(kRooms, room, other) || (is_interface && room != "base");
}

/// All files of common/, from the top.
std::vector<fs::path> files_of_rooms() {
  std::vector<fs::path> files;
  for (const fs::path& file : files_with({".hpp", ".cpp", ".cu", ".cuh"})) {
    const fs::path from_top = fs::relative(file, top());
    const bool is_test = from_top.string().starts_with("common/cpu_device/tests/");
    if (!room_of(from_top).empty() && !is_test) files.push_back(from_top);
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
      if (name.starts_with("common/")) CHECK(may_use(room, name));
    }
  }
}

TEST_CASE("a room of the CPU device uses those before it and only functions find the device") {
  int files = 0;
  for (const fs::path& file : files_of_rooms()) {
    if (room_of(file) != kCpuDevice) continue;
    ++files;
    CAPTURE(file);
    const std::string room = room_of_cpu_device(file);
    const bool is_known = std::count(kRoomsOfCpuDevice.begin(), kRoomsOfCpuDevice.end(), room) == 1;
    CHECK((is_known || file.stem() == "device"));
    for (const std::string& name : includes_of(top() / file)) {
      CAPTURE(name);
      if (name == "common/cpu_device/device.hpp") CHECK(file.extension() == ".cpp");
      const std::string other = room_of_cpu_device(name);
      if (!room.empty() && !other.empty()) CHECK(is_up_to(kRoomsOfCpuDevice, room, other));
      if (room == "compiler") CHECK((other == room || room_of(name) != kCpuDevice));
    }
  }
  CHECK(files > 60);
}

TEST_CASE("a room of common/ is not large, nor one of the CPU device, nor a file of that") {
  std::map<std::string, std::set<std::string>> names;
  for (const fs::path& file : files_of_rooms()) {
    const std::string name = file.stem().stem().string();
    const bool is_of_cpu_device = room_of(file) == kCpuDevice;
    const std::string room = is_of_cpu_device ? room_of_cpu_device(file) : room_of(file);
    const bool is_toolkits = file.string().find("/include/") != std::string::npos;
    if (!name.ends_with("main") && !is_toolkits) names[room].insert(name);
    CAPTURE(file);
    if (is_of_cpu_device) CHECK(lines_of(top() / file).size() < kMaxLines);
  }
  CHECK(names.size() == kRooms.size() + kRoomsOfCpuDevice.size() + 1);
  for (const auto& [room, files] : names) {
    CAPTURE(room);
    CHECK(files.size() <= kMaxRoom);
  }
}

TEST_CASE("what nvcc compiles for a kernel has nothing of fmt and Catch2 in it") {
  int kernels = 0;
  for (const fs::path& file : files_with({".cu", ".cuh"})) {
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
