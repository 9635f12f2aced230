#include "common/programs/schedule.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>

#include "common/base/device.hpp"
#include "common/measure/benchmark.hpp"

namespace rmsnorm {
namespace {

/// A lesson that runs on the CPU gets as many rows as make this many elements: enough to verify it.
constexpr std::int64_t kElementsForCpuLesson = std::int64_t{1} << 22;

std::size_t bytes_of_set(const Operation& operation, const WorkloadSpec& spec) {
  return static_cast<std::size_t>(
      bytes_of_tensors(operation, sizes_of(operation, spec), spec.types));
}

/// Why it is not timed with a cold L2, as a remark; "" if it can be.
std::string why_not_cold(
    const Operation& operation, const WorkloadSpec& spec, std::size_t l2_bytes) {
  const std::string what = "to be timed with a cold L2";
  if (spec.sets * bytes_of_set(operation, spec) < 2 * l2_bytes) return "too small " + what;
  if (spec.sets == 1) return "too large " + what + ", which takes two sets of tensors";
  return "";
}

/// An operation's sizes beside rows and columns, as a WorkloadSpec has them.
std::array<int, kMaxSizes> chosen_sizes(const Options& options, const Operation& operation) {
  std::array<int, kMaxSizes> more = {};
  for (std::size_t i = 0; i < operation.sizes.size(); ++i) {
    const auto chosen = options.sizes.find(operation.sizes[i].name);
    if (chosen != options.sizes.end()) more[i] = chosen->second;
  }
  return more;
}

class Scheduler {
 public:
  Scheduler(const Options& options, const std::optional<Gpu>& gpu) : options_(options), gpu_(gpu) {}

  Schedule make() {
    for (const Regime& regime : options_.regimes) {
      for (const Shape shape : regime.shapes) {
        const std::size_t first = schedule_.jobs.size();
        for (const Implementation& implementation : options_.implementations) {
          if (!is_measured_in(*implementation.operation, regime)) continue;
          const bool is_taken = implementation.operation->takes(shape.hidden);
          if (!is_taken && (regime.name != kCustomRegime || has_others(implementation))) continue;
          if (implementation.memory == Memory::host) {
            add_host_job(implementation, regime, shape);
          } else if (gpu_) {
            const Operation& operation = *implementation.operation;
            const Shape here = shape_here(options_, operation, regime, shape);
            add_device_jobs(implementation, regime, here, first);
          }
        }
      }
    }
    return schedule_;
  }

 private:
  /// Is another operation to be run, too?
  bool has_others(const Implementation& implementation) const {
    const auto is_other = [&](const Operation* other) { return other != implementation.operation; };
    return std::ranges::any_of(options_.implementations, is_other, &Implementation::operation);
  }

  void add_host_job(const Implementation& implementation, const Regime& regime, Shape wanted) {
    Shape shape = wanted;
    while (shape.rows > 1 && std::int64_t{shape.rows} * shape.hidden > kElementsForCpuLesson) {
      shape.rows /= 2;
    }
    if (is_repeated(implementation, regime, shape)) return;
    const Operation& operation = *implementation.operation;
    const WorkloadSpec spec = spec_of(operation, Memory::host, shape, {});
    // The tensors, and copies of them for the comparison. Linux would promise more than it has.
    const std::size_t needed = 2 * Workload::bytes(operation, spec);
    const auto memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    if (needed > memory / 10 * 9) {
      throw TooLarge(fmt::format(
          "{} x {} needs {:.1f} GiB, and this machine has {:.1f} GiB in all", shape.rows,
          shape.hidden, needed / 0x1p30, memory / 0x1p30));
    }
    schedule_.jobs.push_back(
        {&operation, {implementation}, regime.name, spec, {}, "", shape.rows < wanted.rows});
  }

  /// A job for each type, or a place in the job with this shape, from `first` on.
  void add_device_jobs(
      const Implementation& implementation, const Regime& regime, Shape shape, std::size_t first) {
    if (is_cpu_device() && is_repeated(implementation, regime, shape)) return;
    for (const Types& types : types_for(options_, implementation, regime)) {
      const auto is_alike = [&](const Job& job) {
        return job.operation == implementation.operation && job.spec.types == types &&
               job.spec.memory == Memory::device;
      };
      const auto job = std::find_if(schedule_.jobs.begin() + first, schedule_.jobs.end(), is_alike);
      if (job != schedule_.jobs.end()) {
        job->implementations.push_back(implementation);
      } else {
        add_job(implementation, regime, shape, types);
      }
    }
  }

