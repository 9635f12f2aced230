#include "common/measure/benchmark.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/base/own_stream.hpp"
#include "common/base/terminal.hpp"
#include "common/measure/calm.hpp"
#include "common/measure/nvml.hpp"

namespace rmsnorm {
namespace {

constexpr double kGraphMicroseconds = 2000;  // long against the events' resolution of about 0.5 us
constexpr int kMaxLaunches = 16384;
constexpr int kMinSamples = 11;
constexpr int kMaxSamples = 1000;
constexpr std::chrono::milliseconds kBetweenLooks{5};

/// Owns what CUDA made, and gives it back.
template <class Handle, cudaError_t (*destroy)(Handle)>
class Owner {
 public:
  Owner() = default;
  ~Owner() {
    if (handle_ != nullptr) destroy(handle_);
  }
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&&) = delete;

  Handle get() const { return handle_; }
  Handle* address() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};

using Event = Owner<cudaEvent_t, cudaEventDestroy>;
using Graph = Owner<cudaGraph_t, cudaGraphDestroy>;
using ExecutableGraph = Owner<cudaGraphExec_t, cudaGraphExecDestroy>;

Event make_event() {
  Event event;
  cuda_check(cudaEventCreate(event.address()), "creating an event");
  return event;
}

/// Records `launches` launches in a row, over `sets` sets in turn.
ExecutableGraph record(const LaunchOnSet& launch, int launches, int sets, cudaStream_t stream) {
  cuda_check(
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "starting a capture");
  cudaError_t launched = cudaSuccess;
  for (int i = 0; i < launches && launched == cudaSuccess; ++i) launched = launch(i % sets, stream);
  Graph graph;
  const cudaError_t ended = cudaStreamEndCapture(stream, graph.address());
  cuda_check(launched, "recording a launch");
  cuda_check(ended, "ending a capture");

  // A launch on another stream would not be in the graph, and very fast.
  std::size_t nodes = 0;
  cuda_check(cudaGraphGetNodes(graph.get(), nullptr, &nodes), "counting a graph's launches");
  if (nodes < static_cast<std::size_t>(launches)) {
    throw CudaError(cudaErrorInvalidValue, "the launch ignores the stream that it is given");
  }
  ExecutableGraph executable;
  cuda_check(
      cudaGraphInstantiateWithFlags(executable.address(), graph.get(), 0),
      "making a graph executable");
  return executable;
}

/// Looks until the event is there: an idle GPU is at no cap, so it is looked at while it works, and
/// once more as soon as it is done.
void look_until(const Event& event, const Calm::Look& look) {
  look();
  cudaError_t state = cudaErrorNotReady;
  while (state == cudaErrorNotReady) {
    std::this_thread::sleep_for(kBetweenLooks);
    state = cudaEventQuery(event.get());
    if (state == cudaErrorNotReady) cudaGetLastError();  // it is no error, but remembered as one
    look();
  }
  cuda_check(state, "running the timed kernels");
}

/// Microseconds of `count` replays. One more goes first: when the first event fires, the GPU has
/// work, and the time that the CPU takes to ask for a replay does not count.
std::vector<double> time_replays(
    cudaGraphExec_t graph, int count, cudaStream_t stream, const Calm::Look& look = {}) {
  std::vector<Event> events;
  for (int i = 0; i <= count; ++i) events.push_back(make_event());
  for (const Event& event : events) {
    cuda_check(cudaGraphLaunch(graph, stream), "replaying a graph");
    cuda_check(cudaEventRecord(event.get(), stream), "recording an event");
  }
  if (look) look_until(events.back(), look);
  cuda_check(cudaEventSynchronize(events.back().get()), "running the timed kernels");
  std::vector<double> microseconds;
  for (int i = 0; i < count; ++i) {
    float milliseconds = 0;
    cuda_check(
        cudaEventElapsedTime(&milliseconds, events[i].get(), events[i + 1].get()),
        "reading the clock");
    microseconds.push_back(1e3 * milliseconds);
  }
  return microseconds;
}

/// The q-quantile of sorted values, between neighbours in proportion.
double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

Timing summarise(std::vector<double> samples) {
  std::ranges::sort(samples);
  const double median = quantile(samples, 0.5);
  const double range = quantile(samples, 0.9) - quantile(samples, 0.1);
  return Timing{
      .median_us = median,
      .spread_pct = 100 * range / 2 / median,
      .samples = static_cast<int>(samples.size())};
}

std::optional<Disturbance> gpu_is_disturbed() {
  const auto reasons = reasons_for_lower_clocks();
  return reasons ? disturbance_of(*reasons) : std::nullopt;
}

void let_gpu_rest(Disturbance why, int seconds) {
  progress(fmt::format("the GPU is {}: waiting {} s to time it again", in_words(why), seconds));
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
}

}  // namespace

int sets_for_cold_cache(std::size_t bytes_of_one_set, std::size_t l2_bytes) {
  const std::size_t one = std::max<std::size_t>(1, bytes_of_one_set);
  const std::size_t sets = (4 * l2_bytes + one - 1) / one;
  return static_cast<int>(std::clamp<std::size_t>(sets, 2, kMaxLaunches));
}

Timing time_launch(const LaunchOnSet& launch, Cache cache, int sets, double min_seconds) {
  if (cache == Cache::warm) sets = 1;
  const OwnStream stream;

  // One round over the sets says how many rounds fill the graph. (The first replay uploads it.)
  ExecutableGraph round = record(launch, sets, sets, stream.get());
  const double round_us = time_replays(round.get(), 2, stream.get()).back();
  const double rounds = std::max(1.0, std::ceil(kGraphMicroseconds / round_us));
  const double most_rounds = std::ceil(static_cast<double>(kMaxLaunches) / sets);
  const int launches = sets * static_cast<int>(std::min(rounds, most_rounds));

  const ExecutableGraph graph =
      launches == sets ? std::move(round) : record(launch, launches, sets, stream.get());
  const double graph_us = time_replays(graph.get(), 2, stream.get()).back();
  const int replays = static_cast<int>(
      std::clamp(std::ceil(1e6 * min_seconds / graph_us), 1.0 * kMinSamples, 1.0 * kMaxSamples));

  static Calm calm(gpu_is_disturbed, let_gpu_rest);
  return calm.timed([&](const Calm::Look& look) {
    std::vector<double> samples;
    Timing timing{};
    for (int attempt = 0; attempt < 3; ++attempt) {
      for (const double us : time_replays(graph.get(), replays, stream.get(), look)) {
        samples.push_back(us / launches);
      }
      timing = summarise(samples);
      if (timing.spread_pct <= kNoisyPct) break;
    }
    return timing;
  });
}

}  // namespace rmsnorm
