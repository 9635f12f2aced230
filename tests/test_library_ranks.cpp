/// \file
/// librmsnorm's sums over ranks: the bits of lesson 17, no wait for ever, and what is refused.

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/contract/registry.hpp"
#include "common/operations/all_reduce.hpp"
#include "common/verify/verifier.hpp"
#include "library/include/rmsnorm.hpp"
#include "library/kernels/all_reduce.hpp"
#include "tests/dl_tensor.hpp"
#include "tests/gpu_support.hpp"
#include "tests/ranks.hpp"

using namespace rmsnorm;
using namespace tests;
using kernels::kRankHeaderBytes;
using kernels::RankFailure;
using kernels::RankHeader;

namespace {

using D = Description<AllReduce>;

/// A record of each rank that a kernel can write to.
RankFailure* failures() {
  static RankFailure* const all = [] {
    void* memory = nullptr;
    constexpr std::size_t kBytes = sizeof(RankFailure) * kernels::kMostRanks;
    cuda_check(cudaHostAlloc(&memory, kBytes, cudaHostAllocDefault), "pinning memory");
    std::memset(memory, 0, kBytes);
    return static_cast<RankFailure*>(memory);
  }();
  return all;
}

/// One layer of the problem for the first of its ranks.
kernels::AllReduced layer_of(const AllReduce& p, int layer, int launched_ranks) {
  const std::int64_t row = std::int64_t{p.hidden} * bytes_of(p.dtype);
  kernels::AllReduced op{};
  for (int rank = 0; rank < p.ranks; ++rank) {
    const AllReduce::Rank& from = p.rank[rank];
    op.buffers[rank] = from.workspace;
    op.own[rank] = {
        static_cast<const char*>(from.x) + layer * row, static_cast<char*>(from.residual),
        static_cast<char*>(from.y) + layer * row};
  }
  op.x_stride = op.y_stride = p.layers * row;
  op.residual_stride = row;
  op.weight = p.weight;
  op.weight_is_fp32 = p.weight_dtype == Dtype::fp32;
  op.failures = failures();
  op.limit = 10'000'000'000;
  op.half_bytes = kernels::inbox_bytes(p.rows, p.hidden, p.dtype);
  op.ranks = p.ranks;
  op.rows = p.rows;
  op.hidden = p.hidden;
  op.dtype = p.dtype;
  op.eps = p.eps;
  op.weight_bias = p.weight_bias;
  op.launched_ranks = launched_ranks;
  // All blocks of all ranks, of 16 columns a thread, have to fit on the CPU device.
  const int threads = std::max(32, p.hidden / 8);
  op.most_blocks = std::max(1, std::min(kernels::kMostRankBlocks, 4096 / threads) / p.ranks);
  return op;
}

/// The library as an implementation of what lesson 17 does: a launch for each layer, of all ranks.
/// \param two_shot  which layers are, as bits
Implementation library_of(const char* slug, unsigned two_shot) {
  Implementation one{};
  one.slug = slug;
  one.operation = &operation_of<AllReduce>();
  one.memory = Memory::device;
  one.is_typed = true;
  one.unsupported = [](const Problem&) { return std::string(); };
  one.workspace_bytes = [](const Problem& p) {
    const std::int64_t part = kernels::inbox_bytes(p.rows, p.hidden, p.dtype);
    return kRankHeaderBytes + static_cast<std::size_t>(2 * part);
  };
  one.sum_depth = [](const Problem& p) { return SumDepth(std::min(p.hidden, 16) + 5 + 5); };
  one.launch = [two_shot](const Problem& problem, cudaStream_t stream) {
    const AllReduce p = D::view(problem);
    cudaError_t error = cudaSuccess;
    for (int rank = 0; rank < p.ranks && error == cudaSuccess; ++rank)
      error = cudaMemsetAsync(p.rank[rank].workspace, 0, kRankHeaderBytes, stream);
    for (int layer = 0; layer < p.layers && error == cudaSuccess; ++layer) {
      kernels::AllReduced op = layer_of(p, layer, p.ranks);
      op.is_two_shot = (two_shot >> layer % 32 & 1) != 0;
      error = kernels::launch(op, stream);
    }
    return error;
  };
  return one;
}

/// The library, one-shot, two-shot and by turns, is right, without a race, and gives all ranks the
/// bits of lesson 17, in several orders of blocks.
void check_bits(const WorkloadSpec& spec) {
  Workload workload(operation_of<AllReduce>(), spec);
  share_residual(workload, spec.more[D::kRanks]);
  std::vector<Implementation> all{
      library_of("one_shot", 0), library_of("two_shot", ~0u), library_of("by_turns", 0x66666666)};
  CAPTURE(spec.more[D::kRanks], spec.rows, spec.hidden, to_string(spec.types));
  for (const Implementation& one : all) CHECK(solves_or_says_why(one, workload));
  for (const Implementation& lesson : find_implementations(all_implementations(), "17"))
    all.push_back(lesson);
  std::set<std::vector<std::byte>> results;
  for (const Implementation& one : all) {
    if (one.unsupported(workload.problem()).empty()) add_results(one, workload, {0, 1, 2}, results);
  }
  CHECK(results.size() == 1);
  CHECK(failures()->reason == RankFailure::kNone);
}

/// Buffers in the device's memory, with something in them.
struct Buffers {
  Buffers(int ranks, std::size_t size) : bytes(size), all(ranks) {
    for (void*& buffer : all) {
      cuda_check(cudaMalloc(&buffer, bytes), "allocating a buffer");
      cuda_check(cudaMemset(buffer, 0xff, bytes), "filling a buffer");
    }
  }
  ~Buffers() {
    for (void* buffer : all) cudaFree(buffer);
  }
  Buffers(const Buffers&) = delete;
  RankHeader header(int rank) const {
    RankHeader header{};
    cuda_check(cudaMemcpy(&header, all[rank], sizeof header, cudaMemcpyDeviceToHost), "reading");
    return header;
  }
  std::size_t bytes;
  std::vector<void*> all;
};

constexpr std::int64_t kRows = 3, kHidden = 12;
constexpr std::size_t kBytes = kRankHeaderBytes + 2 * kRows * kHidden * 4;

/// A call of rank 0 of two, and a peer that the host plays.
struct Call {
  Call() { REQUIRE(create() == RMSNORM_OK); }
  ~Call() { rmsnorm_ranks_destroy(ranks); }
  rmsnorm_status create(int rank = 0, int number = 2, unsigned limit_ms = 1) {
    rmsnorm_ranks_destroy(ranks);
    return rmsnorm_ranks_create(buffers.all.data(), buffers.bytes, rank, number, limit_ms, &ranks);
  }
  rmsnorm_status operator()(rmsnorm_protocol protocol = RMSNORM_PROTOCOL_BY_SIZE) {
    const rmsnorm_status status = rmsnorm_all_reduce_residual_add(
        &x.view, &residual.view, &weight.view, &y.view, ranks, protocol, kEps, 1, nullptr);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    return status;
  }
  /// The peer has stored its part, x again, and its flags.
  void peer_comes(unsigned long long flag, unsigned long long call) {
    RankHeader own = buffers.header(0);
    for (auto& flags : own.flags) flags[1] = flag;
    cuda_check(cudaMemcpy(buffers.all[0], &own, sizeof own, cudaMemcpyHostToDevice), "flags");
    char* const inbox = static_cast<char*>(buffers.all[1]) + kRankHeaderBytes;
    const std::size_t part = kRows * kHidden * 4;
    cuda_check(
        cudaMemcpy(inbox + call % 2 * part, x.array.data(), part, cudaMemcpyDeviceToDevice), "x");
    cuda_check(cudaMemset(inbox + (call + 1) % 2 * part, 0xff, part), "the other half");  // NaN
  }
  bool is_nan(const DeviceTensor& tensor) const {
    const std::vector<float> now = tensor.array.now();
    return std::all_of(
        now.begin(), now.begin() + kRows * kHidden, [](float v) { return std::isnan(v); });
  }
  std::string said() const {
    CHECK(rmsnorm_ranks_status(ranks) == RMSNORM_RANK_MISSING);
    return rmsnorm_last_error();
  }

