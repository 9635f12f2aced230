/// \file
/// Trace files: what is written can be read, and what cannot be read is explained.

#include <filesystem>
#include <string>
#include <vector>

#include "common/files.hpp"
#include "common/trace_csv.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using tests::contains;
using tests::TemporaryFolder;

namespace {

// Spelled out once more: whoever changes the header breaks every trace file that there is.
const std::string kHeader =
    "lesson,regime,rows,hidden,blocks,file,line,kind,what,bytes,requests,lanes,sectors,wavefronts,"
    "conflicts,commit,date";
const std::string kLine =
    "04_warp_reduce,heads,1048576,128,5000000000,lessons/04_warp_reduce/rms_norm.cu,42,shared load,"
    "staged,4,6000000000,192000000000,7,8000000000,9,0123456789ab,2026-11-21";

TraceRow full_row() {
  return {
      .lesson = "04_warp_reduce",
      .regime = "heads",
      .rows = 1048576,
      .hidden = 128,
      .blocks = 5'000'000'000,
      .count =
          {.file = "lessons/04_warp_reduce/rms_norm.cu",
           .line = 42,
           .kind = "shared load",
           .what = "staged",
           .bytes = 4,
           .requests = 6'000'000'000,
           .lanes = 192'000'000'000,
           .sectors = 7,
           .wavefronts = 8'000'000'000,
           .conflicts = 9},
      .commit = "0123456789ab",
      .date = "2026-11-21"};
}

/// What read_trace says about a file with this text.
std::string complaint_about(const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder / "bad.csv", text);
  try {
    read_trace(folder / "bad.csv");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "(none)";
}

/// The line with its n-th field, from 0, replaced.
std::string with_field(std::size_t n, const std::string& value) {
  std::size_t begin = 0;
  for (; n > 0; --n) begin = kLine.find(',', begin) + 1;
  std::string line = kLine;
  return line.replace(begin, line.find(',', begin) - begin, value);
}

}  // namespace

TEST_CASE("a trace file is its header and one line a count to the letter") {
  const TemporaryFolder folder;
  write_trace(folder / "trace.csv", {full_row(), full_row()});
  CHECK(read_file(folder / "trace.csv") == kHeader + "\n" + kLine + "\n" + kLine + "\n");
  CHECK(kTraceHeader == kHeader);
}

TEST_CASE("every field of a count survives the round trip") {
  const TemporaryFolder folder;
  write_trace(folder / "trace.csv", {full_row()});
  const std::vector<TraceRow> read = read_trace(folder / "trace.csv");
  REQUIRE(read.size() == 1);
  const TraceRow expected = full_row();
  CHECK(read[0].lesson == expected.lesson);
  CHECK(read[0].regime == expected.regime);
  CHECK(read[0].rows == expected.rows);
  CHECK(read[0].hidden == expected.hidden);
  CHECK(read[0].blocks == expected.blocks);
  CHECK(read[0].count.file == expected.count.file);
  CHECK(read[0].count.line == expected.count.line);
  CHECK(read[0].count.kind == expected.count.kind);
  CHECK(read[0].count.what == expected.count.what);
  CHECK(read[0].count.bytes == expected.count.bytes);
  CHECK(read[0].count.requests == expected.count.requests);
  CHECK(read[0].count.lanes == expected.count.lanes);
  CHECK(read[0].count.sectors == expected.count.sectors);
  CHECK(read[0].count.wavefronts == expected.count.wavefronts);
  CHECK(read[0].count.conflicts == expected.count.conflicts);
  CHECK(read[0].commit == expected.commit);
  CHECK(read[0].date == expected.date);
}

TEST_CASE("every kind of operation can be read") {
  const TemporaryFolder folder;
  for (const char* kind : kKinds) {
    TraceRow row = full_row();
    row.count.kind = kind;
    write_trace(folder / "trace.csv", {row});
    CHECK(read_trace(folder / "trace.csv").at(0).count.kind == kind);
  }
}

