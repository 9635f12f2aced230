/// \file
/// Results files and trace files: what is written can be read, what cannot be read is explained.

#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "common/base/files.hpp"
#include "common/records/csv.hpp"
#include "common/records/trace_csv.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using tests::contains;
using tests::TemporaryFolder;

namespace {

/// A field, counted from 0, and what is no number in it.
struct Bad {
  std::size_t field;
  std::string value;
};

// What both kinds of files have. The headers are spelled out once more: whoever changes one breaks
// every file that there is. In the lines no two fields are alike.

struct ResultsFile {
  using Row = Result;
  static constexpr auto kWrite = write_csv;
  static constexpr auto kRead = read_csv;
  static constexpr int kFields = 26;
  static inline const std::string kHeader =
      "operation,implementation,regime,dtype,rows,hidden,sizes,cache,median_us,spread_pct,samples,"
      "disturbed,bytes,gbps,roof,roof_gbps,peak_gbps,bytes_per_row_predicted,max_error,error_bound,"
      "verdict,device,driver,cuda,version,date";
  static inline const std::string kLine =
      "rms_norm,04_warp_reduce,decode,fp32,16,4096,q_heads=8,warm,3.41,0.6,99,power,524288,153.8,"
      "2:1,165.4,4814,"
      "49152,"
      "1.5e-07,8.125e-07,pass,NVIDIA H200,580.159.03,13.0,0123456789ab,2026-11-21";
  static inline const std::vector<Bad> kBad = {{4, "many"},  {5, "4096.5"},       {8, "3.41us"},
                                               {10, ""},     {10, "99999999999"}, {19, "1 2"},
                                               {17, "0x10"}, {12, "5e5"}};
  static std::string& text_in(Result& row) { return row.device; }
  static Result full_row() {
    return {
        .implementation = "04_warp_reduce",
        .regime = "decode",
        .rows = 16,
        .hidden = 4096,
        .sizes = "q_heads=8",
        .cache = Cache::warm,
        .median_us = 3.41,
        .spread_pct = 0.6,
        .samples = 99,
        .disturbed = Disturbance::power,
        .bytes = 524288,
        .gbps = 153.8,
        .roof = "2:1",
        .roof_gbps = 165.4,
        .peak_gbps = 4814,
        .bytes_per_row_predicted = 49152,
        .max_error = 1.5e-7,
        .error_bound = 8.125e-7,
        .verdict = Verdict::pass,
        .device = "NVIDIA H200",
        .driver = "580.159.03",
        .cuda = "13.0",
        .version = "0123456789ab",
        .date = "2026-11-21"};
  }
};

struct TraceFile {
  using Row = TraceRow;
  static constexpr auto kWrite = write_trace;
  static constexpr auto kRead = read_trace;
  static constexpr int kFields = 20;
  static inline const std::string kHeader =
      "operation,implementation,regime,dtype,rows,hidden,sizes,blocks,file,line,kind,what,bytes,"
      "requests,"
      "lanes,sectors,wavefronts,conflicts,version,date";
  static inline const std::string kLine =
      "rms_norm,04_warp_reduce,heads,bf16,1048576,128,q_heads=8,5000000000,"
      "lessons/04_warp_reduce/rms_norm.cu,42,shared load,staged,4,6000000000,192000000000,7,"
      "8000000000,9,0123456789ab,2026-11-21";
  static inline const std::vector<Bad> kBad = {
      {4, "many"}, {5, "4096.5"}, {5, "5000000000"}, {7, ""},
      {9, "0x2a"}, {12, "4 8"},   {13, "1e9"},       {14, "99999999999999999999"},
      {15, "nan"}, {16, "+1"},    {17, "-"}};
  static std::string& text_in(TraceRow& row) { return row.count.file; }
  static TraceRow full_row() {  // whether its fields are the columns: test_recorded_trace.cpp
    const TemporaryFolder folder;
    write_file(folder / "a.csv", kHeader + "\n" + kLine + "\n");
    return read_trace(folder / "a.csv").at(0);
  }
};

/// What is said about a file with this text.
template <class File>
std::string complaint_about(const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder / "bad.csv", text);
  try {
    File::kRead(folder / "bad.csv");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "(none)";
}

/// The line with its n-th field, from 0, replaced.
template <class File>
std::string with_field(std::size_t n, const std::string& value) {
  std::string line = File::kLine;
  std::size_t begin = 0;
  for (; n > 0; --n) begin = line.find(',', begin) + 1;
  return line.replace(begin, line.find(',', begin) - begin, value);
}

}  // namespace

