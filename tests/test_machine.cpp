/// \file
/// ./rmsnorm machine: what it refuses, and its CSV file, which tables and charts read.

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/exit_code.hpp"
#include "common/base/files.hpp"
#include "common/records/csv_fields.hpp"
#include "common/records/machine_row.hpp"
#include "plots/machine.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/memories.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using namespace tests;

TEST_CASE("machine says in one sentence that it cannot measure") {
  const auto refusal = [](const std::vector<std::string>& command, int exit_code) {
    const Finished finished = run_without_gpu(command);
    CAPTURE(command);
    CHECK(finished.exit_code == exit_code);
    CHECK(finished.out == "");
    CHECK(lines_in(finished.err).size() == 1);
    return finished.err;
  };
  const std::string script = top() / "rmsnorm";
  CHECK_THAT(
      refusal({script, "machine", "--device", "cpu"}, kNoDevice), contains("machine needs a GPU"));
  CHECK_THAT(refusal({script, "machine", "a.csv", "b.csv"}, kBadUsage), contains("one CSV file"));
#ifdef RMSNORM_MACHINE
  const TemporaryFolder folder;
  const std::string file = folder / "machine.csv";
  refusal({RMSNORM_MACHINE, "--csv", file}, kNoDevice);
  CHECK_FALSE(std::filesystem::exists(file));
  std::filesystem::create_directory(file + ".partial");
  CHECK_THAT(
      refusal({RMSNORM_MACHINE, "--csv", file}, kBadUsage), contains("cannot write " + file));
  CHECK_THAT(refusal({RMSNORM_MACHINE}, kBadUsage), contains("--csv is required"));
#endif
}

TEST_CASE("what machine writes can be read") {
  const std::string text =
      "probe,memory,set_bytes,stride_words,threads,loads,cycles,ns,gbps,spread_pct,samples,device,"
      "driver,cuda,version,date\n"
      "latency,global,1073741824,,,,1000.5,500.25,,1.5,11,,,,,\n"
      "bandwidth,l2,,,64,8,,,5000,0,0,\"A, B\",580.1,13.0,abc,2026-11-23\n";
  const TemporaryFolder folder;
  write_file(folder / "machine.csv", text);
  const auto rows = csv::read_rows<MachineRow>(folder / "machine.csv", for_each_machine_field);
  REQUIRE(rows.size() == 2);
  CHECK((rows[0].cycles == 1000.5 && !rows[0].gbps && rows[1].device == "A, B"));
  csv::write_rows(folder / "again.csv", rows, for_each_machine_field);
  CHECK(read_file(folder / "again.csv") == text);
}

TEST_CASE("a row of measurements that lacks what its probe measures is reported") {
  const TemporaryFolder folder;
  const auto file = folder / "machine.csv";
  const auto read = [&](const std::vector<MachineRow>& rows) {
    csv::write_rows(file, rows, for_each_machine_field);
    return plots::read_machine(file);
  };
  const std::vector<MachineRow> rows = memories();
  CHECK(read(rows).size() == rows.size());
  CHECK_THROWS_WITH(read({}), contains("machine.csv: no measurements"));
  struct Mistake {
    const char* memory;
    void (*change)(MachineRow& row);
    const char* complaint;
  };
  for (const auto& [memory, change, complaint] :
       {Mistake{
            "shared", [](auto& row) { row.stride_words.reset(); },
            "machine.csv: line 2: a latency of shared memory without a stride"},
        {"global", [](auto& row) { row.set_bytes = 0; },
         "line 5: a latency of global memory without a set"},
        {"global", [](auto& row) { row.ns.reset(); }, "line 5: a row without cycles or ns"},
        {"l1", [](auto& row) { row.loads = 0; }, "a bandwidth without threads, loads or gbps"},
        {"ex2", [](auto& row) { row.cycles = 0; }, "a row without cycles or ns"},
        {"l1", [](auto& row) { row.probe = "colour"; },
         "none of latency, bandwidth and instruction"},
        {"dram", [](auto& row) { row.device = "another"; }, "another GPU"}}) {
    std::vector<MachineRow> changed = rows;
    for (MachineRow& row : changed) {
      if (row.memory == memory) change(row);
    }
    CHECK_THROWS_WITH(read(changed), Catch::Matchers::EndsWith(complaint));
  }
}
