#pragma once
/// \file
/// Sums over ranks, for tests: what they are given, and what they leave.

#include <cstddef>
#include <initializer_list>
#include <set>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/operations/all_reduce.hpp"
#include "common/tensors/workload.hpp"
#include "tests/catch.hpp"

namespace tests {

inline rmsnorm::WorkloadSpec spec_of_ranks(
    int ranks, int layers, int rows, int hidden, const rmsnorm::Types& types) {
  using D = rmsnorm::Description<rmsnorm::AllReduce>;
  rmsnorm::WorkloadSpec spec{.rows = rows, .hidden = hidden, .types = types};
  spec.more[D::kRanks] = ranks;
  spec.more[D::kLayers] = layers;
  return spec;
}

/// Calls check(spec) for each number of ranks with each of rows, and each of columns and types.
template <class Check>
void for_ranks(const Check& check) {
  const char* const types[] = {"fp32", "bf16", "fp16/fp32", "bf16/none"};
  const int ranks[] = {2, 3, 4, 8}, rows[] = {0, 1, 7, 5}, hidden[] = {8, 72, 1000, 264};
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int k = (i + j) % 4;
      check(spec_of_ranks(ranks[i], 4, rows[j], hidden[k], *rmsnorm::types_named(types[k])));
    }
  }
}

/// Gives all ranks the residual of the first, as they have it in a model.
inline void share_residual(rmsnorm::Workload& workload, int ranks) {
  std::vector<float> all = workload.tensor("residual").values();
  const std::size_t size = all.size() / static_cast<std::size_t>(ranks);
  for (std::size_t i = size; i < all.size(); ++i) all[i] = all[i - size];
  workload.set("residual", all);
}

/// The bits of y and of the residual that a rank has.
inline std::vector<std::byte> bits_of_rank(const rmsnorm::Workload& workload, int rank) {
  std::vector<std::byte> bits;
  for (const char* name : {"y", "residual"}) {
    const rmsnorm::GuardedTensor& tensor = workload.tensor(name);
    std::vector<std::byte> piece(tensor.piece_size() * bytes_of(tensor.dtype()));
    rmsnorm::copy_bytes(piece.data(), tensor.data(0, rank), piece.size());
    bits.insert(bits.end(), piece.begin(), piece.end());
  }
  return bits;
}

/// Launches a kernel in these orders of blocks, and adds to the results what each rank has then.
inline void add_results(
    const rmsnorm::Implementation& kernel, const rmsnorm::Workload& workload,
    std::initializer_list<int> orders, std::set<std::vector<std::byte>>& results) {
  rmsnorm::Problem p = workload.problem();
  const rmsnorm::GuardedTensor workspace = make_workspace(kernel, workload);
  give(p, workspace);
  for (const int order : orders) {
    workload.reset();
    workspace.fill(rmsnorm::Content::poison);
    rmsnorm::change_order(order, nullptr);
    const cudaError_t launched = kernel.launch(p, nullptr);
    rmsnorm::change_order(0, nullptr);
    REQUIRE(launched == cudaSuccess);
    rmsnorm::cuda_check(cudaDeviceSynchronize(), kernel.slug);
    const int ranks = p.more[rmsnorm::Description<rmsnorm::AllReduce>::kRanks];
    for (int rank = 0; rank < ranks; ++rank) results.insert(bits_of_rank(workload, rank));
  }
}

}  // namespace tests
