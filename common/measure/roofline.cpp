#include "common/measure/roofline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "common/base/cuda_check.hpp"
#include "common/measure/benchmark.hpp"

namespace rmsnorm {
namespace {

/// Are these x and y, of as many bytes?
bool are_of_copy(const std::vector<Stream>& streams) {
  return streams.size() == 2 && streams[0].is_read && !streams[0].is_written &&
         streams[1].is_written && !streams[1].is_read && streams[0].bytes == streams[1].bytes;
}

bool can_overlap() {
  int device = 0, major = 0;
  cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  cuda_check(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
      "cudaDeviceGetAttribute");
  return major >= 9;
}

}  // namespace

std::vector<Stream> streams_of(const Workload& workload, int set) {
  const Operation& operation = workload.operation();
  const Problem p = workload.problem(set);
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < operation.tensors.size(); ++i) {
    const TensorSpec& tensor = operation.tensors[i];
    if (!is_matrix(tensor)) continue;
    const std::int64_t elements =
        static_cast<std::int64_t>(size_of(tensor, p)) / pieces_of(tensor, p);
    streams.push_back(
        {p.tensors[i], elements * bytes_of(dtype_of(tensor, workload.spec().types)),
         is_read(tensor), is_written(tensor)});
  }
  return streams;
}

std::string ratio_of(const std::vector<Stream>& streams) {
  std::int64_t read = 0, written = 0;
  for (const Stream& stream : streams) {
    if (stream.is_read) read += stream.bytes;
    if (stream.is_written) written += stream.bytes;
  }
  const std::int64_t both = std::gcd(read, written);
  return both == 0 ? "0:0" : fmt::format("{}:{}", read / both, written / both);
}

Roof measure_roof(const Workload& workload, Cache cache, double min_seconds) {
  const std::vector<Stream> first = streams_of(workload, 0);
  double bytes = 0;
  for (const Stream& stream : first) {
    bytes += static_cast<double>(stream.bytes / 16 * 16) * (stream.is_read + stream.is_written);
  }
  std::vector<LaunchOnSet> launches;
  for (const Way& way : ways_to_move(first, can_overlap())) {
    launches.push_back([&workload, way](int set, cudaStream_t stream) {
      return move_streams(streams_of(workload, set), way, stream);
    });
  }
  if (are_of_copy(first)) {
    launches.push_back([&](int set, cudaStream_t stream) {
      const std::vector<Stream> s = streams_of(workload, set);
      const auto size = static_cast<std::size_t>(s[0].bytes);
      return cudaMemcpyAsync(s[1].data, s[0].data, size, cudaMemcpyDeviceToDevice, stream);
    });
  }
  // The fastest of short trials is what is timed.
  const auto in_seconds = [&](const LaunchOnSet& launch, double seconds) {
    return time_launch(launch, cache, workload.spec().sets, seconds);
  };
  std::vector<double> trials;
  for (const LaunchOnSet& launch : launches)
    trials.push_back(in_seconds(launch, min_seconds / 10).median_us);
  const auto fastest = std::ranges::min_element(trials) - trials.begin();
  const Timing timing = in_seconds(launches[static_cast<std::size_t>(fastest)], min_seconds);
  return {ratio_of(first), gbps(bytes, timing.median_us), timing.disturbed};
}

}  // namespace rmsnorm
