#pragma once
/// \file
/// What the memories and SMs of a GPU can do, as ./rmsnorm machine writes it: rows of a CSV file.

#include <cstdint>
#include <optional>
#include <string>

namespace rmsnorm {

/// One measurement, a line of the CSV file. What a probe does not have is empty:
///
/// - latency of shared: a warp's load, the lanes' words a stride apart. It has stride_words, cycles
///   and ns.
/// - latency of global: one thread's load from a working set. It has set_bytes, cycles and ns.
/// - bandwidth of shared, l1, l2, dram: all SMs read. It has set_bytes, threads, loads and gbps.
/// - instruction fma, ex2, rsqrt: one SM computes. It has threads, cycles and ns.
struct MachineRow {
  std::string probe = {};                      ///< "latency", "bandwidth" or "instruction"
  std::string memory = {};                     ///< of what, or which instruction
  std::optional<std::int64_t> set_bytes = {};  ///< read again and again
  std::optional<int> stride_words = {};        ///< from lane to lane, in words of 4 bytes
  std::optional<int> threads = {};             ///< of each SM that read or compute
  std::optional<int> loads = {};               ///< that each of them has in flight, 16 bytes each
  std::optional<double> cycles = {};           ///< of a load, or of a warp's instruction
  std::optional<double> ns = {};               ///< likewise
  std::optional<double> gbps = {};             ///< of the whole GPU, 1 GB = 10^9 bytes
  double spread_pct = 0;                       ///< of ns or gbps, as in a Timing
  int samples = 0;                             ///< of which cycles, ns and gbps are medians
  std::string device = {};                     ///< as in a Result
  std::string driver = {};                     ///< likewise
  std::string cuda = {};                       ///< likewise
  std::string version = {};                    ///< likewise
  std::string date = {};                       ///< likewise
};

/// Calls visit(name, field) for every field of a row, in the header's order: csv::write_rows needs
/// it.
inline constexpr auto for_each_machine_field = [](auto& r, auto&& visit) {
  visit("probe", r.probe), visit("memory", r.memory), visit("set_bytes", r.set_bytes);
  visit("stride_words", r.stride_words), visit("threads", r.threads), visit("loads", r.loads);
  visit("cycles", r.cycles), visit("ns", r.ns), visit("gbps", r.gbps);
  visit("spread_pct", r.spread_pct), visit("samples", r.samples), visit("device", r.device);
  visit("driver", r.driver), visit("cuda", r.cuda), visit("version", r.version);
  visit("date", r.date);
};

}  // namespace rmsnorm
