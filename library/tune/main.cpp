/// \file
/// Measures the library's forward pass in all shapes that its kernels have, and writes those that
/// are faster than the formula's into a table, which the next build compiles in.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/base/device.hpp"
#include "common/base/files.hpp"
#include "common/base/terminal.hpp"
#include "common/contract/types.hpp"
#include "common/measure/benchmark.hpp"
#include "common/measure/gpu.hpp"
#include "common/measure/roofline.hpp"
#include "common/operations/rms_norm.hpp"
#include "common/programs/gpu_program.hpp"
#include "common/programs/output.hpp"
#include "common/verify/verifier.hpp"
#include "library/forward_in_shape.hpp"
#include "library/tune/tuning.hpp"

namespace {

using namespace rmsnorm;
using kernels::ForwardShape;

constexpr double kSeconds = 0.02;               // of timed work
constexpr int kTurns = 3;                       // of all shapes, of which the median counts
constexpr std::int64_t kMostBytes = 1LL << 29;  // of x: far more than any L2 has

/// A shape that gives wrong results is a mistake in the library.
struct WrongShape : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Wanted {
  std::vector<int> hidden = {512,  768,  1024,  2048,  2560,  4096,  5120,
                             7168, 8192, 14336, 16384, 32768, 65536, 131072};
  std::vector<Dtype> dtypes = {Dtype::bf16, Dtype::fp32};
  std::string table;
};

/// One length of rows.
struct Width {
  Dtype dtype;
  int hidden;

  int vectors() const { return hidden / (16 / bytes_of(dtype)); }
  std::string text() const { return fmt::format("{} x {}", to_string(dtype), hidden); }
  WorkloadSpec spec(int rows) const {
    return {.rows = rows, .hidden = hidden, .types = {.dtype = dtype, .weight = dtype}};
  }
};

/// Few rows, some, and as many as the L2 is small against.
std::vector<int> rows_for(const Width& width) {
  const std::int64_t bytes = std::int64_t{width.hidden} * bytes_of(width.dtype);
  const int most = static_cast<int>(std::max<std::int64_t>(1, kMostBytes / bytes));
  std::vector<int> rows = {std::min(64, most), std::min(2048, most), most};
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

void check(const Width& width, const ForwardShape& shape, const Workload& workload) {
  progress(fmt::format("verifying {}: {}", width.text(), tune::text_of(shape)));
  const Verification found = verify(forward_in_shape(shape), workload);
  if (found.ok()) return;
  throw WrongShape(
      fmt::format("{} is wrong for {}: {}", tune::text_of(shape), width.text(), found.complaint));
}

/// Median microseconds of each shape, with a cold L2.
std::vector<double> measure(const std::vector<ForwardShape>& shapes, const Workload& workload) {
  std::vector<std::array<double, kTurns>> samples(shapes.size());
  for (int turn = 0; turn < kTurns; ++turn) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Implementation implementation = forward_in_shape(shapes[i]);
      const auto launch = [&](int set, cudaStream_t stream) {
        return implementation.launch(workload.problem(set), stream);
      };
      const int sets = workload.spec().sets;
      samples[i][turn] = time_launch(launch, Cache::cold, sets, kSeconds).median_us;
    }
  }
  std::vector<double> medians;
  for (std::array<double, kTurns>& times : samples) {
    std::sort(times.begin(), times.end());
    medians.push_back(times[kTurns / 2]);
  }
  return medians;
}

