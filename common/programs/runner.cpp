#include "common/programs/runner.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <map>
#include <memory>

#include "common/base/build_info.hpp"
#include "common/base/cuda_check.hpp"
#include "common/base/device.hpp"
#include "common/base/terminal.hpp"
#include "common/measure/benchmark.hpp"
#include "common/measure/roofline.hpp"
#include "common/verify/verifier.hpp"

namespace rmsnorm {
namespace {

/// One job being done.
class Runner {
 public:
  Runner(
      const Job& job, const std::optional<Gpu>& gpu, double min_seconds, const Listener& listener)
      : job_(job),
        gpu_(gpu),
        min_seconds_(min_seconds),
        listener_(listener),
        workload_(*job.operation, job.spec) {}

  void run() {
    verify_all();
    if (job_.caches.empty()) {
      for (const Implementation& implementation : job_.implementations) {
        report(implementation, std::nullopt, std::nullopt);
      }
    }
    for (const Cache cache : job_.caches) {
      const bool too_small = cache == Cache::cold && !job_.is_cold;
      std::optional<double> copy_gbps;
      if (!too_small) {
        progress(fmt::format("copying {}, {}", text(), to_string(cache)));
        copy_gbps = measure_copy(workload_, cache, min_seconds_);
      }
      for (const Implementation& implementation : job_.implementations) {
        report(implementation, cache, copy_gbps);
      }
    }
  }

 private:
  /// Everything is verified before anything is timed.
  void verify_all() {
    for (const Implementation& implementation : job_.implementations) {
      const std::string reason = implementation.unsupported(workload_.problem());
      unsupported_[implementation.slug] = reason;
      if (!reason.empty()) continue;
      progress(fmt::format("verifying {} on {}", implementation.slug, text()));
      Verification found = verify_or_report_loss(implementation);
      if (!found.observation.lines.empty() && job_.spec.rows > 0) {
        listener_.counted(
            watched(implementation, workload_, job_.regime, std::move(found.observation)));
      }
      verified_[implementation.slug] = std::move(found);
    }
  }

  Verification verify_or_report_loss(const Implementation& implementation) {
    const std::int64_t elements = std::int64_t{job_.spec.rows} * job_.spec.hidden;
    try {
      return verify(
          implementation, workload_, nullptr,
          elements <= kElementsToWatch ? Watch::yes : Watch::no);
    } catch (const CudaError& error) {
      Finding lost{.result = describe(implementation), .remark = error.what()};
      lost.result.verdict = Verdict::fail;
      listener_.found(lost);
      throw;
    }
  }

  /// \param cache in which it is to be timed, and what the copy reached there; empty: not at all
  void report(
      const Implementation& implementation, std::optional<Cache> cache,
      std::optional<double> copy_gbps) {
    Finding finding{.result = describe(implementation)};
    Result& result = finding.result;
    if (copy_gbps) result.cache = cache;
    result.copy_gbps = copy_gbps;
    if (const std::string& reason = unsupported_.at(implementation.slug); !reason.empty()) {
      result.verdict = Verdict::unsupported;
      finding.remark = reason;
      return listener_.found(finding);
    }
    const Verification& found = verified_.at(implementation.slug);
    result.max_error = found.max_error;
    result.error_bound = found.error_bound;
    result.verdict = found.ok() ? Verdict::pass : Verdict::fail;
    finding.remark = found.complaint;
    finding.hazards = found.hazards;
    if (found.ok()) finding.remark = timed(implementation, cache, result);
    listener_.found(finding);
  }

  /// Fills in the times if there is a copy to compare them with; says what is to be said of it.
  std::string timed(
      const Implementation& implementation, std::optional<Cache> cache, Result& result) {
    if (job_.spec.memory == Memory::host) {
      return job_.has_fewer_rows ? "on the CPU, fewer rows" : "on the CPU";
    }
    if (is_cpu_device()) return "on the CPU device";
    if (!cache) return "";
    if (!result.copy_gbps) return "too small to be timed with a cold L2";
    progress(fmt::format("timing {} on {}, {}", implementation.slug, text(), to_string(*cache)));
    // One workspace for all sets, as in a framework, which gives the same memory to the next that
    // asks.
    const GuardedTensor workspace =
        make_workspace(Memory::device, implementation.workspace_bytes(workload_.problem()));
    const auto launch = [&](int set, cudaStream_t stream) {
      Problem p = workload_.problem(set);
      p.workspace = workspace.data();
      return implementation.launch(p, stream);
    };
    try {
      const Timing timing = time_launch(launch, *cache, job_.spec.sets, min_seconds_);
      result.median_us = timing.median_us;
      result.spread_pct = timing.spread_pct;
      result.samples = timing.samples;
      result.gbps = gbps(static_cast<double>(result.bytes), timing.median_us);
      return "";
    } catch (const CudaError& error) {
      result.verdict = Verdict::fail;
      if (cudaDeviceSynchronize() == cudaSuccess) return error.what();
      listener_.found({.result = result, .remark = error.what()});
      throw;  // the GPU is lost, and with it all that would follow
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
    result.bytes = workload_.bytes_to_move();
    if (unsupported_.at(implementation.slug).empty()) {  // else nothing is promised
      const Traffic traffic = implementation.traffic(workload_.problem());
      result.bytes_per_row_predicted = traffic.read + traffic.written;
    }
    if (on_gpu && !is_cpu_device()) result.peak_gbps = gpu_->peak_gbps;
    result.device = on_gpu ? gpu_->name : "cpu";
    result.driver = on_gpu ? gpu_->driver : "";
    result.cuda = cuda_version();
    result.version = build_commit();
    result.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
    return result;
  }

  std::string text() const {
    const WorkloadSpec& spec = job_.spec;
    return with_dtype(fmt::format("{} x {}", spec.rows, spec.hidden), to_string(spec.types));
  }

  const Job& job_;
  const std::optional<Gpu>& gpu_;
  double min_seconds_;
  const Listener& listener_;
  Workload workload_;
  std::map<std::string, std::string> unsupported_;  // by slug: the reason, or ""
  std::map<std::string, Verification> verified_;    // those that are supported
};

}  // namespace

void run_job(
    const Job& job, const std::optional<Gpu>& gpu, double min_seconds, const Listener& listener) {
  Runner(job, gpu, min_seconds, listener).run();
  listener.job_done();
}

}  // namespace rmsnorm
