/// \file
/// Measures the GPU's memories and instructions, and writes what it found to a CSV file.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "common/base/device.hpp"
#include "common/base/files.hpp"
#include "common/measure/machine.hpp"
#include "common/programs/gpu_program.hpp"
#include "common/programs/output.hpp"
#include "common/records/csv_fields.hpp"

namespace {

using namespace rmsnorm;

void print(const MachineRow& row) {
  std::string what = row.probe + " of " + row.memory;
  if (row.stride_words) what += fmt::format(", stride {} words", *row.stride_words);
  if (row.set_bytes) what += fmt::format(", {} KiB", *row.set_bytes / 1024);
  if (row.loads) what += fmt::format(", {} threads x {} loads", *row.threads, *row.loads);
  if (row.cycles) fmt::print("{:60} {:8.2f} cycles {:8.2f} ns\n", what, *row.cycles, *row.ns);
  if (row.gbps) fmt::print("{:60} {:8.0f} GB/s\n", what, *row.gbps);
}

void print_clusters(const Gpu& gpu) {
  if (clusters_at_a_time(1) == 0) {
    fmt::print("no clusters: GPUs before Hopper have none\n");
    return;
  }
  for (const int blocks : {2, 4, 8, 16}) {
    const int clusters = clusters_at_a_time(blocks);
    fmt::print(
        "{:60} {:8} at a time, on {} of {} SMs\n",
        fmt::format("clusters of {} blocks of 512 threads, each on its own SM", blocks), clusters,
        clusters * blocks, gpu.multiprocessors);
  }
}

void run(const std::string& file) {
  require_writable(file);
  const Gpu gpu = find_gpu();
  std::vector<MachineRow> rows = measure_machine(gpu);
  for (MachineRow& row : rows) {
    row.device = gpu.name;
    row.driver = gpu.driver;
    row.cuda = cuda_version();
    row.version = build_commit();
    row.date = today();
    print(row);
  }
  csv::write_rows(file, rows, for_each_machine_field);
  print_clusters(gpu);
}

}  // namespace

int main(int argc, char** argv) {
  std::string file;
  CLI::App app(
      "Measures the GPU: latencies, bandwidths, conflicts of banks, and three instructions.");
  app.add_option("--csv", file, "The file to write")->type_name("FILE")->required();
  return run_gpu_program<WrongProbe>(app, argc, argv, [&] { run(file); });
}
