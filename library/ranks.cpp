/// \file
/// The functions of rmsnorm.h for sums over ranks.

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "library/call.hpp"
#include "library/include/rmsnorm.h"
#include "library/kernels/all_reduce.hpp"

using namespace rmsnorm;
using namespace rmsnorm::library;
using kernels::kRankHeaderBytes;
using kernels::RankFailure;

static_assert(kRankHeaderBytes == RMSNORM_RANKS_HEADER_BYTES);
static_assert(kernels::kMostRanks == RMSNORM_MOST_RANKS);
static_assert(kernels::kMostRankHidden == RMSNORM_MOST_RANK_COLUMNS);

struct rmsnorm_ranks {
  struct Free {
    void operator()(RankFailure* failure) const { cudaFreeHost(failure); }
  };
  View own;  ///< its rank's buffer
  void* buffers[kernels::kMostRanks];
  int rank, ranks;
  std::int64_t half_bytes;
  std::uint64_t limit;  ///< nanoseconds
  std::unique_ptr<RankFailure, Free> failure;
};

namespace rmsnorm::library {
namespace {

/// Refuses what cannot be a buffer.
void check_buffer(void* const* buffers, int which, std::size_t bytes, int ranks) {
  const auto address = reinterpret_cast<std::uintptr_t>(buffers[which]);
  require(
      address != 0, RMSNORM_BAD_POINTER, "buffers[{}] is null: each of the {} ranks needs one",
      which, ranks);
  require(
      address % 256 == 0, RMSNORM_BAD_ALIGNMENT,
      "buffers[{}] begins at the address {:#x}: it needs a multiple of 256", which, address);
  for (int i = 0; i < which; ++i) {
    const auto other = reinterpret_cast<std::uintptr_t>(buffers[i]);
    require(
        std::max(address, other) - std::min(address, other) >= bytes, RMSNORM_BAD_OVERLAP,
        "buffers[{}] shares memory with buffers[{}]: each rank needs its own", which, i);
  }
}

/// Refuses memory that the current device, or none, can reach.
void check_reach(void* buffer, int which) {
  cudaPointerAttributes memory{};
  bool is_reached = cudaPointerGetAttributes(&memory, buffer) == cudaSuccess &&
                    (memory.type == cudaMemoryTypeDevice || memory.type == cudaMemoryTypeManaged);
#if CUDART_VERSION > 0  // the CPU device is one
  is_reached = is_reached && memory.devicePointer != nullptr;
#endif
  if (is_reached) return;
  cudaGetLastError();  // it has been dealt with
  refuse(
      RMSNORM_BAD_DEVICE,
      "buffers[{}] begins at the address {:#x}, which is no memory of a GPU that rank's peers can "
      "reach",
      which, reinterpret_cast<std::uintptr_t>(buffer));
}

/// The buffer as a tensor of words.
View view_of(void* buffer, std::size_t bytes) {
  cudaPointerAttributes memory{};
  if (cudaPointerGetAttributes(&memory, buffer) != cudaSuccess) cudaGetLastError();  // told later
  std::int64_t shape[2] = {1, static_cast<std::int64_t>(bytes / 4)};
  DLTensor words{};
  words.data = buffer;
  words.device = {kDLCUDA, memory.device};
  words.ndim = 2;
  words.dtype = {kDLFloat, 32, 1};
  words.shape = shape;
  return rows_of({"buffers", &words});
}

const rmsnorm_ranks& ranks_at(const rmsnorm_ranks* ranks) {
  require(
      ranks != nullptr, RMSNORM_BAD_POINTER,
      "ranks is null: it needs to be what rmsnorm_ranks_create() made");
  return *ranks;
}

/// Refuses ranks of which one was waited for in vain.
void check_ranks(const rmsnorm_ranks& ranks) {
  const RankFailure& failure = *ranks.failure;
  const unsigned reason =
      std::atomic_ref<unsigned>(ranks.failure->reason).load(std::memory_order_acquire);
  if (reason == RankFailure::kNone) return;
  constexpr const char* kUntil =
      "y and the residual are NaN, there and later, until all ranks call rmsnorm_ranks_reset()";
  const double seconds = static_cast<double>(ranks.limit) / 1e9;
  if (reason == RankFailure::kMissing)
    refuse(
        RMSNORM_RANK_MISSING, "rank {} did not come to call {} within {:g} s of rank {}: {}",
        failure.peer, failure.call, seconds, ranks.rank, kUntil);
  refuse(
      RMSNORM_RANK_MISSING, "rank {} came {} than rank {}, to call {}: {}", failure.peer,
      reason == RankFailure::kOtherShape ? "with another shape, type or protocol"
                                         : "to another call",
      ranks.rank, failure.call, kUntil);
}

/// Makes the rank's flags zeros, and waits for that, and for who used the memory before.
cudaError_t clear(const rmsnorm_ranks& ranks) {
  *ranks.failure = {};
  cudaError_t error = cudaDeviceSynchronize();
  if (error == cudaSuccess) error = cudaMemset(ranks.buffers[ranks.rank], 0, kRankHeaderBytes);
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  return error;
}

}  // namespace
}  // namespace rmsnorm::library

