#pragma once
/// \file
/// What ./rmsnorm machine could have measured.

#include <cstdint>
#include <utility>
#include <vector>

#include "common/records/machine_row.hpp"

namespace tests {

/// The memories of an H200 at 2 GHz: three levels of four sets each, with one set between two of
/// them; shared memory with strides of 1, 8 and 32 words; each bandwidth with 16 and 32 KiB in
/// flight on an SM, and that of DRAM twice with 32; and one instruction, 16 results in a cycle.
inline std::vector<rmsnorm::MachineRow> memories() {
  std::vector<rmsnorm::MachineRow> rows;
  for (const auto& [stride, cycles] : {std::pair(1, 20.0), std::pair(8, 34.0), std::pair(32, 82.0)})
    rows.push_back(
        {.probe = "latency", .memory = "shared", .stride_words = stride, .cycles = cycles});
  std::int64_t set = 1024;
  for (const double cycles : {40, 40, 41, 40, 100, 200, 200, 202, 200, 400, 600, 600, 610, 600}) {
    rows.push_back({.probe = "latency", .memory = "global", .set_bytes = set, .cycles = cycles});
    set *= 2;
  }
  rows.push_back({.probe = "instruction", .memory = "ex2", .threads = 1024, .cycles = 2.0});
  for (rmsnorm::MachineRow& row : rows) row.ns = *row.cycles / 2;
  const auto add = [&](const char* memory, int threads, double bytes_of_sm_in_a_ns) {
    rows.push_back({.probe = "bandwidth", .memory = memory, .threads = threads, .loads = 1});
    rows.back().gbps = 132 * bytes_of_sm_in_a_ns;
  };
  for (const char* memory : {"shared", "l1", "l2"}) add(memory, 2048, 256), add(memory, 1024, 250);
  add("dram", 1024, 32), add("dram", 2048, 39), add("dram", 2048, 38), add("dram", 4096, 40);
  for (rmsnorm::MachineRow& row : rows) row.device = "NVIDIA H200", row.version = "abc";
  return rows;
}

}  // namespace tests
