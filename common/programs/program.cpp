#include "common/programs/program.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "common/base/build_info.hpp"
#include "common/base/cuda_check.hpp"
#include "common/base/files.hpp"
#include "common/measure/benchmark.hpp"
#include "common/measure/gpu.hpp"
#include "common/measure/roofline.hpp"
#include "common/programs/options.hpp"
#include "common/programs/prediction.hpp"
#include "common/programs/report.hpp"
#include "common/programs/trace_report.hpp"
#include "common/records/csv.hpp"
#include "common/records/trace_csv.hpp"
#include "common/tensors/any_workload.hpp"
#include "common/tensors/workload.hpp"
#include "common/verify/backward_verifier.hpp"
#include "common/verify/verifier.hpp"

namespace rmsnorm {
namespace {

/// A lesson that runs on the CPU gets as many rows as make this many elements: enough to verify it.
constexpr std::int64_t kElementsForCpuLesson = std::int64_t{1} << 22;

/// The CPU device watches problems up to this size: a larger one takes it too long.
constexpr std::int64_t kElementsToWatch = std::int64_t{1} << 22;

/// The memory cannot hold the tensors of a problem that the reader asked for.
struct TooLarge : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

std::string describe_device(const Gpu& gpu) {
  if (is_cpu_device()) {
    return can_observe() ? "CPU device: results, mistakes and traffic of small problems; no times"
                         : "CPU device: results and mistakes of small problems; no times";
  }
  return fmt::format(
      "{}, driver {}, {} SMs, {} MiB L2, {:.0f} GB/s peak", gpu.name, gpu.driver,
      gpu.multiprocessors, gpu.l2_bytes >> 20, gpu.peak_gbps);
}

std::string text_of(Shape shape, const Types& types) {
  return with_dtype(fmt::format("{} x {}", shape.rows, shape.hidden), to_string(types));
}

/// One run of the harness over the chosen lessons and regimes.
class Run {
 public:
  explicit Run(const Options& options) : options_(options) {
    if (!has_device_lessons()) return;  // lesson 01 needs no GPU, not even a broken one
    try {
      gpu_ = find_gpu();
      fmt::print(stderr, "{}\n", describe_device(*gpu_));
    } catch (const NoGpu& reason) {
      no_gpu_ = reason.what();
    } catch (const CudaError& error) {
      no_gpu_ = error.what();
    }
  }

  int execute() {
    for (const std::string& file : {options_.csv_file, options_.trace_file}) {
      if (!file.empty()) require_writable(file);
    }
    // What cannot be graded is found out before anything is done in vain.
    const bool is_recorded = options_.predicted && is_cpu_device();
    const std::string grades = is_recorded ? grade_by_record() : "";

    int exit_code = kAllVerified;
    if (!gpu_) exit_code = skip_device_lessons();
    try {
      for (const Regime& regime : options_.regimes) {
        for (const Shape& shape : regime.shapes) run_shape(regime, shape);
        save();
      }
    } catch (const TooLarge& error) {
      end_progress();
      fmt::print(stderr, "{}\n", error.what());
      exit_code = kNoDevice;
    } catch (const std::bad_alloc&) {
      end_progress();
      fmt::print(stderr, "this machine has not enough memory for the problem\n");
      exit_code = kNoDevice;
    } catch (const CudaError& error) {
      end_progress();
      fmt::print(stderr, "stopped: {}\n", error.what());
      exit_code = kNoDevice;
    }
    if (results_.empty() && exit_code == kAllVerified) {
      fmt::print(
          stderr,
          "nothing to run: forward passes have their regimes, and backward passes theirs\n");
      exit_code = kBadUsage;
    }
    try {
      save();
    } catch (const std::runtime_error& error) {
      fmt::print(stderr, "{}\n", error.what());
      exit_code = kBadUsage;
    }
    if (const std::string table = summary(results_); !table.empty()) fmt::print("\n{}", table);
    if (options_.trace) print_traces();
    fmt::print("{}", cost_table(right_ones_of(watched_)));
    if (const std::string wrong = what_is_wrong(); !wrong.empty()) {
      fmt::print("\n{}\n", wrong);
      return kLessonWrong;
    }
    if (options_.predicted && exit_code == kAllVerified) {
      fmt::print("\n{}", is_recorded ? grades : grade_by(results_, "measured now"));
    }
    return exit_code;
  }

