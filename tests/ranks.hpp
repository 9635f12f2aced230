#pragma once
/// \file
/// Sums over ranks, for tests: what they are given, and what they leave.

#include <cstddef>
#include <vector>

#include "common/operations/all_reduce.hpp"
#include "common/tensors/workload.hpp"

namespace tests {

inline rmsnorm::WorkloadSpec spec_of_ranks(
    int ranks, int layers, int rows, int hidden, const rmsnorm::Types& types) {
  using D = rmsnorm::Description<rmsnorm::AllReduce>;
  rmsnorm::WorkloadSpec spec{.rows = rows, .hidden = hidden, .types = types};
  spec.more[D::kRanks] = ranks;
  spec.more[D::kLayers] = layers;
  return spec;
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

}  // namespace tests