  void add_job(
      const Implementation& implementation, const Regime& regime, Shape wanted,
      const Types& types) {
    const Operation& operation = *implementation.operation;
    const WorkloadSpec spec = fit(operation, regime, wanted, types);
    std::vector<Cache> caches;
    if (!options_.verify_only && spec.rows > 0 && !is_cpu_device()) {
      caches = options_.only_cache ? std::vector{*options_.only_cache} : regime.caches;
    }
    const bool has_fewer_rows = spec.rows < wanted.rows;
    schedule_.jobs.push_back(
        {&operation,
         {implementation},
         regime.name,
         spec,
         caches,
         why_not_cold(operation, spec, gpu_->l2_bytes),
         has_fewer_rows});
  }

  /// Whether it has been scheduled for this shape: with fewer rows, many shapes of a sweep become
  /// the same and, on the CPU device, some regimes.
  bool is_repeated(const Implementation& implementation, const Regime& regime, Shape shape) {
    const bool on_host = implementation.memory == Memory::host;
    const std::string name = fmt::format(
        "{} {} {}", implementation.slug, implementation.operation->name,
        on_host ? regime.name : "");
    const auto [seen, is_new] = seen_.try_emplace({name, shape.rows, shape.hidden}, regime.name);
    if (is_new) return false;
    const std::string note = fmt::format(
        "{} is the same small problem as {} here: {} x {}", regime.name, seen->second, shape.rows,
        shape.hidden);
    if (seen->second != regime.name &&
        std::ranges::find(schedule_.notes, note) == schedule_.notes.end()) {
      schedule_.notes.push_back(note);
    }
    return true;
  }

  /// With as many sets as a cold L2 takes; with one on the CPU device, which has no clock.
  WorkloadSpec with_sets(const Operation& operation, Shape shape, const Types& types) const {
    WorkloadSpec spec = spec_of(operation, Memory::device, shape, types);
    if (is_cpu_device()) return spec;
    spec.sets = sets_for_cold_cache(bytes_of_set(operation, spec), gpu_->l2_bytes);
    return spec;
  }

  WorkloadSpec fit(
      const Operation& operation, const Regime& regime, Shape shape, const Types& types) const {
    const std::size_t budget = gpu_->free_bytes / 10 * 9;
    // A regime has the same shape in every type, that of fp32.
    while (regime.name != kCustomRegime && shape.rows > 1 &&
           Workload::bytes(operation, with_sets(operation, shape, {})) > budget) {
      shape.rows /= 2;
    }
    WorkloadSpec spec = with_sets(operation, shape, types);
    if (Workload::bytes(operation, spec) > budget) spec.sets = 1;
    const std::size_t needed = Workload::bytes(operation, spec);
    if (needed > budget) {
      throw TooLarge(fmt::format(
          "{} x {} needs {:.1f} GiB on the {}, which has {:.1f} GiB to spare", shape.rows,
          shape.hidden, needed / 0x1p30, is_cpu_device() ? "CPU device" : "GPU", budget / 0x1p30));
    }
    return spec;
  }

  WorkloadSpec spec_of(
      const Operation& operation, Memory memory, Shape shape, const Types& types) const {
    return {
        .memory = memory,
        .rows = shape.rows,
        .hidden = shape.hidden,
        .eps = options_.eps,
        .seed = options_.seed,
        .types = types,
        .more = chosen_sizes(options_, operation)};
  }

  const Options& options_;
  const std::optional<Gpu>& gpu_;
  Schedule schedule_;
  // Implementation, rows, columns, and the first regime with them.
  std::map<std::tuple<std::string, int, int>, std::string> seen_;
};

}  // namespace

Schedule make_schedule(const Options& options, const std::optional<Gpu>& gpu) {
  return Scheduler(options, gpu).make();
}

Shape shape_here(
    const Options& options, const Operation& operation, const Regime& regime, Shape wanted) {
  if (regime.name == kCustomRegime) return wanted;
  const WorkloadSpec spec = {.hidden = wanted.hidden, .more = chosen_sizes(options, operation)};
  const int lines = lines_of_row(operation, sizes_of(operation, spec));
  const auto in_rows = [&](Shape shape) {
    return Shape{std::max(1, shape.rows / lines), shape.hidden};
  };
  if (!is_cpu_device()) return in_rows(wanted);
  const bool has_variants =
      std::ranges::any_of(options.implementations, is_variant, &Implementation::slug);
  return in_rows(
      options.summary && !has_variants ? small_version(wanted, 8) : small_version(wanted));
}

}  // namespace rmsnorm