 private:
  /// Lists the lessons that need a GPU, with the reason why they cannot run.
  int skip_device_lessons() {
    int exit_code = kAllVerified;
    for (const Lesson& lesson : options_.lessons) {
      if (lesson.memory == Memory::host) continue;
      fmt::print("{}\n", skipped_line(lesson, no_gpu_));
      exit_code = kNoDevice;
    }
    return exit_code;
  }

  void run_shape(const Regime& regime, Shape wanted) {
    for (const Lesson& lesson : options_.lessons) {
      if (lesson.memory == Memory::host && is_measured_in(lesson, regime)) {
        run_on_host(lesson, regime, wanted);
      }
    }
    if (!gpu_) return;

    const Shape shape = shape_here(regime, wanted);
    if (is_cpu_device() && regime.name != kCustomRegime) {
      // Without their rows, some regimes are the same problem: once is enough.
      const auto [seen, is_new] =
          seen_.try_emplace({regime.is_backward, shape.rows, shape.hidden}, regime.name);
      if (!is_new) {
        fmt::print(
            stderr, "{} is the same small problem as {} here: {} x {}\n", regime.name, seen->second,
            shape.rows, shape.hidden);
        return;
      }
    }
    // One workload for all lessons that have the same tensors.
    std::vector<Kind> kinds;
    std::vector<std::vector<Lesson>> lessons;
    for (const Lesson& lesson : options_.lessons) {
      if (lesson.memory == Memory::host || !is_measured_in(lesson, regime)) continue;
      for (const Types& types : types_for(options_, lesson, regime)) {
        const Kind kind{types, lesson.residual, lesson.is_backward()};
        const auto found = std::find(kinds.begin(), kinds.end(), kind);
        if (found == kinds.end()) {
          kinds.push_back(kind);
          lessons.push_back({lesson});
        } else {
          lessons[found - kinds.begin()].push_back(lesson);
        }
      }
    }
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      run_lessons(lessons[i], regime, shape, kinds[i]);
    }
  }

  /// What decides which tensors a lesson has.
  struct Kind {
    Types types;
    bool residual;
    bool backward;
    bool operator==(const Kind&) const = default;
    int matrices() const { return backward ? 3 : residual ? 4 : 2; }  // of x's shape
  };

  /// Runs lessons for the device on the same tensors.
  void run_lessons(
      const std::vector<Lesson>& lessons, const Regime& regime, Shape wanted, const Kind& kind) {
    const Shape shape = fit(regime, wanted, kind);
    const auto [types, residual, backward] = kind;
    const std::size_t elements = static_cast<std::size_t>(shape.rows) * shape.hidden;
    const std::size_t bytes_of_set = kind.matrices() * elements * bytes_of(types.dtype) +
                                     (types.weight ? bytes_of(*types.weight) : 0) * shape.hidden;
    const WorkloadSpec spec{
        .memory = Memory::device,
        .rows = shape.rows,
        .hidden = shape.hidden,
        .eps = options_.eps,
        .seed = options_.seed,
        .sets = sets_for_cold_cache(bytes_of_set, gpu_->l2_bytes),
        .types = types,
        .residual = residual};
    const bool is_cold = spec.sets * bytes_of_set >= 2 * gpu_->l2_bytes;
    if (backward) {
      run_on(BackwardWorkload(spec), lessons, regime, is_cold);
    } else {
      run_on(Workload(spec), lessons, regime, is_cold);
    }
  }

  /// \param is_cold whether the sets in turn leave nothing of each other in the L2
  template <class AnyWorkload>
  void run_on(
      const AnyWorkload& workload, const std::vector<Lesson>& lessons, const Regime& regime,
      bool is_cold) {
    const WorkloadSpec& spec = workload.spec();
    const Shape shape{spec.rows, spec.hidden};
    const Types& types = spec.types;

    // Everything is verified before anything is timed.
    std::map<std::string, Verification> verified;
    for (const Lesson& lesson : lessons) {
      if (!why_refused(lesson, workload).empty()) continue;
      progress(fmt::format("verifying {} on {}", lesson.slug, text_of(shape, types)));
      verified[lesson.slug] = verify_or_record_loss(lesson, regime, workload);
      keep_counts(lesson, regime, workload, verified[lesson.slug].observation);
    }

    for (const Cache cache : caches(regime)) {
      const bool wants_time = !options_.verify_only && shape.rows > 0 && !is_cpu_device();
      const bool too_small = wants_time && cache == Cache::cold && !is_cold;
      const bool timed = wants_time && !too_small;
      std::optional<double> copy_gbps;
      if (timed) {
        progress(fmt::format("copying {}, {}", text_of(shape, types), to_string(cache)));
        copy_gbps = measure_copy(workload, cache, options_.min_seconds);
      }
      for (const Lesson& lesson : lessons) {
        Result result = describe(lesson, regime, workload);
        result.cache = timed ? to_string(cache) : "";
        result.copy_gbps = copy_gbps;
        const std::string refusal = why_refused(lesson, workload);
        if (!refusal.empty()) {
          result.verdict = "refused";
          add(result, refusal);
          continue;
        }
        const Verification& found = verified.at(lesson.slug);
        record(found, result);
        std::string remark = found.complaint;
        if (is_cpu_device() && found.ok()) remark = "on the CPU device";
        if (timed && found.ok()) remark = time(lesson, workload, cache, result);
        if (too_small && found.ok()) remark = "too small to be timed with a cold L2";
        add(result, remark, found.hazards);
      }
      if (!wants_time) break;  // what is right does not depend on the cache
    }
  }