  Buffers buffers{2, kBytes};
  DeviceTensor x{Dtype::fp32, contiguous({kRows, kHidden}), 1};
  DeviceTensor residual{Dtype::fp32, contiguous({kRows, kHidden}), 2};
  DeviceTensor y{Dtype::fp32, contiguous({kRows, kHidden}), 3};
  DeviceTensor weight{Dtype::fp32, contiguous({kHidden}), 4};
  rmsnorm_ranks* ranks = nullptr;
};

constexpr const char* kUntil =
    ": y and the residual are NaN, there and later, until all ranks call rmsnorm_ranks_reset()";

}  // namespace

TEST_CASE("sums over ranks have the bits of lesson 17, one-shot, two-shot and by turns") {
  NEEDS_GPU();
  for_ranks(check_bits);
  check_bits(spec_of_ranks(1, 3, 5, 72, {}));
  check_bits(spec_of_ranks(1, 2, 130, 8, {}));  // more than there may be blocks
  check_bits(spec_of_ranks(2, 3, 70, 40, {}));  // more rows than blocks
}

TEST_CASE("sums over ranks of any number of columns are right") {
  NEEDS_GPU();
  for (const char* types : {"fp32", "bf16", "fp16/fp32"})
    for (const int hidden : {1, 13, 3000, 5001, 16384})
      check_bits(spec_of_ranks(3, 2, 2, hidden, *types_named(types)));
}

