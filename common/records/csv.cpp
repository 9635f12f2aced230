#include "common/records/csv.hpp"

#include <csv.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "common/base/files.hpp"
#include "common/records/csv_fields.hpp"
#include "common/records/trace_csv.hpp"

namespace rmsnorm {

const char* const kCsvHeader =
    "operation,implementation,regime,dtype,rows,hidden,cache,median_us,spread_pct,samples,bytes,"
    "gbps,copy_gbps,peak_gbps,bytes_per_row_predicted,max_error,error_bound,verdict,device,driver,"
    "cuda,version,date";

const char* const kTraceHeader =
    "operation,implementation,regime,dtype,rows,hidden,blocks,file,line,kind,what,bytes,requests,"
    "lanes,sectors,wavefronts,conflicts,version,date";

namespace {

/// Calls visit(field) for every field of a result, in the header's order.
constexpr auto for_each_field = [](auto& r, auto&& visit) {
  visit(r.operation), visit(r.implementation), visit(r.regime), visit(r.dtype);
  visit(r.rows), visit(r.hidden), visit(r.cache);
  visit(r.median_us), visit(r.spread_pct), visit(r.samples);
  visit(r.bytes), visit(r.gbps), visit(r.copy_gbps), visit(r.peak_gbps);
  visit(r.bytes_per_row_predicted), visit(r.max_error), visit(r.error_bound), visit(r.verdict);
  visit(r.device), visit(r.driver), visit(r.cuda), visit(r.version), visit(r.date);
};

/// The same for a row of a trace.
constexpr auto for_each_trace_field = [](auto& r, auto&& visit) {
  visit(r.operation), visit(r.implementation), visit(r.regime), visit(r.dtype);
  visit(r.rows), visit(r.hidden), visit(r.blocks);
  auto& c = r.count;
  visit(c.file), visit(c.line), visit(c.kind), visit(c.what), visit(c.bytes), visit(c.requests);
  visit(c.lanes), visit(c.sectors), visit(c.wavefronts), visit(c.conflicts);
  visit(r.version), visit(r.date);
};
constexpr std::size_t kKindField = 9;  // of a trace, from 0

using Record = std::vector<std::string>;

std::vector<Record> parse(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  std::vector<Record> records(1);  // the last one is being filled
  const auto end_of_field = [](void* field, std::size_t size, void* to) {
    const std::string_view value(static_cast<const char*>(field), size);
    static_cast<std::vector<Record>*>(to)->back().emplace_back(value);
  };
  const auto end_of_record = [](int, void* to) {
    static_cast<std::vector<Record>*>(to)->emplace_back();
  };
  csv_parser parser;
  if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) != 0) throw std::bad_alloc();
  const bool whole =
      csv_parse(&parser, text.data(), text.size(), end_of_field, end_of_record, &records) ==
          text.size() &&
      csv_fini(&parser, end_of_field, end_of_record, &records) == 0;
  const std::string reason = csv_strerror(csv_error(&parser));
  csv_free(&parser);
  if (!whole) throw std::runtime_error(fmt::format("{}: {}", file.string(), reason));
  records.pop_back();
  return records;
}

std::string quoted_if_needed(const std::string& field) {
  // libcsv drops spaces at the ends of a field that is not quoted.
  const bool has_outer_space = !field.empty() && (field.front() == ' ' || field.back() == ' ');
  if (!has_outer_space && field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string quoted(csv_write(nullptr, 0, field.data(), field.size()), '\0');
  csv_write(quoted.data(), quoted.size(), field.data(), field.size());
  return quoted;
}

std::string line_of(const Record& record) {
  return fmt::format("{}\n", fmt::join(record, ","));
}

}  // namespace

std::vector<Record> read_records(const std::filesystem::path& file, const std::string& header) {
  std::vector<Record> records = parse(file);
  if (records.empty() || line_of(records.front()) != header + "\n") {
    throw std::runtime_error(
        fmt::format("{}: line 1 is not the header '{}'", file.string(), header));
  }
  for (std::size_t line = 1; line < records.size(); ++line) {
    if (records[line].size() == records.front().size()) continue;
    throw std::runtime_error(fmt::format(
        "{}: line {} has {} fields, the header has {}", file.string(), line + 1,
        records[line].size(), records.front().size()));
  }
  records.erase(records.begin());
  return records;
}

void write_records(
    const std::filesystem::path& file, const std::string& header,
    const std::vector<Record>& records) {
  std::string text = header + "\n";
  for (Record record : records) {
    for (std::string& field : record) field = quoted_if_needed(field);
    text += line_of(record);
  }
  write_file(file, text);
}

std::vector<Result> read_csv(const std::filesystem::path& file) {
  return csv::read_rows<Result>(file, kCsvHeader, for_each_field);
}

void write_csv(const std::filesystem::path& file, const std::vector<Result>& results) {
  csv::write_rows(file, kCsvHeader, results, for_each_field);
}

std::vector<TraceRow> read_trace(const std::filesystem::path& file) {
  std::vector<TraceRow> rows = csv::read_rows<TraceRow>(file, kTraceHeader, for_each_trace_field);
  std::size_t line = 1;
  for (const TraceRow& row : rows) {
    ++line;
    const std::string& kind = row.count.kind;
    if (std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds)) continue;
    throw csv::field_error(file, line, kKindField, kind, "is not a kind of operation");
  }
  return rows;
}

void write_trace(const std::filesystem::path& file, const std::vector<TraceRow>& rows) {
  csv::write_rows(file, kTraceHeader, rows, for_each_trace_field);
}

}  // namespace rmsnorm
