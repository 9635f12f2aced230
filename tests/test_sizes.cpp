/// \file
/// Operations that are not (rows, hidden) alone: further sizes and scalars, integers, pieces, and
/// places that integers choose. The operation here has them all, and no kernel. What `check` says
/// of such problems: test_mutants.cpp.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/base/exit_code.hpp"
#include "common/contract/registry.hpp"
#include "common/operations/all_reduce.hpp"
#include "common/operations/qk_norm_rotation.hpp"
#include "common/programs/options.hpp"
#include "common/tensors/workload.hpp"
#include "common/verify/attempts.hpp"
#include "common/verify/verifier.hpp"
#include "tests/faults.hpp"
#include "tests/gpu_support.hpp"

using namespace rmsnorm;

namespace {

constexpr std::int64_t slots(const Sizes& sizes) {
  return 2 * std::int64_t{sizes.rows} + 1;
}
constexpr Side kRanks = {"rank", side::length_of<0>, /*is_apart=*/true};
constexpr Side kHeads = {"head", side::length_of<1>};
constexpr Side kSlots = {"slot", slots};

const Operation& operation() {
  static const Operation all = {
      .name = "all",
      .tensors =
          {{"x", Role::input, {kRanks, side::rows, side::hidden}, Elements::like_x},
           {"z", Role::in_place, {side::rows, kHeads, side::hidden}, Elements::like_x, 1},
           {"at", Role::input, {side::rows}, Elements::int32, 2, {side::length_of<1>}},
           {"slot", Role::input, {side::rows}, Elements::int32, 3, {slots, true}},
           {"cache", Role::output, {kSlots, side::hidden}, Elements::like_x, 0, {}, "slot"}},
      .sizes = {{"ranks", 8, {2, 3, 8}}, {"heads", 64, {4, 1, 7}}},
      .scalars = {{"scale", {0.5f, 1, -2}}},
      .hidden_multiple = 2,
      .has_eps = true,
      .same_bits = false,
      .regime = "",
      .error_bound = nullptr,
      .compare_on_host = nullptr,
      .compare_on_device = nullptr,
      .derive = [](const Problem&, Memory) {},
      .bytes_to_move = nullptr};
  return all;
}

WorkloadSpec spec_of(int rows, int hidden) {
  return {.memory = Memory::host, .rows = rows, .hidden = hidden};
}

}  // namespace

TEST_CASE("a problem has the usual sizes and scalars of its operation unless others are chosen") {
  WorkloadSpec spec = spec_of(3, 10);
  const Problem usual = Workload(operation(), spec).problem();
  CHECK((usual.more[0] == 2 && usual.more[1] == 4 && usual.scalars[0] == 0.5f));
  CHECK(text_of_sizes(operation(), usual) == "ranks=2 heads=4");
  spec.more[1] = 7;
  spec.scalars[0] = -2;
  const Problem chosen = Workload(operation(), spec).problem();
  CHECK((chosen.more[0] == 2 && chosen.more[1] == 7 && chosen.scalars[0] == -2));
  CHECK(size_of(operation().tensors[1], chosen) == 3 * 7 * 10);
  CHECK(lines_of(operation(), chosen) == 3 * 7);
  // x of both ranks is read, z read and written; the cache has no row for each of the problem's.
  CHECK(bytes_to_move(operation(), usual, {}) == 4 * 3 * 10 * (2 + 2 * 4));
}

TEST_CASE("integers are below their length and are all different where no two may be alike") {
  for (const int rows : {1, 2, 3, 50, 1000}) {
    const Workload workload(operation(), spec_of(rows, 2));
    std::set<float> at;
    for (const float value : workload.tensor("at").values()) {
      REQUIRE((value >= 0 && value < 4));
      at.insert(value);
    }
    CHECK((rows < 50 || at.size() == 4));
    const std::vector<float> slot = workload.tensor("slot").values();
    CHECK(std::set<float>(slot.begin(), slot.end()).size() == slot.size());
    CHECK(*std::min_element(slot.begin(), slot.end()) >= 0);
    CHECK(*std::max_element(slot.begin(), slot.end()) <= 2.0f * static_cast<float>(rows));
  }
}

TEST_CASE("integers lead somewhere also in tensors that hold no numbers yet") {
  NEEDS_GPU();
  WorkloadSpec spec = spec_of(5, 2);
  spec.memory = Memory::device;
  const Workload workload(operation(), spec);
  const Workload moved = workload.moved();
  for (const int value : moved.tensor("at").integers()) CHECK((value >= 0 && value < 4));
  const std::vector<int> at = workload.tensor("at").integers();
  moved.take(workload, nullptr);
  cuda_check(cudaDeviceSynchronize(), "moving");
  CHECK(moved.tensor("at").integers() == at);
  CHECK(workload.tensor("at").integers() == std::vector<int>(5));  // which a kept pointer shows
}

