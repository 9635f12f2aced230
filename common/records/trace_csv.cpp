#include "common/records/trace_csv.hpp"

#include <algorithm>
#include <iterator>

#include "common/records/csv_fields.hpp"

namespace rmsnorm {

const char* const kTraceHeader =
    "operation,implementation,regime,dtype,rows,hidden,blocks,file,line,kind,what,bytes,requests,"
    "lanes,sectors,wavefronts,conflicts,version,date";

namespace {

constexpr std::size_t kKindField = 9;  // from 0

/// Calls visit(field) for every field of a row, in the header's order.
constexpr auto for_each_field = [](auto& r, auto&& visit) {
  visit(r.operation), visit(r.implementation), visit(r.regime), visit(r.dtype);
  visit(r.rows), visit(r.hidden), visit(r.blocks);
  auto& c = r.count;
  visit(c.file), visit(c.line), visit(c.kind), visit(c.what), visit(c.bytes), visit(c.requests);
  visit(c.lanes), visit(c.sectors), visit(c.wavefronts), visit(c.conflicts);
  visit(r.version), visit(r.date);
};

bool is_kind(const std::string& text) {
  return std::find(std::begin(kKinds), std::end(kKinds), text) != std::end(kKinds);
}

}  // namespace

std::vector<TraceRow> read_trace(const std::filesystem::path& file) {
  std::vector<TraceRow> rows = csv::read_rows<TraceRow>(file, kTraceHeader, for_each_field);
  std::size_t line = 1;
  for (const TraceRow& row : rows) {
    ++line;
    if (is_kind(row.count.kind)) continue;
    throw csv::field_error(file, line, kKindField, row.count.kind, "is not a kind of operation");
  }
  return rows;
}

void write_trace(const std::filesystem::path& file, const std::vector<TraceRow>& rows) {
  csv::write_rows(file, kTraceHeader, rows, for_each_field);
}

}  // namespace rmsnorm
