#include "common/benchmark.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/cuda_check.hpp"

namespace rmsnorm {
namespace {

constexpr double kGraphMicroseconds = 2000;  // long against the events' resolution of about 0.5 us
constexpr int kMostLaunches = 4096;
constexpr int kFewestSamples = 11;

/// A stream with two events on it.
class Stopwatch {
 public:
  Stopwatch() {
    cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    cuda_check(cudaEventCreate(&start_), "creating an event");
    cuda_check(cudaEventCreate(&stop_), "creating an event");
  }
  ~Stopwatch() {
    cudaEventDestroy(stop_);
    cudaEventDestroy(start_);
    cudaStreamDestroy(stream_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  cudaStream_t stream() const { return stream_; }

  /// Microseconds that one replay of the graph takes.
  double time(cudaGraphExec_t graph) const {
    cuda_check(cudaEventRecord(start_, stream_), "recording an event");
    cuda_check(cudaGraphLaunch(graph, stream_), "replaying a graph");
    cuda_check(cudaEventRecord(stop_, stream_), "recording an event");
    cuda_check(cudaEventSynchronize(stop_), "running the timed kernels");
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, start_, stop_), "reading the clock");
    return 1e3 * milliseconds;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

/// `launches` launches in a row, over `sets` sets in turn.
class Graph {
 public:
  Graph(const LaunchOnSet& launch, int launches, int sets, cudaStream_t stream) {
    cuda_check(
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "starting a capture");
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < launches && error == cudaSuccess; ++i) error = launch(i % sets, stream);
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    cuda_check(error, "recording a launch");
    cuda_check(ended, "ending a capture");
    error = cudaGraphInstantiateWithFlags(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    cuda_check(error, "making a graph executable");
  }
  ~Graph() { cudaGraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  cudaGraphExec_t executable() const { return executable_; }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

/// The q-quantile of sorted values, between neighbours in proportion.
double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

Timing summarise(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const double median = quantile(samples, 0.5);
  const double range = quantile(samples, 0.9) - quantile(samples, 0.1);
  return Timing{
      .median_us = median,
      .spread_pct = 100 * range / 2 / median,
      .samples = static_cast<int>(samples.size())};
}

}  // namespace

int sets_for_cold_cache(std::size_t bytes_of_one_set, std::size_t l2_bytes) {
  const std::size_t wanted = 4 * l2_bytes;
  const std::size_t sets =
      (wanted + bytes_of_one_set - 1) / std::max<std::size_t>(1, bytes_of_one_set);
  return static_cast<int>(std::clamp<std::size_t>(sets, 1, kMostLaunches));
}

Timing time_launch(const LaunchOnSet& launch, Cache cache, int sets, double min_seconds) {
  if (cache == Cache::warm) sets = 1;
  const Stopwatch watch;

  // One round over the sets says how many rounds fill the graph.
  double round_us = 0;
  {
    const Graph round(launch, sets, sets, watch.stream());
    watch.time(round.executable());  // warm-up: the first replay uploads the graph
    round_us = watch.time(round.executable());
  }
  const double rounds = std::max(1.0, std::ceil(kGraphMicroseconds / round_us));
  const int launches =
      sets * static_cast<int>(std::min(rounds, std::ceil(double(kMostLaunches) / sets)));

  const Graph graph(launch, launches, sets, watch.stream());
  watch.time(graph.executable());
  watch.time(graph.executable());

  std::vector<double> samples;
  double seconds = 0;
  const auto enough = [&] {
    if (samples.size() < kFewestSamples || seconds < min_seconds) return false;
    return seconds >= 3 * min_seconds || summarise(samples).spread_pct <= kNoisyPct;
  };
  while (!enough()) {
    const double graph_us = watch.time(graph.executable());
    samples.push_back(graph_us / launches);
    seconds += graph_us / 1e6;
  }
  return summarise(std::move(samples));
}

}  // namespace rmsnorm