TEST_CASE("a rank that does not come ends a sum in NaN, is named, and may come after a reset") {
  NEEDS_GPU();
  for (const bool is_two_shot : {false, true}) {
    const Workload workload(operation_of<AllReduce>(), spec_of_ranks(3, 1, 5, 24, {}));
    const Implementation right = library_of("right", 0);
    const GuardedTensor workspace = make_workspace(right, workload);
    Problem problem = workload.problem();
    give(problem, workspace);
    const AllReduce p = D::view(problem);
    REQUIRE(right.launch(problem, nullptr) == cudaSuccess);
    kernels::AllReduced op = layer_of(p, 0, 2);  // rank 2 is not launched
    op.is_two_shot = is_two_shot;
    op.limit = 1'000'000;
    for (int call = 0; call < 3; ++call) {
      workload.reset();
      REQUIRE(kernels::launch(op, nullptr) == cudaSuccess);
      cuda_check(cudaDeviceSynchronize(), "ending without a rank");
      for (int rank = 0; rank < 2; ++rank) {
        CHECK(failures()[rank].reason == RankFailure::kMissing);
        CHECK(failures()[rank].peer == 2);
        CHECK(failures()[rank].call == 1);
      }
      for (const char* name : {"y", "residual"}) {
        const std::vector<float> now = workload.tensor(name).values();
        const std::size_t of_two = now.size() / 3 * 2;
        CHECK(
            std::all_of(now.begin(), now.begin() + of_two, [](float v) { return std::isnan(v); }));
      }
    }
    std::memset(failures(), 0, 3 * sizeof(RankFailure));
    CHECK(solves_or_says_why(right, workload));  // it begins with a reset
  }
}

