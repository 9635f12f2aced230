/// \file
/// Programs with a main() of their own are watched from begin to end: in some order, those in
/// programs/ show the mistake that their second line names, or in all orders none.

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include "common/base/files.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/gpu_support.hpp"
#include "tests/repository.hpp"

namespace fs = std::filesystem;
using namespace tests;

namespace {

const std::string kFolder = "common/cpu_device/tests/programs/";

/// What the program's second line says.
std::string says(const std::string& name) {
  const std::string begin = "// Says: ";
  const std::string line = lines_of(top() / (kFolder + name + ".cu")).at(1);
  REQUIRE(line.starts_with(begin));
  return line.substr(begin.size());
}

Finished run_in(int order, const std::string& name) {
  return run(
      {"env", "CPU_DEVICE_ORDER=" + std::to_string(order), "CPU_DEVICE_STEPS=300000000",
       std::string(RMSNORM_PROGRAMS_DIR) + "/program_" + name});
}

}  // namespace

TEST_CASE("a program is watched, in every order, and its mistakes are said with their lines") {
  NEEDS_COUNTS();
  const std::string name = GENERATE(
      "histogram", "histogram_race", "copy_not_waited_for", "queue", "stencil", "spin_barrier",
      "never_ends", "not_waited_for", "wrong_result");
  CAPTURE(name);
  std::string expected = says(name);
  int status = expected.starts_with("nothing") ? 0 : 1;
  if (const std::size_t own = expected.find(", exit "); own != expected.npos) {
    status = std::stoi(expected.substr(own + 7));
  }
  bool is_said = false;
  for (const int order : {0, 1, 2, 3}) {
    const Finished finished = run_in(order, name);
    CAPTURE(order, finished.out, finished.err);
    std::string said = finished.err;
    for (std::size_t at; (at = said.find(kFolder)) != said.npos;) said.erase(at, kFolder.size());
    if (expected.starts_with("nothing")) {
      CHECK(said == "");
      CHECK(finished.exit_code == status);
    } else {
      is_said |= said.find(expected) != said.npos;
      if (order == 0) CHECK(finished.exit_code == status);
    }
  }
  CHECK((is_said || expected.starts_with("nothing")));
}

TEST_CASE("of an order, parts can be as usual, and turns end at some atomic operations alone") {
  NEEDS_COUNTS();
  const auto ends_with = [&](const std::string& usual, const std::string& turns) {
    return run({"env", "CPU_DEVICE_ORDER=2", "CPU_DEVICE_USUAL=" + usual,
                "CPU_DEVICE_TURNS=" + turns,
                std::string(RMSNORM_PROGRAMS_DIR) + "/program_largest"})
        .exit_code;
  };
  CHECK(ends_with("", "") == 1);
  CHECK(ends_with("blocks threads streams values turns", "") == 0);
  CHECK(ends_with("blocks threads streams values", "0,1") == 0);  // before its look
  CHECK(ends_with("blocks threads streams values", "1,2") == 1);  // behind it
}

TEST_CASE("with CPU_DEVICE_TRACE, a program says what each line has asked of memory") {
  NEEDS_COUNTS();
  const Finished finished =
      run({"env", "CPU_DEVICE_TRACE=1", std::string(RMSNORM_PROGRAMS_DIR) + "/program_histogram"});
  CHECK(finished.exit_code == 0);
  CHECK(finished.out == "1000\n");
  CHECK_THAT(
      finished.err, contains("bins.cuh:11: shared store of own, 4 requests, 4 wavefronts\n"));
}

TEST_CASE("what a program asks of the environment and cannot have is said") {
  NEEDS_COUNTS();
  const Finished finished = run(
      {"env", "CPU_DEVICE_REPORT=/no/such/folder/report",
       std::string(RMSNORM_PROGRAMS_DIR) + "/program_histogram"});
  CHECK(finished.exit_code == 2);
  CHECK(finished.err == "'/no/such/folder/report' cannot be written\n");
}

TEST_CASE("the page about any program names each header and function that the device has") {
  const std::string page = rmsnorm::read_file(top() / "docs" / "any_program.md");
  const fs::path headers = top() / "common/cpu_device/language/include";
  std::set<std::string> there;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(headers)) {
    const fs::path header = fs::relative(entry.path(), headers);
    if (entry.is_regular_file() && header.extension() != ".hpp") there.insert(header.string());
  }
  const std::regex call("\\bcuda[A-Z][A-Za-z0-9]*(?=\\()");
  const fs::path runtime = top() / "common/cpu_device/runtime";
  for (const fs::directory_entry& entry : fs::directory_iterator(runtime)) {
    const std::string text = rmsnorm::read_file(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at) {
      there.insert(at->str());
    }
  }
  std::set<std::string> named;
  const std::string lists = page.substr(page.find("These headers"));
  const std::regex name("`([^`]+)`");
  const std::string part = lists.substr(0, lists.find("## "));
  for (std::sregex_iterator at(part.begin(), part.end(), name), end; at != end; ++at) {
    named.insert((*at)[1]);
  }
  named.erase("cuda/std");
  CHECK(named == there);
}