TEST_CASE("commas and quotes and line ends and outer spaces in a trace are quoted and come back") {
  const TemporaryFolder folder;
  TraceRow row = full_row();
  row.count.file = "a folder, the \"big\" one/rms\nnorm.cu";
  row.count.what = " staged ";
  write_trace(folder / "trace.csv", {row, full_row()});
  CHECK_THAT(
      read_file(folder / "trace.csv"),
      contains(",\"a folder, the \"\"big\"\" one/rms\nnorm.cu\",42,shared load,\" staged \",4,"));
  const std::vector<TraceRow> read = read_trace(folder / "trace.csv");
  REQUIRE(read.size() == 2);
  CHECK(read[0].count.file == row.count.file);
  CHECK(read[0].count.what == row.count.what);
  CHECK(read[1].count.file == full_row().count.file);
}

TEST_CASE("a trace file without counts is no mistake") {
  const TemporaryFolder folder;
  write_trace(folder / "trace.csv", {});
  CHECK(read_file(folder / "trace.csv") == kHeader + "\n");
  CHECK(read_trace(folder / "trace.csv").empty());
}

TEST_CASE("a trace file is replaced as a whole and leaves nothing beside it") {
  const TemporaryFolder folder;
  write_trace(folder / "trace.csv", {full_row(), full_row()});
  write_trace(folder / "trace.csv", {full_row()});
  CHECK(read_trace(folder / "trace.csv").size() == 1);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "")) {
    CAPTURE(entry.path().string());
    ++files;
  }
  CHECK(files == 1);
}

TEST_CASE("a kind that there is not is reported with file and line and field") {
  for (const char* kind : {"", "load", "Barrier", "barrier ", "local load"}) {
    CAPTURE(kind);
    // In quotes, so that the space at the end is kept.
    const std::string line = with_field(7, '"' + std::string(kind) + '"');
    CHECK_THAT(
        complaint_about(kHeader + "\n" + kLine + "\n" + line + "\n"),
        contains(
            "bad.csv: line 3: field 8 '" + std::string(kind) + "' is not a kind of operation"));
  }
}

TEST_CASE("a bad number in a trace is reported with file and line and field") {
  struct Bad {
    std::size_t field;
    std::string value;
  };
  for (const Bad& bad :
       {Bad{2, "many"}, Bad{3, "4096.5"}, Bad{3, "5000000000"}, Bad{4, ""}, Bad{6, "0x2a"},
        Bad{9, "4 8"}, Bad{10, "1e9"}, Bad{11, "99999999999999999999"}, Bad{12, "nan"},
        Bad{13, "+1"}, Bad{14, "-"}}) {
    CAPTURE(bad.field, bad.value);
    const std::string complaint =
        complaint_about(kHeader + "\n" + kLine + "\n" + with_field(bad.field, bad.value) + "\n");
    CHECK_THAT(complaint, contains("bad.csv: line 3: field " + std::to_string(bad.field + 1)));
    CHECK_THAT(complaint, contains("'" + bad.value + "' is not a number"));
  }
}

TEST_CASE("a missing or an extra field of a trace is reported with file and line") {
  const std::string line = kLine.substr(0, kLine.rfind(','));
  CHECK_THAT(
      complaint_about(kHeader + "\n" + kLine + "\n" + line + "\n"),
      contains("bad.csv: line 3 has 16 fields"));
  CHECK_THAT(
      complaint_about(kHeader + "\n" + kLine + ",more\n"),
      contains("bad.csv: line 2 has 18 fields"));
}

TEST_CASE("a wrong header of a trace is reported with file and line") {
  for (const std::string& text : {std::string("lesson,regime\n"), std::string(), kLine}) {
    CHECK_THAT(complaint_about(text), contains("bad.csv: line 1 is not the header"));
  }
}

TEST_CASE("a trace file that is not there is reported by its name") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(read_trace(folder / "none.csv"), contains((folder / "none.csv").string()));
}