TEST_CASE("each piece of a tensor has numbers and memory and guards of its own") {
  WorkloadSpec spec = spec_of(3, 10);
  spec.more[0] = 3;
  const Workload workload(operation(), spec);
  const GuardedTensor& x = workload.tensor("x");
  const Problem p = workload.problem();
  REQUIRE((x.pieces() == 3 && x.piece_size() == 30 && x.size() == 90));
  const std::vector<float> values = x.values();
  for (int piece = 0; piece < 3; ++piece) {
    CHECK(p.piece(0, piece) == x.data(0, piece));
    const std::vector<float> mine = to_floats(p.piece(0, piece), Dtype::fp32, 30);
    CHECK(std::equal(mine.begin(), mine.end(), values.begin() + 30 * piece));
    CHECK(mine != to_floats(p.piece(0, (piece + 1) % 3), Dtype::fp32, 30));
    for (const int side : {0, 1}) {
      CHECK(std::isnan(tests::get(x.guard(side, piece), Dtype::fp32, 0)));
    }
  }
  const std::uint64_t hash = workload.hash_of_untouchables();
  tests::put(p.piece(0, 2), Dtype::fp32, 29, 0);
  CHECK(workload.hash_of_untouchables() != hash);
}

TEST_CASE(
    "no two pieces are as far apart as two others, and each starts later where they are uneven") {
  for (const auto& [spread, shifted] : {std::pair(0, -1), {1, -1}, {4, -1}, {0, 0}}) {
    CAPTURE(spread, shifted);
    WorkloadSpec spec = spec_of(3, 10);
    spec.more[0] = 8;
    spec.spread = spread;
    spec.shifted = shifted;
    spec.sets = 2;
    const Workload workload(operation(), spec);
    const GuardedTensor& x = workload.tensor("x");
    std::set<std::ptrdiff_t> distances;
    for (int piece = 0; piece < 8; ++piece) {
      const auto* const at = static_cast<const std::byte*>(x.data(0, piece));
      const std::uintptr_t expected = (spread + (shifted == 0)) * piece * (piece + 1) / 2;
      CHECK(reinterpret_cast<std::uintptr_t>(at) % 256 == sizeof(float) * expected % 256);
      if (piece < 7) distances.insert(static_cast<const std::byte*>(x.data(0, piece + 1)) - at);
    }
    CHECK(distances.size() == 7);
    const auto* const last = static_cast<const std::byte*>(x.data(0, 7));
    const auto* const next = static_cast<const std::byte*>(x.data(1, 0));
    CHECK(next - last >= static_cast<std::ptrdiff_t>(30 * 4 + GuardedTensor::kGuardBytes));
  }
}

TEST_CASE("a problem can be named with its sizes and scalars, but none that there is not") {
  const std::string text = "3 x 10, heads 7, scale -2";
  const std::optional<Attempt> attempt = attempt_of(operation(), text);
  REQUIRE(attempt.has_value());
  CHECK((attempt->spec.more[1] == 7 && attempt->spec.scalars[0] == -2.0f));
  CHECK(text_of(operation(), *attempt) == text);
  CHECK_FALSE(attempt_of(operation(), "3 x 10, heads 65").has_value());
  CHECK_FALSE(attempt_of(operation(), "3 x 5").has_value());
  CHECK_THROWS_WITH(
      Workload(operation(), spec_of(3, 5)), "hidden is 5, and all takes multiples of 2");
}

TEST_CASE("host and device find the same first mistake where rows have lines and tensors pieces") {
  NEEDS_GPU();
  for (const Operation* operation : {&operation_of<QkNormRotation>(), &operation_of<AllReduce>()}) {
    CAPTURE(operation->name);
    const auto found = [&](Memory memory) {
      WorkloadSpec spec = spec_of(5, 6);
      spec.memory = memory;
      const Workload workload(*operation, spec);
      workload.reset();
      const auto compare =
          memory == Memory::host ? operation->compare_on_host : operation->compare_on_device;
      return compare(workload.before(), workload.problem(), 10);
    };
    const Comparison on_host = found(Memory::host);
    const Comparison on_device = found(Memory::device);
    REQUIRE((on_host.mismatch && on_device.mismatch));
    CHECK(to_sentence(*on_host.mismatch) == to_sentence(*on_device.mismatch));
    CHECK_THAT(*on_host.max_error, Catch::Matchers::WithinRel(*on_device.max_error, 1e-12));
  }
}

TEST_CASE("every size and scalar of an operation is tried and columns are as it wants them") {
  Implementation implementation = all_implementations().at(0);
  implementation.operation = &operation();
  std::set<int> ranks;
  std::set<int> heads;
  std::set<float> scales;
  for (const Attempt& attempt : attempts_for(implementation, {})) {
    CHECK(attempt.spec.hidden % 2 == 0);
    const Problem p = problem_without_tensors(operation(), attempt.spec);
    ranks.insert(p.more[0]), heads.insert(p.more[1]), scales.insert(p.scalars[0]);
  }
  CHECK(ranks == std::set{2, 3, 8});
  CHECK(heads == std::set{1, 4, 7});
  CHECK(scales == std::set{-2.0f, 0.5f, 1.0f});
}

TEST_CASE("a size can be chosen on the command line and a wrong one is a mistake") {
  std::vector<Implementation> all = {all_implementations().at(0)};
  const auto parse = [&](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    return parse_options(static_cast<int>(arguments.size()), arguments.data(), all);
  };
  CHECK(parse({"--size", "heads=3"}).exit_code == kBadUsage);  // no operation has one
  all[0].operation = &operation();
  CHECK(
      parse({"--size", "heads=3", "--size", "ranks=8"}).options.sizes ==
      std::map<std::string, int>{{"heads", 3}, {"ranks", 8}});
  for (const char* const text : {"heads", "heads=", "heads=0", "heads=65", "heads=3x", "slots=3"}) {
    CAPTURE(text);
    CHECK(parse({"--size", text}).exit_code == kBadUsage);
  }
}