TEST_CASE("a peer that comes gives its part, and one that does not a sentence") {
  NEEDS_GPU();
  Call call;
  CHECK(rmsnorm_ranks_status(call.ranks) == RMSNORM_OK);
  REQUIRE(call() == RMSNORM_OK);  // enqueued, and the peer does not come
  CHECK(call.is_nan(call.y));
  CHECK(call.is_nan(call.residual));
  CHECK(
      call.said() ==
      std::string("rank 1 did not come to call 0 within 0.001 s of rank 0") + kUntil);
  CHECK(call() == RMSNORM_RANK_MISSING);
  const unsigned long long flag = call.buffers.header(1).flags[0][0];
  for (const int number : {0, 1}) {  // with another shape, and to another call
    REQUIRE(rmsnorm_ranks_reset(call.ranks) == RMSNORM_OK);
    CHECK(rmsnorm_ranks_status(call.ranks) == RMSNORM_OK);
    call.peer_comes(number == 0 ? flag ^ 1 : flag + (3 << 16), 0);
    REQUIRE(call() == RMSNORM_OK);
    CHECK(call.is_nan(call.y));
    const char* const how =
        number == 0 ? "with another shape, type or protocol" : "to another call";
    CHECK(call.said() == fmt::format("rank 1 came {} than rank 0, to call 0{}", how, kUntil));
  }
  // A sum of no rows meets its peers, too: one that has some is named.
  REQUIRE(rmsnorm_ranks_reset(call.ranks) == RMSNORM_OK);
  call.peer_comes(flag, 0);
  const DeviceTensor none(Dtype::fp32, contiguous({0, kHidden}), 5);
  const DeviceTensor no_sum(Dtype::fp32, contiguous({0, kHidden}), 6);
  REQUIRE(
      rmsnorm_all_reduce_residual_add(
          &none.view, &no_sum.view, &call.weight.view, &none.view, call.ranks, RMSNORM_ONE_SHOT,
          kEps, 1, nullptr) == RMSNORM_OK);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK_THAT(call.said(), contains("rank 1 came with another shape, type or protocol"));
  REQUIRE(rmsnorm_ranks_reset(call.ranks) == RMSNORM_OK);
  std::vector<float> sum(call.residual.array.before());
  for (unsigned long long number : {0, 1, 2}) {
    if (number == 0) {
      std::vector<std::byte> bytes(sum.size() * 4);
      std::memcpy(bytes.data(), sum.data(), bytes.size());
      call.residual.array.fill(bytes);
    }
    call.peer_comes(flag + (2 * number << 16), number);
    REQUIRE(call() == RMSNORM_OK);
    for (std::int64_t i = 0; i < kRows * kHidden; ++i) sum[i] += 2 * call.x.array.before()[i];
    CHECK(rmsnorm_ranks_status(call.ranks) == RMSNORM_OK);
    CHECK(call.residual.array.now() == sum);
  }
  const Values values = [&](std::int64_t row, std::int64_t col) {
    return sum[row * kHidden + col];
  };
  check_elements(call.y, norm_of(values, call.x.layout, Dtype::fp32, factors_of(&call.weight, 1)));
}

TEST_CASE("a rank alone needs no peer") {
  NEEDS_GPU();
  Call call;
  REQUIRE(call.create(0, 1) == RMSNORM_OK);
  for (const auto protocol : {RMSNORM_ONE_SHOT, RMSNORM_TWO_SHOT})
    REQUIRE(call(protocol) == RMSNORM_OK);
  const std::vector<float> now = call.residual.array.now();
  for (std::int64_t i = 0; i < kRows * kHidden; ++i) {
    const float x = call.x.array.before()[i];
    CHECK(now[i] == call.residual.array.before()[i] + x + x);
  }
}

TEST_CASE("rmsnorm.hpp has ranks that end with their object, and throws the sentence") {
  NEEDS_GPU();
  Call call;
  const auto view = [](const DeviceTensor& tensor) {
    return TensorView(static_cast<float*>(tensor.view.data), {kRows, kHidden});
  };
  Ranks alone(call.buffers.all.data(), kBytes, 0, 1);
  all_reduce_residual_add(view(call.x), view(call.residual), {}, view(call.y), alone, kEps);
  alone.check();
  alone.reset();
  const std::vector<float>& x = call.x.array.before();
  CHECK(call.residual.array.now()[5] == call.residual.array.before()[5] + x[5]);
  CHECK_THROWS_AS(Ranks(nullptr, kBytes, 0, 1), Error);
  CHECK_THROWS_WITH(
      all_reduce_residual_add(view(call.x), view(call.x), {}, view(call.y), alone, kEps),
      contains("residual shares memory with x"));
}