  void run_on_host(const Lesson& lesson, const Regime& regime, Shape wanted) {
    Shape shape = wanted;
    // With fewer rows, many shapes of a sweep become the same.
    while (shape.rows > 1 && std::int64_t{shape.rows} * shape.hidden > kElementsForCpuLesson)
      shape.rows /= 2;
    if (has_result(lesson, regime, shape)) return;
    // x and y, and copies of them for the comparison. Linux would promise more than it has.
    const WorkloadSpec spec{
        .memory = Memory::host,
        .rows = shape.rows,
        .hidden = shape.hidden,
        .eps = options_.eps,
        .seed = options_.seed};
    const std::size_t needed = 2 * Workload::bytes(spec);
    const auto memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    if (needed > memory / 10 * 9) {
      throw TooLarge(fmt::format(
          "{} x {} needs {:.1f} GiB, and this machine has {:.1f} GiB in all", shape.rows,
          shape.hidden, needed / 0x1p30, memory / 0x1p30));
    }
    progress(fmt::format("verifying {} on {} x {}", lesson.slug, shape.rows, shape.hidden));
    const Workload workload(spec);
    const Verification found = verify(lesson, workload);
    Result result = describe(lesson, regime, workload);
    record(found, result);
    const char* const where = shape.rows < wanted.rows ? "on the CPU, fewer rows" : "on the CPU";
    add(result, found.ok() ? where : found.complaint);
  }

  bool has_result(const Lesson& lesson, const Regime& regime, Shape shape) const {
    return std::any_of(results_.begin(), results_.end(), [&](const Result& r) {
      return r.lesson == lesson.slug && r.regime == regime.name && r.rows == shape.rows &&
             r.hidden == shape.hidden;
    });
  }

  /// verify(), but a fault that costs us the GPU is first reported as the lesson's failure.
  template <class AnyWorkload>
  Verification verify_or_record_loss(
      const Lesson& lesson, const Regime& regime, const AnyWorkload& workload) {
    try {
      const WorkloadSpec& spec = workload.spec();
      const bool is_small = std::int64_t{spec.rows} * spec.hidden <= kElementsToWatch;
      if (options_.trace && !is_small) {
        end_progress();
        fmt::print(
            stderr, "{} on {} x {} is too large to be traced: at most {} elements are\n",
            lesson.slug, spec.rows, spec.hidden, kElementsToWatch);
      }
      return verify(lesson, workload, nullptr, is_small ? Watch::yes : Watch::no);
    } catch (const CudaError& error) {
      Result result = describe(lesson, regime, workload);
      result.verdict = "fail";
      add(result, error.what());
      throw;
    }
  }

  /// Fills in the times; gives the reason if the lesson cannot be timed, and calls it a failure.
  template <class AnyWorkload>
  std::string time(const Lesson& lesson, const AnyWorkload& workload, Cache cache, Result& result) {
    const WorkloadSpec& spec = workload.spec();
    const Shape shape{spec.rows, spec.hidden};
    progress(
        fmt::format("timing {} on {}, {}", lesson.slug, text_of(shape, spec.types), result.cache));
    Timing timing{};
    try {
      timing = time_launch(launch_of(lesson, workload), cache, spec.sets, options_.min_seconds);
    } catch (const CudaError& error) {
      result.verdict = "fail";
      if (cudaDeviceSynchronize() == cudaSuccess) return error.what();
      add(result, error.what());  // the GPU is lost, and with it all that would follow
      throw;
    }
    result.median_us = timing.median_us;
    result.spread_pct = timing.spread_pct;
    result.samples = timing.samples;
    result.gbps = gbps(static_cast<double>(workload.bytes_to_move()), timing.median_us);
    return "";
  }