#define FOR_BOTH_FILES(name) TEMPLATE_TEST_CASE(name, "", ResultsFile, TraceFile)

FOR_BOTH_FILES("a file is its header and one line a row to the letter, and comes back") {
  const TemporaryFolder folder;
  const std::string& line = TestType::kLine;
  TestType::kWrite(folder / "a.csv", {TestType::full_row(), TestType::full_row()});
  CHECK(read_file(folder / "a.csv") == TestType::kHeader + "\n" + line + "\n" + line + "\n");
  TestType::kWrite(folder / "b.csv", TestType::kRead(folder / "a.csv"));
  CHECK(read_file(folder / "b.csv") == read_file(folder / "a.csv"));

  // A file without rows is no mistake; a file is replaced as a whole, and leaves nothing beside it.
  TestType::kWrite(folder / "b.csv", {});
  CHECK(read_file(folder / "b.csv") == TestType::kHeader + "\n");
  CHECK(TestType::kRead(folder / "b.csv").empty());
  const std::filesystem::directory_iterator files(folder / "");
  CHECK(std::distance(begin(files), end(files)) == 2);
}

FOR_BOTH_FILES("commas and quotes and line ends and outer spaces are quoted and come back") {
  const TemporaryFolder folder;
  typename TestType::Row row = TestType::full_row();
  TestType::text_in(row) = " a name, the \"big\" one\nwith two lines ";
  TestType::kWrite(folder / "a.csv", {row, TestType::full_row()});
  CHECK_THAT(
      read_file(folder / "a.csv"), contains(",\" a name, the \"\"big\"\" one\nwith two lines \","));
  std::vector<typename TestType::Row> read = TestType::kRead(folder / "a.csv");
  REQUIRE(read.size() == 2);
  CHECK(TestType::text_in(read[0]) == TestType::text_in(row));
  typename TestType::Row next = TestType::full_row();
  CHECK(TestType::text_in(read[1]) == TestType::text_in(next));
}

FOR_BOTH_FILES("a missing or an extra field is reported with file and line") {
  const std::string& line = TestType::kLine;
  const std::string shorter = line.substr(0, line.rfind(','));
  CHECK_THAT(
      complaint_about<TestType>(TestType::kHeader + "\n" + line + "\n" + shorter + "\n"),
      contains("bad.csv: line 3 has " + std::to_string(TestType::kFields - 1) + " fields"));
  CHECK_THAT(
      complaint_about<TestType>(TestType::kHeader + "\n" + line + ",more\n"),
      contains("bad.csv: line 2 has " + std::to_string(TestType::kFields + 1) + " fields"));
}

FOR_BOTH_FILES("a bad number is reported with file and line and field") {
  for (const Bad& bad : TestType::kBad) {
    CAPTURE(bad.field, bad.value);
    const std::string complaint = complaint_about<TestType>(
        TestType::kHeader + "\n" + TestType::kLine + "\n" +
        with_field<TestType>(bad.field, bad.value) + "\n");
    CHECK_THAT(complaint, contains("bad.csv: line 3: field " + std::to_string(bad.field + 1)));
    CHECK_THAT(complaint, contains("'" + bad.value + "' is not a number"));
  }
}