TEST_CASE("what cannot be a sum over ranks is refused before anything is launched") {
  NEEDS_GPU();
  Call call;
  rmsnorm_ranks* made = nullptr;
  const auto refused = [&](rmsnorm_status expected, const std::string& sentence, void* second,
                           std::size_t bytes = kBytes, int rank = 0, int ranks = 2,
                           unsigned limit = 1) {
    void* const table[] = {call.buffers.all[0], second};
    made = reinterpret_cast<rmsnorm_ranks*>(&call);  // which is no such thing
    CHECK(rmsnorm_ranks_create(table, bytes, rank, ranks, limit, &made) == expected);
    CHECK_THAT(rmsnorm_last_error(), contains(sentence));
    CHECK(made == nullptr);
  };
  char* const second = static_cast<char*>(call.buffers.all[1]);
  alignas(256) static char host[kBytes];
  refused(RMSNORM_BAD_POINTER, "buffers[1] is null: each of the 2 ranks needs one", nullptr);
  refused(RMSNORM_BAD_ALIGNMENT, "it needs a multiple of 256", second + 16);
  refused(RMSNORM_BAD_OVERLAP, "buffers[1] shares memory with buffers[0]", call.buffers.all[0]);
  refused(RMSNORM_BAD_DEVICE, "which is no memory of a GPU that rank's peers can reach", host);
  refused(RMSNORM_BAD_VALUE, "ranks is 9: it needs to be 1 to 8", second, kBytes, 0, 9);
  refused(RMSNORM_BAD_VALUE, "rank is 2: it needs to be 0 to 1", second, kBytes, 2);
  refused(RMSNORM_BAD_VALUE, "limit_ms is 0: it needs to be 1 or more", second, kBytes, 0, 2, 0);
  refused(RMSNORM_BAD_VALUE, "bytes is 100: it needs to be 16416 to 4294967296", second, 100);
  CHECK(rmsnorm_ranks_create(nullptr, kBytes, 0, 1, 1, &made) == RMSNORM_BAD_POINTER);
  CHECK(rmsnorm_ranks_create(nullptr, kBytes, 0, 1, 1, nullptr) == RMSNORM_BAD_POINTER);
  CHECK(rmsnorm_ranks_reset(nullptr) == RMSNORM_BAD_POINTER);
  CHECK(rmsnorm_ranks_status(nullptr) == RMSNORM_BAD_POINTER);
  CHECK_THAT(rmsnorm_last_error(), contains("ranks is null: it needs to be what"));
  rmsnorm_ranks_destroy(nullptr);

  const auto untouched = call.buffers.header(1).flags[0][0];
  const auto wrong = [&](rmsnorm_status expected, const std::string& sentence,
                         const DeviceTensor& x, const DeviceTensor& residual, const DeviceTensor& y,
                         int protocol = 0) {
    CHECK(
        rmsnorm_all_reduce_residual_add(
            &x.view, &residual.view, nullptr, &y.view, call.ranks,
            static_cast<rmsnorm_protocol>(protocol), kEps, 0, nullptr) == expected);
    CHECK_THAT(rmsnorm_last_error(), contains(sentence));
    CHECK(call.buffers.header(1).flags[0][0] == untouched);
  };
  const DeviceTensor other(Dtype::fp32, contiguous({kRows + 1, kHidden}), 5);
  const DeviceTensor three(Dtype::fp32, contiguous({1, kRows, kHidden}), 6);
  const DeviceTensor half(Dtype::bf16, contiguous({kRows, kHidden}), 7);
  wrong(RMSNORM_BAD_SHAPE, "residual has the shape (4, 12)", call.x, other, call.y);
  wrong(RMSNORM_BAD_SHAPE, "y has the shape (4, 12)", call.x, call.residual, other);
  wrong(RMSNORM_BAD_SHAPE, "needs 2, (rows, hidden)", three, three, three);
  wrong(
      RMSNORM_BAD_SHAPE,
      "x has 192 bytes, in whole vectors of 16: the ranks' buffers have room for 144", other,
      DeviceTensor(Dtype::fp32, contiguous({4, kHidden}), 8), other);
  wrong(RMSNORM_BAD_DTYPE, "residual has elements of bfloat16", call.x, half, call.y);
  wrong(RMSNORM_BAD_OVERLAP, "residual shares memory with x", call.x, call.x, call.y);
  wrong(RMSNORM_BAD_VALUE, "protocol is 3", call.x, call.residual, call.y, 3);
}