  /// The columns that are known before anything has run.
  template <class AnyWorkload>
  Result describe(const Lesson& lesson, const Regime& regime, const AnyWorkload& workload) const {
    const WorkloadSpec& spec = workload.spec();
    const Traffic traffic = predicted_traffic(lesson, workload);
    const bool on_gpu = lesson.memory == Memory::device;
    Result result;
    result.lesson = lesson.slug;
    result.regime = regime.name;
    result.dtype = to_string(spec.types);
    result.rows = spec.rows;
    result.hidden = spec.hidden;
    result.bytes_per_row_predicted = traffic.read + traffic.written;
    if (on_gpu && !is_cpu_device()) result.peak_gbps = gpu_->peak_gbps;
    result.device = on_gpu ? gpu_->name : "cpu";
    result.driver = on_gpu ? gpu_->driver : "";
    result.cuda = cuda_version();
    result.commit = build_commit();
    result.date = today();
    return result;
  }

  static void record(const Verification& found, Result& result) {
    result.max_error = found.max_error;
    result.error_bound = found.error_bound;
    result.verdict = found.ok() ? "pass" : "fail";
  }

  /// Prints and keeps a result. What is wrong with a lesson is said in full once.
  void add(
      const Result& result, const std::string& remark,
      const std::vector<std::string>& hazards = {}) {
    std::string message = hazards.empty() ? remark : "the CPU device saw:";
    for (const std::string& hazard : hazards) message += "\n  " + hazard;
    if (result.verdict == "fail" && !said_.insert({result.lesson, message}).second) {
      message = "as above";
    }
    end_progress();
    fmt::print("{}\n", result_line(result, message, wants_colour(STDOUT_FILENO)));
    std::fflush(stdout);
    results_.push_back(result);
  }

  bool is_wrong(const std::string& slug) const {
    return std::any_of(results_.begin(), results_.end(), [&](const Result& r) {
      return r.lesson == slug && r.verdict == "fail";
    });
  }

  /// One line with every lesson that is wrong and its regimes; "" if none is.
  std::string what_is_wrong() const {
    std::map<std::string, std::vector<std::string>> regimes_of;
    for (const Result& result : results_) {
      if (result.verdict != "fail") continue;
      std::vector<std::string>& regimes = regimes_of[result.lesson];
      if (regimes.empty() || regimes.back() != result.regime) regimes.push_back(result.regime);
    }
    std::string line;
    for (const auto& [lesson, regimes] : regimes_of) {
      line += fmt::format(
          "{}{} in {}", line.empty() ? "wrong: " : "; ", lesson, fmt::join(regimes, ", "));
    }
    return line.empty() ? "" : line + " (see above)";
  }

  /// A wrong lesson's counts are of no interest, and would push its mistake out of sight.
  std::vector<Watched> right_ones_of(std::vector<Watched> launches) const {
    const auto wrong = [&](const Watched& launch) { return is_wrong(launch.lesson); };
    launches.erase(std::remove_if(launches.begin(), launches.end(), wrong), launches.end());
    return launches;
  }

  /// What each line costs: in the problems that the reader has chosen, or in each lesson's own
  /// regime.
  void print_traces() const {
    if (watched_.empty()) return;
    for (const Watched& launch : watched_) {
      const bool is_chosen = !options_.types.empty() || launch.types == Types{};
      if (is_chosen && (options_.trace_all || is_own_regime(launch))) {
        fmt::print("{}", line_table(launch));
      }
    }
    fmt::print("{}", kLineTableLegend);
    if (!options_.trace_all) {
      fmt::print(
          "Each lesson is traced in its own regime; --regime NAME or --regime all shows others.\n");
    }
  }

  /// Whether a launch was in its lesson's own regime, or in one that is the same small problem.
  bool is_own_regime(const Watched& launch) const {
    for (const Lesson& lesson : options_.lessons) {
      if (lesson.slug != launch.lesson) continue;
      for (const Regime& regime : options_.regimes) {
        if (regime.name != lesson.regime) continue;
        const Shape shape = shape_here(regime, regime.shapes.at(0));
        return launch.rows == shape.rows && launch.hidden == shape.hidden;
      }
    }
    return true;  // a lesson about no speed has no regime of its own
  }

