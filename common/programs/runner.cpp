#include "common/programs/runner.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/base/device.hpp"
#include "common/base/terminal.hpp"
#include "common/measure/benchmark.hpp"
#include "common/measure/roofline.hpp"
#include "common/verify/verifier.hpp"

namespace rmsnorm {
namespace {

/// The CPU device watches problems up to this many elements: a larger one takes it too long.
constexpr std::int64_t kElementsToWatch = std::int64_t{1} << 22;

class Runner {
 public:
  Runner(const Job& job, const std::optional<Gpu>& gpu, double min_seconds, Output& output)
      : job_(job),
        gpu_(gpu),
        min_seconds_(min_seconds),
        output_(output),
        workload_(*job.operation, job.spec) {}

  /// Everything is verified before anything is timed.
  void run() {
    std::vector<Finding> findings;
    for (const Implementation& implementation : job_.implementations) {
      findings.push_back(verified(implementation));
    }
    std::vector<std::optional<Cache>> caches(job_.caches.begin(), job_.caches.end());
    if (caches.empty()) caches.push_back(std::nullopt);
    for (const std::optional<Cache> cache : caches) {
      std::optional<Roof> roof;
      if (cache && (cache == Cache::warm || job_.not_cold.empty())) {
        progress(fmt::format("measuring the roof of {}, {}", text(), to_string(*cache)));
        roof = measure_roof(workload_, *cache, min_seconds_);
      }
      for (std::size_t i = 0; i < findings.size(); ++i) {
        Finding finding = findings[i];
        if (roof) {
          finding.result.cache = cache;
          finding.result.roof = roof->name;
          finding.result.roof_gbps = roof->gbps;
        }
        if (finding.result.verdict == Verdict::pass) {
          finding.remark = timed(job_.implementations[i], cache, roof, finding.result);
        }
        output_.add(finding);
      }
    }
  }

 private:
  /// What there is to say before anything is timed.
  Finding verified(const Implementation& implementation) {
    Finding finding{.result = describe(implementation)};
    Result& result = finding.result;
    finding.remark = implementation.unsupported(workload_.problem());
    if (!finding.remark.empty()) {
      result.verdict = Verdict::unsupported;
      return finding;
    }
    const Traffic traffic = implementation.traffic(workload_.problem());
    result.bytes_per_row_predicted = traffic.read + traffic.written;

    progress(fmt::format("verifying {} on {}", implementation.slug, text()));
    Verification found;
    try {
      found = verify(
          implementation, workload_, nullptr,
          workload_.elements() <= kElementsToWatch ? Watch::yes : Watch::no);
    } catch (const CudaError& error) {
      report_loss(result, error);
      throw;
    }
    result.max_error = found.max_error;
    result.error_bound = found.error_bound;
    result.verdict = found.ok() ? Verdict::pass : Verdict::fail;
    finding.remark = found.complaint;
    finding.hazards = found.hazards;
    if (!found.counts.lines.empty() && job_.spec.rows > 0) {
      output_.add(watched(implementation, workload_, job_.regime, std::move(found.counts)));
    }
    return finding;
  }

  /// The GPU is lost, and with it all that would follow.
  void report_loss(Result result, const CudaError& error) const {
    result.verdict = Verdict::fail;
    output_.add(Finding{.result = std::move(result), .remark = error.what()});
  }

  /// Fills in the times if there is a roof to compare them with; says what is to be said of it.
  std::string timed(
      const Implementation& implementation, std::optional<Cache> cache,
      const std::optional<Roof>& roof, Result& result) {
    if (job_.spec.memory == Memory::host) {
      return job_.has_fewer_rows ? "on the CPU, fewer rows" : "on the CPU";
    }
    if (is_cpu_device() || !cache) return "";
    if (!roof) return job_.not_cold;
    progress(fmt::format("timing {} on {}, {}", implementation.slug, text(), to_string(*cache)));
    // One workspace for all sets, as in a framework, which gives the same memory to the next that
    // asks.
    const GuardedTensor workspace = make_workspace(implementation, workload_);
    const auto launch = [&](int set, cudaStream_t stream) {
      Problem p = workload_.problem(set);
      give(p, workspace);
      return implementation.launch(p, stream);
    };
    try {
      const Timing timing = time_launch(launch, *cache, job_.spec.sets, min_seconds_);
      result.median_us = timing.median_us;
      result.spread_pct = timing.spread_pct;
      result.samples = timing.samples;
      result.disturbed = timing.disturbed ? timing.disturbed : roof->disturbed;
      result.gbps = gbps(static_cast<double>(result.bytes), timing.median_us);
      return "";
    } catch (const CudaError& error) {
      result.verdict = Verdict::fail;
      if (cudaDeviceSynchronize() == cudaSuccess) return error.what();
      report_loss(result, error);
      throw;
    }
  }

  /// The columns that are known before anything has run.
  Result describe(const Implementation& implementation) const {
    const bool on_gpu = job_.spec.memory == Memory::device;
    Result result;
    result.operation = job_.operation->name;
    result.implementation = implementation.slug;
    result.regime = job_.regime;
    result.dtype = to_string(job_.spec.types);
    result.rows = job_.spec.rows;
    result.hidden = job_.spec.hidden;
    result.sizes = text_of_sizes(*job_.operation, workload_.problem());
    result.bytes = workload_.bytes_to_move();
    if (on_gpu && !is_cpu_device()) result.peak_gbps = gpu_->peak_gbps;
    result.device = on_gpu ? gpu_->name : "cpu";
    result.driver = on_gpu ? gpu_->driver : "";
    result.cuda = cuda_version();
    result.version = build_commit();
    result.date = today();
    return result;
  }

  std::string text() const {
    const WorkloadSpec& spec = job_.spec;
    std::string text = fmt::format("{} x {}", spec.rows, spec.hidden);
    const std::string sizes = text_of_sizes(*job_.operation, workload_.problem());
    if (!sizes.empty()) text += ", " + sizes;
    return with_dtype(text, to_string(spec.types));
  }

  const Job& job_;
  const std::optional<Gpu>& gpu_;
  double min_seconds_;
  Output& output_;
  Workload workload_;
};

}  // namespace

void run_job(const Job& job, const std::optional<Gpu>& gpu, double min_seconds, Output& output) {
  Runner(job, gpu, min_seconds, output).run();
  output.save();
}

}  // namespace rmsnorm
