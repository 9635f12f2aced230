/// \file
/// Results files and trace files: what is written can be read, what cannot be read is explained.
/// Both are read and written by the same functions, with other columns.

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

// The headers are spelled out once more: whoever changes one breaks every file that there is. In
// the lines no two fields are alike.
const std::string kHeader =
    "operation,implementation,regime,dtype,rows,hidden,sizes,cache,median_us,spread_pct,samples,"
    "disturbed,bytes,gbps,roof,roof_gbps,peak_gbps,bytes_per_row_predicted,max_error,error_bound,"
    "verdict,device,driver,cuda,version,date\n";
const std::string kLine =
    "rms_norm,04_warp_reduce,decode,fp32,5000000000,4096,q_heads=8,warm,3.41,0.6,99,power,524288,"
    "153.8,2:1,165.4,4814,49152,1.5e-07,8.125e-07,pass,NVIDIA H200,580.159.03,13.0,0123456789ab,"
    "2026-11-21\n";
const std::string kTraceHeader =
    "operation,implementation,regime,dtype,rows,hidden,sizes,blocks,file,line,kind,what,bytes,"
    "requests,lanes,sectors,wavefronts,conflicts,version,date\n";
const std::string kTraceLine =
    "rms_norm,04_warp_reduce,heads,bf16,1048576,128,q_heads=8,5000000000,"
    "lessons/04_warp_reduce/rms_norm.cu,42,shared load,staged,4,6000000000,192000000000,7,"
    "8000000000,9,0123456789ab,2026-11-21\n";

/// The line with its n-th field, from 0, replaced.
std::string with_field(std::string line, std::size_t n, const std::string& value) {
  std::size_t begin = 0;
  for (; n > 0; --n) begin = line.find(',', begin) + 1;
  return line.replace(begin, line.find_first_of(",\n", begin) - begin, value);
}

/// What is read of a file with this text.
template <class Read>
auto read_of(const std::string& text, const Read& read) {
  const TemporaryFolder folder;
  write_file(folder / "file.csv", text);
  return read(folder / "file.csv");
}
std::vector<Result> results_of(const std::string& text) {
  return read_of(text, read_csv);
}

/// The text that is written.
template <class Rows, class Write>
std::string text_of(const Rows& rows, const Write& write) {
  const TemporaryFolder folder;
  write(folder / "file.csv", rows);
  const std::filesystem::directory_iterator files(folder / "");
  CHECK(std::distance(begin(files), end(files)) == 1);  // it leaves nothing beside it
  return read_file(folder / "file.csv");
}

}  // namespace

TEST_CASE("a file is its header and one line a row to the letter, and comes back") {
  const std::string other =
      with_field(with_field(with_field(kLine, 7, "cold"), 11, "heat"), 20, "unsupported");
  for (const std::string& text : {kHeader + kLine + other, kHeader}) {
    CHECK(text_of(results_of(text), write_csv) == text);
  }
  const Result read = results_of(kHeader + kLine).at(0);
  CHECK((read.rows == 5'000'000'000 && read.cache == Cache::warm && read.median_us == 3.41));
  CHECK((read.disturbed == Disturbance::power && read.device == "NVIDIA H200"));
  const std::string trace = kTraceHeader + kTraceLine + kTraceLine;
  CHECK(text_of(read_of(trace, read_trace), write_trace) == trace);  // test_recorded_trace.cpp
}

TEST_CASE("commas and quotes and line ends and outer spaces are quoted and come back") {
  std::vector<Result> results = results_of(kHeader + kLine + kLine);
  results[0].device = " a name, the \"big\" one\nwith two lines ";
  const std::string text = text_of(results, write_csv);
  CHECK_THAT(text, contains(",\" a name, the \"\"big\"\" one\nwith two lines \","));
  const std::vector<Result> read = results_of(text);
  REQUIRE(read.size() == 2);
  CHECK((read[0].device == results[0].device && read[1].device == results[1].device));
}

TEST_CASE("what cannot be read is reported with file and line and field") {
  const std::string begin = kHeader + kLine;
  const auto is_bad = [](std::size_t field, const std::string& value, const std::string& end) {
    return std::pair(
        kHeader + kLine + with_field(kLine, field, value),
        "line 3: field " + std::to_string(field + 1) + " '" + value + "' is not " + end);
  };
  for (const auto& [text, sentence] : std::vector<std::pair<std::string, std::string>>{
           {begin + kLine.substr(0, kLine.rfind(',')) + "\n", "line 3 has 25 fields"},
           {begin + "more," + kLine, "line 3 has 27 fields"},
           {kLine, "line 1 is not the header"},
           {"more," + kHeader + kLine, "line 1 is not the header"},
           {"", "line 1 is not the header"},
           {kHeader + "\"a quote without an end", "file.csv"},
           is_bad(4, "many", "a number"),
           is_bad(5, "4096.5", "a number"),
           is_bad(8, "3.41us", "a number"),
           is_bad(10, "", "a number"),
           is_bad(10, "99999999999", "a number"),
           is_bad(17, "0x10", "a number"),
           is_bad(8, "nan", "a finite number"),
           is_bad(8, "-inf", "a finite number"),
           is_bad(7, "hot", "one of its names"),
           is_bad(11, "noise", "one of its names"),
           is_bad(20, "", "one of its names")}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(results_of(text), contains("file.csv") && contains(sentence));
  }
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(read_csv(folder / "none.csv"), contains((folder / "none.csv").string()));
}

TEST_CASE("a number that does not apply is an empty field") {
  const std::string text =
      text_of(std::vector<Result>{{.implementation = "01_a", .rows = 2, .hidden = 3}}, write_csv);
  CHECK(text == kHeader + "rms_norm,01_a,,fp32,2,3,,,,,0,,0,,,,,0,,,pass,,,,,\n");
  const Result read = results_of(text).at(0);
  CHECK_FALSE((read.cache || read.median_us || read.spread_pct || read.gbps || read.roof_gbps));
  CHECK_FALSE((read.peak_gbps || read.max_error || read.error_bound || read.disturbed));
}

TEST_CASE("every kind of operation can be read and another is reported by its field") {
  for (const std::string kind : kKinds) {
    const std::string text = kTraceHeader + with_field(kTraceLine, 10, kind);
    CHECK(read_of(text, read_trace).at(0).count.kind == kind);
  }
  for (const std::string kind : {"", "load", "Barrier", "barrier "}) {
    const std::string quoted = '"' + kind + '"';  // keeps a space at the end
    CHECK_THROWS_WITH(
        read_of(kTraceHeader + kTraceLine + with_field(kTraceLine, 10, quoted), read_trace),
        contains("line 3: field 11 '" + kind + "' is not a kind of operation"));
  }
}