FOR_BOTH_FILES("a file that cannot be read is reported by its name") {
  const std::string& header = TestType::kHeader;
  for (const std::string& text :
       {std::string("operation,regime\n"), TestType::kLine + "\n", header + ",more\n",
        std::string()}) {
    CHECK_THAT(complaint_about<TestType>(text), contains("bad.csv: line 1 is not the header"));
  }
  CHECK_THAT(complaint_about<TestType>(header + "\n\"a quote without an end"), contains("bad.csv"));
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(TestType::kRead(folder / "none.csv"), contains((folder / "none.csv").string()));
}

TEST_CASE("a number that does not apply is an empty field, and none is infinite or NaN") {
  const TemporaryFolder folder;
  write_csv(folder / "results.csv", {{.implementation = "01_a", .rows = 2, .hidden = 3}});
  CHECK(
      read_file(folder / "results.csv") ==
      ResultsFile::kHeader + "\nrms_norm,01_a,,fp32,2,3,,,,,0,,0,,,,,0,,,pass,,,,,\n");
  const Result read = read_csv(folder / "results.csv").at(0);
  CHECK_FALSE((read.cache || read.median_us || read.spread_pct || read.gbps || read.roof_gbps));
  CHECK_FALSE((read.peak_gbps || read.max_error || read.error_bound || read.disturbed));
  for (const char* value : {"nan", "inf", "-inf"}) {
    CHECK_THAT(
        complaint_about<ResultsFile>(
            ResultsFile::kHeader + "\n" + with_field<ResultsFile>(8, value) + "\n"),
        contains("line 2: field 9 '" + std::string(value) + "' is not a finite number"));
  }
}

TEST_CASE("every verdict, cache and disturbance can be read and another is reported by its field") {
  const TemporaryFolder folder;
  Result result = ResultsFile::full_row();
  for (const Disturbance disturbed : {Disturbance::power, Disturbance::heat}) {
    result.disturbed = disturbed;
    write_csv(folder / "results.csv", {result});
    CHECK(read_csv(folder / "results.csv").at(0).disturbed == disturbed);
  }
  for (const Verdict verdict : {Verdict::pass, Verdict::fail, Verdict::unsupported}) {
    for (const Cache cache : {Cache::cold, Cache::warm}) {
      result.verdict = verdict;
      result.cache = cache;
      result.rows = 5'000'000'000;
      write_csv(folder / "results.csv", {result});
      CHECK(read_csv(folder / "results.csv").at(0).verdict == verdict);
      CHECK(read_csv(folder / "results.csv").at(0).cache == cache);
      CHECK(read_csv(folder / "results.csv").at(0).rows == 5'000'000'000);
    }
  }
  for (const Bad& bad : {Bad{7, "hot"}, {11, "noise"}, {20, "skipped"}, {20, ""}}) {
    CAPTURE(bad.field, bad.value);
    CHECK_THAT(
        complaint_about<ResultsFile>(
            ResultsFile::kHeader + "\n" + with_field<ResultsFile>(bad.field, bad.value) + "\n"),
        contains(
            "line 2: field " + std::to_string(bad.field + 1) + " '" + bad.value +
            "' is not one of its names"));
  }
}

TEST_CASE("every kind of operation can be read and another is reported by its field") {
  const TemporaryFolder folder;
  for (const char* kind : kKinds) {
    TraceRow row = TraceFile::full_row();
    row.count.kind = kind;
    write_trace(folder / "trace.csv", {row});
    CHECK(read_trace(folder / "trace.csv").at(0).count.kind == kind);
  }
  for (const std::string kind : {"", "load", "Barrier", "barrier ", "local load"}) {
    CAPTURE(kind);
    const std::string line =
        with_field<TraceFile>(10, '"' + kind + '"');  // keeps a space at the end
    CHECK_THAT(
        complaint_about<TraceFile>(
            TraceFile::kHeader + "\n" + TraceFile::kLine + "\n" + line + "\n"),
        contains("bad.csv: line 3: field 11 '" + kind + "' is not a kind of operation"));
  }
}
