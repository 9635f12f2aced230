/// \file
/// How fast the CPU device is: elements a second, on one core, for each kernel, unwatched and
/// watched. For whoever changes the device; it says nothing about any GPU.
///
///     cpu_device_speed [PART_OF_A_SLUG]

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "common/base/cuda_check.hpp"
#include "common/base/observation.hpp"
#include "common/contract/registry.hpp"
#include "common/tensors/workload.hpp"

using namespace rmsnorm;

namespace {

constexpr int kRows = 256;
constexpr int kHidden = 4096;

double million_elements_a_second(
    const Implementation& implementation, const Workload& workload, bool watched) {
  Problem p = workload.problem();
  const GuardedTensor workspace = make_workspace(Memory::device, implementation.workspace_bytes(p));
  p.workspace = workspace.data();
  double best = 0;
  for (int attempt = 0; attempt < (watched ? 3 : 20); ++attempt) {
    if (watched) start_observing({});
    const auto begin = std::chrono::steady_clock::now();
    cuda_check(implementation.launch(p, nullptr), "launching");
    cuda_check(cudaStreamSynchronize(nullptr), "running");
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (watched) stop_observing();
    best = std::max(best, 1e-6 * kRows * kHidden / seconds.count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string part = argc > 1 ? argv[1] : "";
  fmt::print("{:27} {:>22}   {} x {}\n", "", "million elements/s", kRows, kHidden);
  fmt::print("{:27} {:>10} {:>11}\n", "", "unwatched", "watched");
  for (const Implementation& implementation : all_implementations()) {
    const bool is_wanted = std::string(implementation.slug).find(part) != std::string::npos;
    if (implementation.memory == Memory::host || !is_wanted) continue;
    const Workload workload(*implementation.operation, {.rows = kRows, .hidden = kHidden});
    fmt::print(
        "{:27} {:10.1f} {:11.1f}\n", implementation.slug,
        million_elements_a_second(implementation, workload, false),
        million_elements_a_second(implementation, workload, true));
  }
}
