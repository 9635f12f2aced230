/// \file
/// Sums over ranks: however many there are, and in which order blocks run, every protocol has to
/// leave all ranks the same bits, those of the sum in the order of ranks.

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include "common/operations/all_reduce.hpp"
#include "common/verify/verifier.hpp"
#include "tests/gpu_support.hpp"
#include "tests/ranks.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

using D = Description<AllReduce>;

std::vector<Implementation> protocols() {
  std::vector<Implementation> all = gpu_implementations();
  std::erase_if(
      all, [](const Implementation& one) { return one.operation != &operation_of<AllReduce>(); });
  return all;
}

/// The workload, in which all ranks have the same residual, as they have in a model. The first rows
/// are -0.0 everywhere: a sum may be that, or 0.
Workload workload_of(const WorkloadSpec& spec) {
  Workload workload(operation_of<AllReduce>(), spec);
  std::vector<float> x = workload.tensor("x").values();
  std::vector<float> residuals = workload.tensor("residual").values();
  const auto ranks = static_cast<std::size_t>(spec.more[D::kRanks]);
  const std::size_t columns = spec.rows == 0 ? 0 : static_cast<std::size_t>(spec.hidden);
  const std::size_t layers = static_cast<std::size_t>(spec.more[D::kLayers]);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::fill_n(x.begin() + std::ssize(x) / ranks * rank, columns * layers, -0.0f);
  }
  std::fill_n(residuals.begin(), columns, -0.0f);
  workload.set("x", x);
  workload.set("residual", residuals);
  share_residual(workload, spec.more[D::kRanks]);
  return workload;
}

/// The residual that all ranks have behind the last layer, by additions one after the other. In
/// fp32, where none of them is rounded once more.
std::vector<float> sequential_residual(const Workload& workload, const WorkloadSpec& spec) {
  const std::vector<float> x = workload.tensor("x").values();
  std::vector<float> residual = workload.tensor("residual").values();
  residual.resize(residual.size() / static_cast<std::size_t>(spec.more[D::kRanks]));
  const auto hidden = static_cast<std::size_t>(spec.hidden);
  const auto layers = static_cast<std::size_t>(spec.more[D::kLayers]);
  const std::size_t piece = residual.size() * layers;
  for (std::size_t i = 0; i < residual.size(); ++i) {
    for (std::size_t layer = 0; layer < layers; ++layer) {
      float sum = 0;
      const std::size_t first = (i / hidden * layers + layer) * hidden + i % hidden;
      for (std::size_t at = first; at < x.size(); at += piece) sum += x[at];
      residual[i] += sum;
    }
  }
  return residual;
}

/// Calls check(protocol) for each that supports the problem, when it has been launched in one of
/// several orders. All of them have to leave one result, on all ranks.
template <class Check>
void launch_protocols(const Workload& workload, const Check& check) {
  const Problem sizes = workload.problem();
  const int ranks = sizes.more[D::kRanks], layers = sizes.more[D::kLayers];
  CAPTURE(ranks, layers, sizes.rows, sizes.hidden, to_string(workload.spec().types));
  std::set<std::vector<std::byte>> results;
  for (const Implementation& protocol : protocols()) {
    CAPTURE(protocol.slug);
    if (!protocol.unsupported(sizes).empty()) continue;
    add_results(protocol, workload, {0, 1, 2, 3}, results);
    check(protocol);
  }
  CHECK(results.size() == 1);
}

void check_protocols(const WorkloadSpec& spec) {
  const Workload workload = workload_of(spec);
  launch_protocols(workload, [&](const Implementation& protocol) {
    CHECK(tests::solves_or_says_why(protocol, workload));
  });
}

}  // namespace

TEST_CASE("ranks of any number get the same bits from every protocol, those of the sum in order") {
  NEEDS_GPU();
  for_ranks(check_protocols);
}

TEST_CASE("a hundred layers in one launch reuse all buffers and give all ranks the same bits") {
  NEEDS_GPU();
  for (const int ranks : {1, 2, 3}) check_protocols(spec_of_ranks(ranks, 100, 2, 40, {}));
}

TEST_CASE("ten thousand layers in one launch leave all ranks the bits of the sequential sum") {
  NEEDS_CLOCK();  // and its speed
  for (const int ranks : {2, 4, 8}) {
    const WorkloadSpec spec = spec_of_ranks(ranks, 10000, 3, 64, {});
    const Workload workload = workload_of(spec);
    const std::vector<float> expected = sequential_residual(workload, spec);
    launch_protocols(workload, [&](const Implementation&) {
      const std::vector<float> residual = workload.tensor("residual").values();
      CHECK(std::equal(expected.begin(), expected.end(), residual.begin()));
    });
  }
}