rmsnorm_status rmsnorm_ranks_create(
    void* const* buffers, size_t bytes, int rank, int ranks, unsigned limit_ms,
    rmsnorm_ranks** created) {
  if (created != nullptr) *created = nullptr;
  return status_of([&] {
    require(
        created != nullptr && buffers != nullptr, RMSNORM_BAD_POINTER,
        "{} is null: it needs to be {}", created == nullptr ? "created" : "buffers",
        created == nullptr ? "where to write a pointer" : "a table of pointers");
    require(
        ranks >= 1 && ranks <= kernels::kMostRanks, RMSNORM_BAD_VALUE,
        "ranks is {}: it needs to be 1 to {}", ranks, kernels::kMostRanks);
    require(
        rank >= 0 && rank < ranks, RMSNORM_BAD_VALUE, "rank is {}: it needs to be 0 to {}", rank,
        ranks - 1);
    require(limit_ms > 0, RMSNORM_BAD_VALUE, "limit_ms is 0: it needs to be 1 or more");
    constexpr std::size_t kLeast = kRankHeaderBytes + 32, kMost = std::size_t{1} << 32;
    require(
        bytes >= kLeast && bytes <= kMost, RMSNORM_BAD_VALUE,
        "bytes is {}: it needs to be {} to {}", bytes, kLeast, kMost);
    for (int i = 0; i < ranks; ++i) check_buffer(buffers, i, bytes, ranks);
    auto made = std::make_unique<rmsnorm_ranks>();
    made->own = view_of(buffers[rank], bytes);
    std::copy_n(buffers, ranks, made->buffers);
    made->rank = rank;
    made->ranks = ranks;
    made->half_bytes = static_cast<std::int64_t>((bytes - kRankHeaderBytes) / 32 * 16);
    made->limit = std::uint64_t{limit_ms} * 1000000;
    enqueue({}, {&made->own}, 0, [&] {
      for (int i = 0; i < ranks; ++i) check_reach(buffers[i], i);
      void* memory = nullptr;
      const cudaError_t error = cudaHostAlloc(&memory, sizeof(RankFailure), cudaHostAllocDefault);
      if (error != cudaSuccess) return error;
      made->failure.reset(static_cast<RankFailure*>(memory));
      return clear(*made);
    });
    *created = made.release();
  });
}

rmsnorm_status rmsnorm_ranks_reset(rmsnorm_ranks* ranks) {
  return status_of([&] {
    const rmsnorm_ranks& own = ranks_at(ranks);
    enqueue({}, {&own.own}, 0, [&] { return clear(own); });
  });
}

rmsnorm_status rmsnorm_ranks_status(const rmsnorm_ranks* ranks) {
  return status_of([&] { check_ranks(ranks_at(ranks)); });
}

void rmsnorm_ranks_destroy(rmsnorm_ranks* ranks) {
  delete ranks;
}

rmsnorm_status rmsnorm_all_reduce_residual_add(
    const DLTensor* x, const DLTensor* residual, const DLTensor* weight, const DLTensor* y,
    rmsnorm_ranks* ranks, rmsnorm_protocol protocol, float eps, float weight_bias,
    CUstream_st* stream) {
  return status_of([&] {
    const rmsnorm_ranks& own = ranks_at(ranks);
    require(
        protocol >= RMSNORM_PROTOCOL_BY_SIZE && protocol <= RMSNORM_TWO_SHOT, RMSNORM_BAD_VALUE,
        "protocol is {}: it needs to be a value of rmsnorm_protocol", static_cast<int>(protocol));
    check_number("eps", eps, false);
    const View part = rows_of({"x", x});
    require(
        part.dimensions == 2 && part.hidden <= kernels::kMostRankHidden, RMSNORM_BAD_SHAPE,
        "x has {} dimensions and {} columns: a sum over ranks needs 2, (rows, hidden), and at most "
        "{} columns",
        part.dimensions, part.hidden, kernels::kMostRankHidden);
    check_device(part, own.own);
    const View sum = output_like({"residual", residual}, part);
    const auto factor = weight_or_none({"weight", weight}, part, weight_bias);
    if (factor && factor->dtype != Dtype::fp32) check_dtype(*factor, part);
    const View norm = output_like({"y", y}, part);
    const std::int64_t rows = part.region.rows();
    const std::int64_t row = kernels::inbox_bytes(1, part.hidden, part.dtype);
    const std::int64_t bytes = rows * row;
    require(
        row == 0 || rows <= own.half_bytes / row, RMSNORM_BAD_SHAPE,
        "x has {} bytes, in whole vectors of 16: the ranks' buffers have room for {}", bytes,
        own.half_bytes);
    check_ranks(own);
    Views read{&part};
    if (factor) read.push_back(&*factor);
    enqueue({&norm, &sum, &own.own}, read, 1, [&] {
      const auto stride_of = [](const View& view) {
        return view.region.stride[kRowDimensions - 1];
      };
      kernels::AllReduced op{};
      std::copy_n(own.buffers, own.ranks, op.buffers);
      op.own[0] = {
          static_cast<const char*>(data_of(part)), static_cast<char*>(data_of(sum)),
          static_cast<char*>(data_of(norm))};
      op.x_stride = stride_of(part);
      op.residual_stride = stride_of(sum);
      op.y_stride = stride_of(norm);
      op.weight = factor ? data_of(*factor) : nullptr;
      op.weight_is_fp32 = factor && factor->dtype == Dtype::fp32;
      op.failures = own.failure.get();
      op.limit = own.limit;
      op.half_bytes = own.half_bytes;
      op.rank = own.rank;
      op.ranks = own.ranks;
      op.rows = part.hidden == 0 ? 0 : static_cast<int>(rows);
      op.hidden = static_cast<int>(part.hidden);
      op.dtype = part.dtype;
      op.is_two_shot = protocol == RMSNORM_PROTOCOL_BY_SIZE
                           ? kernels::is_for_two_shot(own.ranks, bytes)
                           : protocol == RMSNORM_TWO_SHOT;
      op.eps = eps;
      op.weight_bias = weight_bias;
      return kernels::launch(op, stream);
    });
  });
}