  std::string grade_by(const std::vector<Result>& results, std::string_view whose) const {
    return graded_prediction(
        *options_.predicted, options_.lessons.front().slug, options_.lessons.back().slug,
        options_.regimes.front(), results, whose);
  }

  std::string grade_by_record() const {
    const std::vector<Result> recorded = read_csv(options_.recorded_file);
    try {
      return grade_by(recorded, "recorded");
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(fmt::format("{}: {}", options_.recorded_file, error.what()));
    }
  }

  void save() const {
    if (!options_.csv_file.empty() && !results_.empty()) write_csv(options_.csv_file, results_);
    if (options_.trace_file.empty() || watched_.empty()) return;
    std::vector<TraceRow> rows;
    for (const Watched& launch : watched_) {
      for (const LineCount& count : launch.observation.lines) {
        rows.push_back(
            {.lesson = launch.lesson,
             .regime = with_dtype(launch.regime, to_string(launch.types)),
             .rows = launch.rows,
             .hidden = launch.hidden,
             .blocks = launch.observation.blocks,
             .count = count,
             .commit = build_commit(),
             .date = today()});
      }
    }
    write_trace(options_.trace_file, rows);
  }

  /// What the device counted, if it did.
  template <class AnyWorkload>
  void keep_counts(
      const Lesson& lesson, const Regime& regime, const AnyWorkload& workload,
      const Observation& observation) {
    if (observation.lines.empty() || workload.spec().rows == 0) return;
    watched_.push_back(
        {.lesson = lesson.slug,
         .regime = regime.name,
         .rows = workload.spec().rows,
         .hidden = workload.spec().hidden,
         .types = workload.spec().types,
         .predicted = predicted_traffic(lesson, workload),
         .observation = observation});
  }

  /// A regime's shape; the CPU device gets what it has done in a moment.
  static Shape shape_here(const Regime& regime, Shape wanted) {
    return is_cpu_device() && regime.name != kCustomRegime ? small_version(wanted) : wanted;
  }

  /// Regimes shrink to the GPU's memory; a problem of the reader's own fits or is turned down.
  Shape fit(const Regime& regime, Shape wanted, const Kind& kind) const {
    const std::size_t budget = gpu_->free_bytes / 10 * 9;
    Shape shape = wanted;
    if (regime.name != kCustomRegime) {
      shape = halve_rows_to_fit(shape, static_cast<std::int64_t>(budget), kind.matrices());
    }
    const WorkloadSpec spec{
        .rows = shape.rows, .hidden = shape.hidden, .types = kind.types, .residual = kind.residual};
    const std::size_t needed =
        kind.backward ? BackwardWorkload::bytes(spec) : Workload::bytes(spec);
    if (needed > budget) {
      throw TooLarge(fmt::format(
          "{} x {} needs {:.1f} GiB on the {}, which has {:.1f} GiB to spare", shape.rows,
          shape.hidden, needed / 0x1p30, is_cpu_device() ? "CPU device" : "GPU", budget / 0x1p30));
    }
    return shape;
  }

  std::vector<Cache> caches(const Regime& regime) const {
    return options_.only_cache ? std::vector{*options_.only_cache} : regime.caches;
  }

  bool has_device_lessons() const {
    for (const Lesson& lesson : options_.lessons) {
      if (lesson.memory == Memory::device) return true;
    }
    return false;
  }

  const Options& options_;
  std::optional<Gpu> gpu_;
  std::string no_gpu_;
  std::vector<Result> results_;
  std::vector<Watched> watched_;
  // On the CPU device: backward or not, rows, columns, and the regime.
  std::map<std::tuple<bool, int, int>, std::string> seen_;
  std::set<std::pair<std::string, std::string>> said_;  // wrong lessons and what is wrong
};

}  // namespace

int run_program(int argc, const char* const* argv, const std::vector<Lesson>& lessons) {
  const ParsedOptions parsed = parse_options(argc, argv, lessons);
  if (parsed.exit_code) return *parsed.exit_code;
  if (parsed.options.list) {
    fmt::print("{}", lesson_list(parsed.options.lessons));
    return kAllVerified;
  }
  try {
    if (parsed.options.l2) {
      fmt::print("{}\n", find_gpu().l2_bytes >> 20);
      return kAllVerified;
    }
    return Run(parsed.options).execute();
  } catch (const NoGpu& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kNoDevice;
  } catch (const CudaError& error) {
    fmt::print(stderr, "the GPU cannot be used: {}\n", error.what());
    return kNoDevice;
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kBadUsage;
  }
}

}  // namespace rmsnorm