/// Verifies and times all shapes for rows of this length, prints the times as shares of the roof's,
/// and says what the table is to have of it.
tune::Plan tuned(const Width& width, const Gpu& gpu, bool has_clusters) {
  const Operation& operation = operation_of<RmsNorm>();
  const std::vector<ForwardShape> shapes = tune::candidates(width.vectors(), has_clusters);
  const Workload few(operation, width.spec(67));
  for (const ForwardShape& shape : shapes) check(width, shape, few);

  std::vector<std::vector<double>> times(shapes.size());
  std::vector<std::string> shares(shapes.size());
  std::string heading;
  for (const int rows : rows_for(width)) {
    WorkloadSpec spec = width.spec(rows);
    const std::size_t bytes = bytes_of_tensors(operation, {rows, width.hidden}, spec.types);
    spec.sets = sets_for_cold_cache(bytes, gpu.l2_bytes);
    if (spec.sets * bytes < 2 * gpu.l2_bytes) continue;  // they are never out of the L2
    progress(fmt::format("timing {} x {}", rows, width.text()));
    const Workload workload(operation, spec);
    const double roof = measure_roof(workload, Cache::cold, kSeconds).gbps;
    const std::vector<double> medians = measure(shapes, workload);
    heading += fmt::format(" {:>9}", rows);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      times[i].push_back(medians[i]);
      const auto moved = static_cast<double>(workload.bytes_to_move());
      shares[i] += fmt::format(" {:9.3f}", gbps(moved, medians[i]) / roof);
    }
  }
  end_progress();
  const tune::Choice choice = tune::choose(times);
  fmt::print("{:47}{}  rows; share of the roof\n", width.text(), heading);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const char* const mark = i == choice.index ? "* " : "  ";
    const char* const note = i == 0 ? "  the formula's" : "";
    fmt::print("{}{:45}{}{}\n", mark, tune::text_of(shapes[i]), shares[i], note);
  }
  std::fflush(stdout);

  tune::Plan plan{.device = gpu.name, .element_bytes = bytes_of(width.dtype)};
  plan.vectors = width.vectors();
  if (choice.index == 0) return plan;
  const ForwardShape& shape = shapes[choice.index];
  plan.kind = tune::text_of(shape.kind);
  plan.threads = shape.threads;
  plan.thread_vectors = shape.vectors;
  plan.cluster = shape.cluster;
  plan.gain = std::round(1000 * choice.gain) / 1000;
  plan.driver = gpu.driver;
  plan.version = build_commit();
  plan.date = today();
  return plan;
}

/// The lengths that were asked for. \throws std::runtime_error for one that has no shapes
std::vector<Width> widths_of(const Wanted& wanted) {
  std::vector<Width> widths;
  for (const Dtype dtype : wanted.dtypes) {
    for (const int hidden : wanted.hidden) {
      widths.push_back({dtype, hidden});
      if (hidden * bytes_of(dtype) % 16 == 0) continue;
      throw std::runtime_error(fmt::format(
          "rows of {} columns of {} are no whole vectors of 16 bytes, and have one shape alone",
          hidden, to_string(dtype)));
    }
  }
  return widths;
}

void run(const Wanted& wanted) {
  const std::vector<Width> widths = widths_of(wanted);
  std::vector<tune::Plan> plans = tune::read_plans(wanted.table);
  require_writable(wanted.table);
  if (is_cpu_device()) throw NoGpu("tune needs a GPU: the CPU device has no clock");
  const Gpu gpu = find_gpu();
  int major = 0;
  cuda_check(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0),
      "asking for the compute capability");
  for (const Width& width : widths) {
    tune::replace(plans, tuned(width, gpu, major >= 9));
    tune::write_plans(wanted.table, plans);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Wanted wanted;
  CLI::App app(
      "Measures the library's forward pass in each shape that its kernels have, and writes those "
      "that are faster than the formula's into the table that the next build compiles in.");
  app.add_option("--hidden", wanted.hidden, "Only rows of so many columns; may be repeated")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 21).description(""));
  const std::map<std::string, Dtype> dtypes = {
      {"fp32", Dtype::fp32}, {"bf16", Dtype::bf16}, {"fp16", Dtype::fp16}};
  std::vector<std::string> names;
  app.add_option("--dtype", names, "Only fp32, bf16 or fp16 (which has bf16's shapes)")
      ->type_name("NAME")
      ->check([&](const std::string& name) {
        return dtypes.contains(name) ? std::string()
                                     : fmt::format("there are no tensors of '{}'", name);
      });
  app.add_option("--table", wanted.table, "The table: library/plans.csv")
      ->type_name("FILE")
      ->required()
      ->take_last();
  return run_gpu_program<WrongShape>(app, argc, argv, [&] {
    if (!names.empty()) wanted.dtypes.clear();
    for (const std::string& name : names) wanted.dtypes.push_back(dtypes.at(name));
    run(wanted);
  });
}
