/// \file
/// Results files: what is written can be read, and what cannot be read is explained.

#include <string>
#include <vector>

#include "common/csv.hpp"
#include "common/files.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using tests::contains;
using tests::TemporaryFolder;

namespace {

// Spelled out once more: whoever changes the header breaks every results file that there is.
const std::string kHeader =
    "lesson,regime,dtype,rows,hidden,cache,median_us,spread_pct,samples,gbps,copy_gbps,peak_gbps,"
    "bytes_per_row_predicted,max_error,error_bound,verdict,device,driver,cuda,commit,date";
const std::string kLine =
    "04_warp_reduce,decode,fp32,16,4096,warm,3.41,0.6,99,153.8,165.4,4814,49152,1.5e-07,8.125e-07,"
    "pass,NVIDIA H200,580.159.03,13.0,0123456789ab,2026-11-21";

Result full_result() {
  return {
      .lesson = "04_warp_reduce",
      .regime = "decode",
      .rows = 16,
      .hidden = 4096,
      .cache = "warm",
      .median_us = 3.41,
      .spread_pct = 0.6,
      .samples = 99,
      .gbps = 153.8,
      .copy_gbps = 165.4,
      .peak_gbps = 4814,
      .bytes_per_row_predicted = 49152,
      .max_error = 1.5e-7,
      .error_bound = 8.125e-7,
      .verdict = "pass",
      .device = "NVIDIA H200",
      .driver = "580.159.03",
      .cuda = "13.0",
      .commit = "0123456789ab",
      .date = "2026-11-21"};
}

/// What read_csv says about a file with this text.
std::string complaint_about(const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder / "bad.csv", text);
  try {
    read_csv(folder / "bad.csv");
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

TEST_CASE("a results file is its header and one line a result to the letter") {
  const TemporaryFolder folder;
  write_csv(folder / "results.csv", {full_result(), full_result()});
  CHECK(read_file(folder / "results.csv") == kHeader + "\n" + kLine + "\n" + kLine + "\n");
  CHECK(kCsvHeader == kHeader);
}

TEST_CASE("every field survives the round trip") {
  const TemporaryFolder folder;
  write_csv(folder / "results.csv", {full_result()});
  const std::vector<Result> read = read_csv(folder / "results.csv");
  REQUIRE(read.size() == 1);
  const Result expected = full_result();
  CHECK(read[0].lesson == expected.lesson);
  CHECK(read[0].regime == expected.regime);
  CHECK(read[0].dtype == "fp32");
  CHECK(read[0].rows == expected.rows);
  CHECK(read[0].hidden == expected.hidden);
  CHECK(read[0].cache == expected.cache);
  CHECK(read[0].median_us == expected.median_us);
  CHECK(read[0].spread_pct == expected.spread_pct);
  CHECK(read[0].samples == expected.samples);
  CHECK(read[0].gbps == expected.gbps);
  CHECK(read[0].copy_gbps == expected.copy_gbps);
  CHECK(read[0].peak_gbps == expected.peak_gbps);
  CHECK(read[0].bytes_per_row_predicted == expected.bytes_per_row_predicted);
  CHECK(read[0].max_error == expected.max_error);
  CHECK(read[0].error_bound == expected.error_bound);
  CHECK(read[0].verdict == expected.verdict);
  CHECK(read[0].device == expected.device);
  CHECK(read[0].driver == expected.driver);
  CHECK(read[0].cuda == expected.cuda);
  CHECK(read[0].commit == expected.commit);
  CHECK(read[0].date == expected.date);
}

TEST_CASE("a number that does not apply is an empty field") {
  const TemporaryFolder folder;
  Result result;
  result.lesson = "01_a";
  result.rows = 2;
  result.hidden = 3;
  write_csv(folder / "results.csv", {result});
  CHECK(read_file(folder / "results.csv") == kHeader + "\n01_a,,fp32,2,3,,,,0,,,,0,,,,,,,,\n");
  const Result read = read_csv(folder / "results.csv").at(0);
  CHECK_FALSE(read.median_us.has_value());
  CHECK_FALSE(read.spread_pct.has_value());
  CHECK_FALSE(read.gbps.has_value());
  CHECK_FALSE(read.copy_gbps.has_value());
  CHECK_FALSE(read.peak_gbps.has_value());
  CHECK_FALSE(read.max_error.has_value());
  CHECK_FALSE(read.error_bound.has_value());
}

TEST_CASE("commas and quotes and line ends in a field are quoted and come back") {
  const TemporaryFolder folder;
  Result result = full_result();
  result.device = "GPU, the \"big\" one\nwith two lines";
  write_csv(folder / "results.csv", {result, full_result()});
  CHECK_THAT(
      read_file(folder / "results.csv"),
      contains(",\"GPU, the \"\"big\"\" one\nwith two lines\",580"));
  const std::vector<Result> read = read_csv(folder / "results.csv");
  REQUIRE(read.size() == 2);
  CHECK(read[0].device == result.device);
  CHECK(read[0].driver == result.driver);
}

TEST_CASE("spaces at the ends of a field are kept") {
  const TemporaryFolder folder;
  Result result = full_result();
  result.device = " GPU ";
  write_csv(folder / "results.csv", {result});
  CHECK(read_csv(folder / "results.csv").at(0).device == " GPU ");
}

TEST_CASE("no number is infinite or NaN") {
  for (const char* value : {"nan", "inf", "-inf"}) {
    CHECK_THAT(
        complaint_about(kHeader + "\n" + with_field(6, value) + "\n"),
        contains("line 2: field 7 '" + std::string(value) + "' is not a finite number"));
  }
}

TEST_CASE("rows beyond 32 bits are kept") {
  const TemporaryFolder folder;
  Result result = full_result();
  result.rows = 5'000'000'000;
  write_csv(folder / "results.csv", {result});
  CHECK(read_csv(folder / "results.csv").at(0).rows == 5'000'000'000);
}

TEST_CASE("a file without results is no mistake") {
  const TemporaryFolder folder;
  write_csv(folder / "results.csv", {});
  CHECK(read_csv(folder / "results.csv").empty());
}

TEST_CASE("a missing field is reported with file and line") {
  const std::string line = kLine.substr(0, kLine.rfind(','));
  const std::string complaint = complaint_about(kHeader + "\n" + kLine + "\n" + line + "\n");
  CHECK_THAT(complaint, contains("bad.csv: line 3 has 20 fields"));
}

TEST_CASE("an extra field is reported with file and line") {
  CHECK_THAT(
      complaint_about(kHeader + "\n" + kLine + ",more\n"),
      contains("bad.csv: line 2 has 22 fields"));
}

TEST_CASE("a bad number is reported with file and line and field") {
  struct Bad {
    std::size_t field;
    std::string value;
  };
  for (const Bad& bad :
       {Bad{3, "many"}, Bad{4, "4096.5"}, Bad{6, "3.41us"}, Bad{8, ""}, Bad{8, "99999999999"},
        Bad{14, "1 2"}, Bad{12, "0x10"}}) {
    CAPTURE(bad.field, bad.value);
    const std::string complaint =
        complaint_about(kHeader + "\n" + kLine + "\n" + with_field(bad.field, bad.value) + "\n");
    CHECK_THAT(complaint, contains("bad.csv: line 3: field " + std::to_string(bad.field + 1)));
    CHECK_THAT(complaint, contains("'" + bad.value + "' is not a number"));
  }
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

TEST_CASE("a wrong header is reported with file and line") {
  CHECK_THAT(complaint_about("lesson,regime\n"), contains("bad.csv: line 1 is not the header"));
  CHECK_THAT(complaint_about(kLine + "\n"), contains("bad.csv: line 1 is not the header"));
  CHECK_THAT(complaint_about(kHeader + ",more\n"), contains("bad.csv: line 1 is not the header"));
  CHECK_THAT(complaint_about(""), contains("bad.csv: line 1 is not the header"));
}

TEST_CASE("a quote that does not end is reported with the file") {
  CHECK_THAT(complaint_about(kHeader + "\n\"04_warp"), contains("bad.csv"));
}

TEST_CASE("a results file that is not there is reported by its name") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(read_csv(folder / "none.csv"), contains((folder / "none.csv").string()));
}
