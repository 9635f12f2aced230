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

namespace {

/// Calls visit(name, field) for every field of a result, in the header's order.
constexpr auto for_each_field = [](auto& r, auto&& visit) {
  visit("operation", r.operation), visit("implementation", r.implementation);
  visit("regime", r.regime), visit("dtype", r.dtype), visit("rows", r.rows);
  visit("hidden", r.hidden), visit("sizes", r.sizes), visit("cache", r.cache);
  visit("median_us", r.median_us), visit("spread_pct", r.spread_pct), visit("samples", r.samples);
  visit("disturbed", r.disturbed), visit("bytes", r.bytes), visit("gbps", r.gbps);
  visit("roof", r.roof), visit("roof_gbps", r.roof_gbps), visit("peak_gbps", r.peak_gbps);
  visit("bytes_per_row_predicted", r.bytes_per_row_predicted), visit("max_error", r.max_error);
  visit("error_bound", r.error_bound), visit("verdict", r.verdict), visit("device", r.device);
  visit("driver", r.driver), visit("cuda", r.cuda), visit("version", r.version);
  visit("date", r.date);
};

/// The same for a row of a trace.
constexpr auto for_each_trace_field = [](auto& r, auto&& visit) {
  auto& c = r.count;
  visit("operation", r.operation), visit("implementation", r.implementation);
  visit("regime", r.regime), visit("dtype", r.dtype), visit("rows", r.rows);
  visit("hidden", r.hidden), visit("sizes", r.sizes), visit("blocks", r.blocks);
  visit("file", c.file), visit("line", c.line), visit("kind", c.kind), visit("what", c.what);
  visit("bytes", c.bytes);
  visit("requests", c.requests), visit("lanes", c.lanes), visit("sectors", c.sectors);
  visit("wavefronts", c.wavefronts), visit("conflicts", c.conflicts), visit("version", r.version);
  visit("date", r.date);
};
constexpr std::size_t kKindField = 10;  // of a trace, from 0

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
  return csv::read_rows<Result>(file, for_each_field);
}

void write_csv(const std::filesystem::path& file, const std::vector<Result>& results) {
  csv::write_rows(file, results, for_each_field);
}

std::vector<TraceRow> read_trace(const std::filesystem::path& file) {
  std::vector<TraceRow> rows = csv::read_rows<TraceRow>(file, for_each_trace_field);
  std::size_t line = 1;
  for (const TraceRow& row : rows) {
    ++line;
    const std::string& kind = row.count.kind;
    if (std::ranges::find(kKinds, kind) != std::end(kKinds)) continue;
    throw csv::field_error(file, line, kKindField, kind, "is not a kind of operation");
  }
  return rows;
}

void write_trace(const std::filesystem::path& file, const std::vector<TraceRow>& rows) {
  csv::write_rows(file, rows, for_each_trace_field);
}

}  // namespace rmsnorm
