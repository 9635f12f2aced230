/// \file
/// Sums over ranks: however many there are, and in which order blocks run, every protocol has to
/// leave all ranks the same bits, those of the sum in the order of ranks.

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/operations/all_reduce.hpp"
#include "common/verify/verifier.hpp"
#include "tests/gpu_support.hpp"

using namespace rmsnorm;
using tests::gpu_implementations;

namespace {

using D = Description<AllReduce>;

WorkloadSpec spec_of(int ranks, int layers, int rows, int hidden, const Types& types) {
  WorkloadSpec spec{.rows = rows, .hidden = hidden, .types = types};
  spec.more[D::kRanks] = ranks;
  spec.more[D::kLayers] = layers;
  return spec;
}

std::vector<Implementation> protocols() {
  std::vector<Implementation> all = gpu_implementations();
  std::erase_if(
      all, [](const Implementation& one) { return one.operation != &operation_of<AllReduce>(); });
  return all;
}

/// The workload, in which all ranks have the same residual, as they have in a model.
Workload workload_of(const WorkloadSpec& spec) {
  Workload workload(operation_of<AllReduce>(), spec);
  std::vector<float> residuals = workload.tensor("residual").values();
  const std::size_t size = residuals.size() / static_cast<std::size_t>(spec.more[D::kRanks]);
  for (std::size_t i = size; i < residuals.size(); ++i) residuals[i] = residuals[i - size];
  workload.set("residual", residuals);
  return workload;
}

/// The bits of y and of the residual that a rank has.
std::vector<std::byte> bits_of(const Workload& workload, int rank) {
  std::vector<std::byte> bits;
  for (const char* name : {"y", "residual"}) {
    const GuardedTensor& tensor = workload.tensor(name);
    std::vector<std::byte> piece(tensor.piece_size() * bytes_of(tensor.dtype()));
    copy_bytes(piece.data(), tensor.data(0, rank), piece.size());
    bits.insert(bits.end(), piece.begin(), piece.end());
  }
  return bits;
}

/// What all protocols leave, in all orders: one result.
void check_protocols(const WorkloadSpec& spec) {
  const int ranks = spec.more[D::kRanks], layers = spec.more[D::kLayers];
  CAPTURE(ranks, layers, spec.rows, spec.hidden, to_string(spec.types));
  const Workload workload = workload_of(spec);
  std::set<std::vector<std::byte>> results;
  for (const Implementation& protocol : protocols()) {
    CAPTURE(protocol.slug);
    Problem p = workload.problem();
    if (!protocol.unsupported(p).empty()) continue;
    const GuardedTensor workspace = make_workspace(protocol, workload);
    give(p, workspace);
    for (const int order : {0, 1, 2, 3}) {
      workload.reset();
      workspace.fill(Content::poison);
      change_order(order, nullptr);
      const cudaError_t launched = protocol.launch(p, nullptr);
      change_order(0, nullptr);
      REQUIRE(launched == cudaSuccess);
      cuda_check(cudaDeviceSynchronize(), protocol.slug);
      for (int rank = 0; rank < ranks; ++rank) results.insert(bits_of(workload, rank));
    }
    CHECK(tests::solves_or_says_why(protocol, workload));
  }
  CHECK(results.size() == 1);
}

}  // namespace

TEST_CASE("ranks of any number get the same bits from every protocol, those of the sum in order") {
  NEEDS_GPU();
  // Each number of ranks with each of rows, and with each of columns and types.
  const char* const types[] = {"fp32", "bf16", "fp16/fp32", "bf16/none"};
  const int all_ranks[] = {2, 3, 4, 8};
  const int all_rows[] = {0, 1, 7, 5};
  const int all_hidden[] = {8, 72, 1000, 264};
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int k = (i + j) % 4;
      check_protocols(spec_of(all_ranks[i], 4, all_rows[j], all_hidden[k], *types_named(types[k])));
    }
  }
}

TEST_CASE("a hundred layers in one launch reuse all buffers and give all ranks the same bits") {
  NEEDS_GPU();
  for (const int ranks : {2, 3}) check_protocols(spec_of(ranks, 100, 2, 40, {}));
}

TEST_CASE(
    "all combinations of ranks, rows, columns and types give all ranks the same bits", "[whole]") {
  NEEDS_GPU();
  for (const int ranks : {2, 3, 4, 8}) {
    for (const int rows : {0, 1, 7, 64}) {
      for (const int hidden : {8, 56, 264, 1000}) {
        for (const char* types : {"fp32", "bf16", "fp16"}) {
          check_protocols(spec_of(ranks, 3, rows, hidden, *types_named(types)));
        }
      }
    }
    check_protocols(spec_of(ranks, 100, 7, 264, {}));
  }
}

TEST_CASE("ten thousand layers in one launch give all ranks the same bits") {
  NEEDS_CLOCK();  // and its speed
  for (const int ranks : {2, 4, 8}) check_protocols(spec_of(ranks, 10000, 3, 64, {}));
}
