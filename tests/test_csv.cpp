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
  static constexpr int kFields = 23;
  static inline const std::string kHeader =
      "operation,implementation,regime,dtype,rows,hidden,cache,median_us,spread_pct,samples,bytes,"
      "gbps,copy_gbps,peak_gbps,bytes_per_row_predicted,max_error,error_bound,verdict,device,"
      "driver,"
      "cuda,version,date";
  static inline const std::string kLine =
      "rms_norm,04_warp_reduce,decode,fp32,16,4096,warm,3.41,0.6,99,524288,153.8,165.4,4814,49152,"
      "1.5e-07,8.125e-07,pass,NVIDIA H200,580.159.03,13.0,0123456789ab,2026-11-21";
  static inline const std::vector<Bad> kBad = {{4, "many"},  {5, "4096.5"},      {7, "3.41us"},
                                               {9, ""},      {9, "99999999999"}, {16, "1 2"},
                                               {14, "0x10"}, {10, "5e5"}};
  static std::string& text_in(Result& row) { return row.device; }
  static Result full_row() {
    return {
        .implementation = "04_warp_reduce",
        .regime = "decode",
        .rows = 16,
        .hidden = 4096,
        .cache = Cache::warm,
        .median_us = 3.41,
        .spread_pct = 0.6,
        .samples = 99,
        .bytes = 524288,
        .gbps = 153.8,
        .copy_gbps = 165.4,
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
  static constexpr int kFields = 19;
  static inline const std::string kHeader =
      "operation,implementation,regime,dtype,rows,hidden,blocks,file,line,kind,what,bytes,requests,"
      "lanes,sectors,wavefronts,conflicts,version,date";
  static inline const std::string kLine =
      "rms_norm,04_warp_reduce,heads,bf16,1048576,128,5000000000,"
      "lessons/04_warp_reduce/rms_norm.cu,42,shared load,staged,4,6000000000,192000000000,7,"
      "8000000000,9,0123456789ab,2026-11-21";
  static inline const std::vector<Bad> kBad = {
      {4, "many"}, {5, "4096.5"}, {5, "5000000000"}, {6, ""},
      {8, "0x2a"}, {11, "4 8"},   {12, "1e9"},       {13, "99999999999999999999"},
      {14, "nan"}, {15, "+1"},    {16, "-"}};
  static std::string& text_in(TraceRow& row) { return row.count.file; }
  static TraceRow full_row() {
    return {
        .operation = "rms_norm",
        .implementation = "04_warp_reduce",
        .regime = "heads",
        .dtype = "bf16",
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
        .version = "0123456789ab",
        .date = "2026-11-21"};
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

FOR_BOTH_FILES("a file is its header and one line a row to the letter") {
  const TemporaryFolder folder;
  TestType::kWrite(folder / "a.csv", {TestType::full_row(), TestType::full_row()});
  const std::string& line = TestType::kLine;
  CHECK(read_file(folder / "a.csv") == TestType::kHeader + "\n" + line + "\n" + line + "\n");
}

FOR_BOTH_FILES("every field survives the round trip") {
  const TemporaryFolder folder;
  const std::string text = TestType::kHeader + "\n" + TestType::kLine + "\n";
  write_file(folder / "a.csv", text);
  TestType::kWrite(folder / "b.csv", TestType::kRead(folder / "a.csv"));
  CHECK(read_file(folder / "b.csv") == text);
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

FOR_BOTH_FILES("a file without rows is no mistake") {
  const TemporaryFolder folder;
  TestType::kWrite(folder / "a.csv", {});
  CHECK(read_file(folder / "a.csv") == TestType::kHeader + "\n");
  CHECK(TestType::kRead(folder / "a.csv").empty());
}

FOR_BOTH_FILES("a file is replaced as a whole and leaves nothing beside it") {
  const TemporaryFolder folder;
  TestType::kWrite(folder / "a.csv", {TestType::full_row(), TestType::full_row()});
  TestType::kWrite(folder / "a.csv", {TestType::full_row()});
  CHECK(TestType::kRead(folder / "a.csv").size() == 1);
  const std::filesystem::directory_iterator files(folder / "");
  CHECK(std::distance(begin(files), end(files)) == 1);
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

FOR_BOTH_FILES("a wrong header is reported with file and line") {
  for (const std::string& text :
       {std::string("operation,regime\n"), TestType::kLine + "\n", TestType::kHeader + ",more\n",
        std::string()}) {
    CHECK_THAT(complaint_about<TestType>(text), contains("bad.csv: line 1 is not the header"));
  }
}

FOR_BOTH_FILES("a quote that does not end is reported with the file") {
  CHECK_THAT(complaint_about<TestType>(TestType::kHeader + "\n\"04_warp"), contains("bad.csv"));
}

FOR_BOTH_FILES("a file that is not there is reported by its name") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(TestType::kRead(folder / "none.csv"), contains((folder / "none.csv").string()));
}

TEST_CASE("the headers that programs compare with are those of the files") {
  CHECK(kCsvHeader == ResultsFile::kHeader);
  CHECK(kTraceHeader == TraceFile::kHeader);
}

TEST_CASE("a number that does not apply is an empty field") {
  const TemporaryFolder folder;
  Result result;
  result.implementation = "01_a";
  result.rows = 2;
  result.hidden = 3;
  write_csv(folder / "results.csv", {result});
  CHECK(
      read_file(folder / "results.csv") ==
      ResultsFile::kHeader + "\nrms_norm,01_a,,fp32,2,3,,,,0,0,,,,0,,,pass,,,,,\n");
  const Result read = read_csv(folder / "results.csv").at(0);
  CHECK_FALSE(read.cache.has_value());
  CHECK_FALSE(read.median_us.has_value());
  CHECK_FALSE(read.spread_pct.has_value());
  CHECK_FALSE(read.gbps.has_value());
  CHECK_FALSE(read.copy_gbps.has_value());
  CHECK_FALSE(read.peak_gbps.has_value());
  CHECK_FALSE(read.max_error.has_value());
  CHECK_FALSE(read.error_bound.has_value());
}

TEST_CASE("no number is infinite or NaN") {
  for (const char* value : {"nan", "inf", "-inf"}) {
    CHECK_THAT(
        complaint_about<ResultsFile>(
            ResultsFile::kHeader + "\n" + with_field<ResultsFile>(7, value) + "\n"),
        contains("line 2: field 8 '" + std::string(value) + "' is not a finite number"));
  }
}

TEST_CASE("every verdict and cache can be read and another is reported by its field") {
  const TemporaryFolder folder;
  Result result = ResultsFile::full_row();
  for (const Verdict verdict : {Verdict::pass, Verdict::fail, Verdict::unsupported}) {
    for (const Cache cache : {Cache::cold, Cache::warm}) {
      result.verdict = verdict;
      result.cache = cache;
      write_csv(folder / "results.csv", {result});
      CHECK(read_csv(folder / "results.csv").at(0).verdict == verdict);
      CHECK(read_csv(folder / "results.csv").at(0).cache == cache);
    }
  }
  for (const Bad& bad : {Bad{6, "hot"}, {17, "refused"}, {17, ""}}) {
    CAPTURE(bad.field, bad.value);
    CHECK_THAT(
        complaint_about<ResultsFile>(
            ResultsFile::kHeader + "\n" + with_field<ResultsFile>(bad.field, bad.value) + "\n"),
        contains(
            "line 2: field " + std::to_string(bad.field + 1) + " '" + bad.value +
            "' is not one of its names"));
  }
}

TEST_CASE("rows beyond 32 bits are kept") {
  const TemporaryFolder folder;
  Result result = ResultsFile::full_row();
  result.rows = 5'000'000'000;
  write_csv(folder / "results.csv", {result});
  CHECK(read_csv(folder / "results.csv").at(0).rows == 5'000'000'000);
}

TEST_CASE("records of any header can be read") {
  const TemporaryFolder folder;
  write_file(folder / "any.csv", "a,b\n1,\"x,y\"\n,\n");
  CHECK(
      read_records(folder / "any.csv", "a,b") ==
      std::vector<std::vector<std::string>>{{"1", "x,y"}, {"", ""}});
  CHECK_THROWS_WITH(
      read_records(folder / "any.csv", "a,c"), contains("any.csv: line 1 is not the header 'a,c'"));
  write_file(folder / "any.csv", "a,b\n1,2\n3\n");
  CHECK_THROWS_WITH(
      read_records(folder / "any.csv", "a,b"), contains("any.csv: line 3 has 1 fields"));
}

TEST_CASE("every kind of operation can be read") {
  const TemporaryFolder folder;
  for (const char* kind : kKinds) {
    TraceRow row = TraceFile::full_row();
    row.count.kind = kind;
    write_trace(folder / "trace.csv", {row});
    CHECK(read_trace(folder / "trace.csv").at(0).count.kind == kind);
  }
}

TEST_CASE("a kind that there is not is reported with file and line and field") {
  for (const char* kind : {"", "load", "Barrier", "barrier ", "local load"}) {
    CAPTURE(kind);
    // In quotes, so that the space at the end is kept.
    const std::string line = with_field<TraceFile>(9, '"' + std::string(kind) + '"');
    CHECK_THAT(
        complaint_about<TraceFile>(
            TraceFile::kHeader + "\n" + TraceFile::kLine + "\n" + line + "\n"),
        contains(
            "bad.csv: line 3: field 10 '" + std::string(kind) + "' is not a kind of operation"));
  }
}
