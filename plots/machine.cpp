#include "plots/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <stdexcept>

#include "common/records/csv_fields.hpp"
#include "plots/format.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {
namespace {

constexpr const char* kGpu = "NVIDIA H200";
constexpr double kSms = 132;  // of that GPU

constexpr double kAlike = 1.03;      // latencies of a level, the longest by the shortest
constexpr std::ptrdiff_t kSets = 4;  // of a level, at least

/// The memories whose bandwidth is measured: what the file and the pages call them.
constexpr std::pair<const char*, const char*> kMemories[] = {
    {"shared", "shared memory"}, {"l1", "L1"}, {"l2", "L2"}, {"dram", "DRAM"}};

template <class T>
bool is_positive(const std::optional<T>& value) {
  return value && *value > 0;
}

/// What a row lacks, as the end of a sentence; empty if nothing.
const char* lack_of(const MachineRow& row) {
  if (row.probe == "bandwidth") {
    const bool is_whole = is_positive(row.threads) && is_positive(row.loads);
    return is_whole && is_positive(row.gbps) ? "" : "a bandwidth without threads, loads or gbps";
  }
  if (row.probe != "latency" && row.probe != "instruction")
    return "none of latency, bandwidth and instruction";
  if (!is_positive(row.cycles) || !is_positive(row.ns)) return "a row without cycles or ns";
  if (row.memory == "shared" && row.stride_words.value_or(-1) < 0)
    return "a latency of shared memory without a stride";
  if (row.memory == "global" && !is_positive(row.set_bytes))
    return "a latency of global memory without a set";
  return "";
}

/// The lower one of the two in the middle, if there are two.
double median(std::vector<double> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Level level_of(const std::vector<MachineRow>& sets) {
  std::vector<double> cycles, ns;
  for (const MachineRow& row : sets) {
    cycles.push_back(*row.cycles);
    ns.push_back(*row.ns);
  }
  return {*sets.front().set_bytes, *sets.back().set_bytes, median(cycles), median(ns)};
}

/// How often the busiest bank has to serve a warp, if the lanes' words are a stride apart.
int wavefronts(int stride) {
  constexpr int kBanks = 32;
  return stride == 0 ? 1 : std::gcd(stride, kBanks);  // at 0, all lanes read one word
}

/// A load of shared memory, whose lanes read neighbouring words.
const MachineRow& neighbours(const std::vector<MachineRow>& of_shared) {
  const auto row = std::ranges::find(of_shared, 1, &MachineRow::stride_words);
  if (row == of_shared.end())
    throw std::runtime_error("there is no latency of shared memory with a stride of 1");
  return *row;
}

std::string latency_table(const std::vector<MachineRow>& rows) {
  const std::vector<MachineRow> of_shared = rows_of(rows, "latency", "shared");
  const MachineRow& shared = neighbours(of_shared);
  std::vector<TableRow> table = {
      {"a load, alone", "working sets", "cycles", "ns"},
      {"shared memory, without conflicts", kNothing, fmt::format("{:.0f}", *shared.cycles),
       fmt::format("{:.1f}", *shared.ns)}};
  const auto [l1, l2, dram] = levels_of(rows);
  for (const auto& [name, level] :
       {std::pair("L1", l1), std::pair("L2", l2), std::pair("DRAM", dram)}) {
    table.push_back(
        {name, fmt::format("{} to {}", binary_bytes(level.smallest), binary_bytes(level.largest)),
         fmt::format("{:.0f}", level.cycles),
         fmt::format("{:.{}f}", level.ns, level.ns < 100 ? 1 : 0)});
  }
  return markdown_table(table);
}

std::string banks_table(const std::vector<MachineRow>& rows) {
  const std::vector<MachineRow> of_shared = rows_of(rows, "latency", "shared");
  const MachineRow& shared = neighbours(of_shared);
  std::vector<TableRow> table = {
      {"stride, words", "wavefronts, computed", "cycles, measured", "for each further wavefront"}};
  for (const MachineRow& row : of_shared) {
    const int passes = wavefronts(*row.stride_words);
    table.push_back(
        {fmt::format("{}", *row.stride_words), fmt::format("{}", passes),
         fmt::format("{:.1f}", *row.cycles),
         passes == 1 ? kNothing
                     : fmt::format("{:.2f}", (*row.cycles - *shared.cycles) / (passes - 1))});
  }
  return markdown_table(table);
}

std::string bandwidth_table(const std::vector<MachineRow>& rows) {
  const double sms = sms_of(rows.front().device);
  const std::vector<MachineRow> of_shared = rows_of(rows, "latency", "shared");
  const auto [l1, l2, dram] = levels_of(rows);
  const double alone[] = {*neighbours(of_shared).ns, l1.ns, l2.ns, dram.ns};
  std::vector<TableRow> table = {
      {"memory", "best bandwidth", "an SM's share", "in flight by the law, at least",
       fmt::format("in flight for {:.0f} %", kNearlyBest), "a load takes then", "alone"}};
  for (std::size_t i = 0; i < std::size(kMemories); ++i) {
    const auto [best, fewest] = reach_of(rows, kMemories[i].first);
    const double share = *best.gbps / sms;
    table.push_back(
        {kMemories[i].second, gigabytes_per_second(*best.gbps),
         fmt::format("{:.1f} bytes/ns", share), kibibytes(share * alone[i]),
         kibibytes(in_flight_of(fewest)),
         fmt::format("{:.0f} ns", in_flight_of(fewest) / (*fewest.gbps / sms)),
         fmt::format("{:.0f} ns", alone[i])});
  }
  return markdown_table(table);
}

std::string instruction_table(const std::vector<MachineRow>& rows) {
  std::vector<TableRow> table = {
      {"instruction", "cycles per warp instruction", "results per cycle and SM"}};
  for (const MachineRow& row :
       only(rows, [](const MachineRow& r) { return r.probe == "instruction"; })) {
    table.push_back(
        {code(row.memory), fmt::format("{:.2f}", *row.cycles),
         fmt::format("{:.1f}", 32 / *row.cycles)});
  }
  return table.size() == 1 ? "Not recorded yet.\n" : markdown_table(table);
}

}  // namespace

std::vector<MachineRow> read_machine(const std::filesystem::path& file) {
  const auto rows = csv::read_rows<MachineRow>(file, for_each_machine_field);
  if (rows.empty()) throw std::runtime_error(fmt::format("{}: no measurements", file.string()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto complain = [&](const std::string& what) {
      throw std::runtime_error(fmt::format("{}: line {}: {}", file.string(), i + 2, what));
    };
    if (const std::string lack = lack_of(rows[i]); !lack.empty()) complain(lack);
    if (rows[i].device != rows.front().device) complain("another GPU");
  }
  return rows;
}

double sms_of(const std::string& device) {
  if (device == kGpu) return kSms;
  throw std::runtime_error(
      fmt::format("bytes in flight: how many SMs a '{}' has is not known", device));
}

std::vector<MachineRow> rows_of(
    const std::vector<MachineRow>& rows, const std::string& probe, const std::string& memory) {
  return only(rows, [&](const MachineRow& r) { return r.probe == probe && r.memory == memory; });
}

Levels levels_of(const std::vector<MachineRow>& rows) {
  std::vector<MachineRow> sets = rows_of(rows, "latency", "global");
  std::ranges::sort(sets, {}, &MachineRow::set_bytes);
  std::vector<Level> levels;
  for (auto first = sets.begin(); first != sets.end();) {
    double least = *first->cycles;
    double most = least;
    const auto last = std::find_if(first, sets.end(), [&](const MachineRow& row) {
      least = std::min(least, *row.cycles);
      most = std::max(most, *row.cycles);
      return most > kAlike * least;
    });
    if (last - first >= kSets) levels.push_back(level_of({first, last}));
    first = last;
  }
  if (levels.size() < 3) {
    throw std::runtime_error(fmt::format(
        "the latency of global memory has {} levels, fewer than L1, L2 and DRAM", levels.size()));
  }
  return {levels[0], levels[1], levels.back()};
}

double in_flight_of(const MachineRow& bandwidth) {
  constexpr double kBytesOfLoad = 16;
  return *bandwidth.threads * *bandwidth.loads * kBytesOfLoad;
}

Reach reach_of(const std::vector<MachineRow>& rows, const std::string& memory) {
  std::vector<MachineRow> of_memory = rows_of(rows, "bandwidth", memory);
  if (of_memory.empty())
    throw std::runtime_error(fmt::format("there is no bandwidth of '{}'", memory));
  // The fastest first, and of those with as many bytes in flight, too.
  std::ranges::stable_sort(of_memory, std::greater(), &MachineRow::gbps);
  const MachineRow best = of_memory.front();
  const std::vector<MachineRow> nearly = only(of_memory, [&](const MachineRow& row) {
    return *row.gbps >= kNearlyBest / 100 * *best.gbps;
  });
  return {best, *std::ranges::min_element(nearly, {}, in_flight_of)};
}

std::string make_machine_table(
    const std::vector<MachineRow>& rows, const std::vector<std::string>& words) {
  if (rows.empty()) return "Not recorded yet.\n";
  static const std::map<std::string, std::string (*)(const std::vector<MachineRow>&)> kTables = {
      {"latency", latency_table},
      {"banks", banks_table},
      {"bandwidth", bandwidth_table},
      {"instructions", instruction_table}};
  const auto table = kTables.find(words.size() == 1 ? words.front() : "");
  if (table == kTables.end())
    throw std::runtime_error("'machine' needs 'latency', 'banks', 'bandwidth' or 'instructions'");
  const MachineRow& any = rows.front();
  return fmt::format(
      "{}\nMeasured on {}, driver {}, CUDA {}, commit {}, {}.\n", table->second(rows), any.device,
      any.driver, any.cuda, code(any.version), any.date);
}

}  // namespace rmsnorm::plots
