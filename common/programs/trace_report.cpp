#include "common/programs/trace_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <tuple>
#include <utility>

#include "common/base/files.hpp"
#include "common/base/terminal.hpp"

namespace rmsnorm {
namespace {

/// Line, operation, of what, requests, lanes, sectors, used, wavefronts.
constexpr const char* kColumns = "{:>4} {:12} {:8} {:>8} {:>5} {:>7} {:>5} {:>10}";

bool is_shared(const LineCount& count) {
  return count.kind.starts_with("shared");
}

/// The share of its sectors' bytes that a line asks for. Lanes that ask for the same bytes count
/// each: a broadcast can use more than there is.
double used(const LineCount& count) {
  const auto asked = static_cast<double>(count.lanes * count.bytes);
  return asked / static_cast<double>(kSectorBytes * std::max<std::int64_t>(1, count.sectors));
}

/// Sectors or wavefronts that are moved for nothing.
double waste(const LineCount& count) {
  if (count.kind == "poll" || count.kind == "signal") return 0;  // a word, at any time
  if (is_shared(count)) return static_cast<double>(count.conflicts);
  return static_cast<double>(count.sectors) * std::max(0.0, 1 - used(count));
}

/// Worst first; barriers and the like, which waste nothing, last and in the order of the source.
bool is_worse(const LineCount& a, const LineCount& b) {
  const auto key = [](const LineCount& count) {
    return std::tuple(
        -waste(count), -(count.sectors + count.wavefronts), count.file, count.line, count.kind);
  };
  return key(a) < key(b);
}

std::string row_of(const LineCount& count, int columns) {
  std::string sectors, of_sectors, wavefronts;
  if (is_global(count) || count.kind.starts_with("peer")) {
    sectors = number(ratio(count.sectors, count.requests));
    of_sectors = fmt::format("{:.0f}%", 100 * used(count));
  } else if (is_shared(count)) {
    wavefronts = number(ratio(count.wavefronts, count.requests));
  }
  const std::string row = fmt::format(
      kColumns, count.line, count.kind, count.what, count.requests,
      number(ratio(count.lanes, count.requests)), sectors, of_sectors, wavefronts);
  const std::string policy = count.policy.empty() ? "" : "  // " + count.policy;
  // Source that is too long goes on below itself.
  const int indent = columns_of(row) + 2;
  return wrapped(fmt::format("{}  {}{}", row, source_text(count), policy), columns, indent) + "\n";
}

/// What was counted for a row, and of which tensors: "49152 (x 32768, weight 16384)".
std::string by_tensor(const Watched& launch, double RowCost::*bytes) {
  std::vector<std::pair<std::string, RowCost>> tensors;
  RowCost all;
  for (const LineCount& line : launch.counts.lines) {
    auto of_line = std::ranges::find(tensors, line.what, &std::pair<std::string, RowCost>::first);
    if (of_line == tensors.end()) of_line = tensors.insert(of_line, {line.what, {}});
    add(line, launch.rows, of_line->second);
    add(line, launch.rows, all);
  }
  std::string parts;
  for (const auto& [name, cost] : tensors) {
    if (cost.*bytes == 0) continue;
    parts += fmt::format("{}{} {}", parts.empty() ? " (" : ", ", name, number(cost.*bytes));
  }
  return number(all.*bytes) + (parts.empty() ? "" : parts + ")");
}

}  // namespace

std::string source_text(const LineCount& count) {
  for (const char* folder : {"", RMSNORM_SOURCE_DIR}) {
    std::string source;
    try {
      source = read_file(std::filesystem::path(folder) / count.file);
    } catch (const std::runtime_error&) {
      continue;
    }
    std::istringstream lines(source);
    std::string text;
    for (int line = 0; line < count.line; ++line) {
      if (!std::getline(lines, text)) return "";
    }
    text.resize(std::min(text.size(), text.find("//")));
    const std::size_t first = text.find_first_not_of(' ');
    if (first == std::string::npos) return "";
    return text.substr(first, text.find_last_not_of(' ') - first + 1);
  }
  return "";
}

const char* const kLineTableLegend = R"(
worst first: on top are the lines that waste most (sectors that nobody asks for in full, wavefronts
that bank conflicts cost), then come those that move most.
request: what a warp asks for at once; for a barrier or a trigger, what a block does.
lanes each: how many of the warp's 32 lanes take part in a request; for a barrier or a trigger, the
block's threads.
sector: 32 bytes of global memory. used: how much of its sectors a request asks for; more than 100%
if lanes share them.
wavefront: one pass of the 32 banks of shared memory; a request of 4 bytes a lane takes 1 at least,
one of 16 bytes takes 4.
)";

std::string number(double value) {
  const bool is_whole = std::abs(value - std::round(value)) < 1e-9 * std::max(1.0, value);
  return is_whole ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}", value);
}

bool is_predicted(const Watched& launch) {
  return bytes_of(launch.types.dtype) * launch.hidden % kSectorBytes == 0;
}

std::string difference_from_prediction(const Watched& launch) {
  constexpr double kTolerance = 0.01;
  if (!is_predicted(launch)) return "";
  const RowCost cost = row_cost(launch.counts.lines, launch.rows);
  const Traffic predicted = launch.predicted;
  const double all = predicted.read + predicted.written + predicted.from_peers + predicted.to_peers;
  const auto is_near = [&](double counted, double expected, double of) {
    return std::abs(counted - expected) <= kTolerance * of;
  };
  if (!is_near(cost.read, predicted.read, predicted.read) ||
      !is_near(cost.written, predicted.written, predicted.written)) {
    return fmt::format(
        "a row is to read {} and write {} bytes, but {} and {} were counted",
        number(predicted.read), number(predicted.written), by_tensor(launch, &RowCost::read),
        by_tensor(launch, &RowCost::written));
  }
  if (is_near(cost.from_peers, predicted.from_peers, all) &&
      is_near(cost.to_peers, predicted.to_peers, all)) {
    return "";
  }
  return fmt::format(
      "a row is to read {} and write {} bytes of other ranks, but {} and {} were counted",
      number(predicted.from_peers), number(predicted.to_peers),
      by_tensor(launch, &RowCost::from_peers), by_tensor(launch, &RowCost::to_peers));
}

std::string line_table(const Watched& launch, int columns) {
  std::vector<LineCount> lines = launch.counts.lines;
  std::ranges::sort(lines, is_worse);
  const std::int64_t blocks = launch.counts.blocks;
  std::string table = fmt::format(
      "\n{} in {}, {} x {}: what each line asks for in a launch of {} block{}\n",
      launch.implementation, with_dtype(launch.regime, to_string(launch.types)), launch.rows,
      launch.hidden, blocks, blocks == 1 ? "" : "s");
  table += fmt::format(kColumns, "", "", "", "", "lanes", "sectors", "", "wavefronts") + "\n";
  table +=
      fmt::format(kColumns, "line", "operation", "of", "requests", "each", "each", "used", "each") +
      "\n";
  std::string file;
  for (const LineCount& line : lines) {
    if (line.file != file) table += line.file + "\n";
    file = line.file;
    table += row_of(line, columns);
  }
  return table;
}

}  // namespace rmsnorm
