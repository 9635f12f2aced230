/// \file
/// The random tensors, and the guards around them.

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "common/contract/expected.hpp"
#include "common/tensors/random.hpp"
#include "common/tensors/workload.hpp"
#include "tests/bits.hpp"
#include "tests/catch.hpp"
#include "tests/operations.hpp"

using namespace rmsnorm;
using tests::operations;
using tests::same_bits;

namespace {

WorkloadSpec spec_with(std::uint64_t seed, const Types& types = {}) {
  return {.memory = Memory::host, .rows = 300, .hidden = 77, .seed = seed, .types = types};
}

/// The values of a set's tensor, with so many elements more on either side.
std::vector<float> values_of(
    const Workload& workload, const TensorSpec& spec, int set = 0, std::size_t around = 0) {
  const GuardedTensor& tensor = workload.tensor(spec.name);
  const auto* first = static_cast<const std::byte*>(tensor.data(set));
  return to_floats(
      first - around * bytes_of(tensor.dtype()), tensor.dtype(), tensor.size() + 2 * around);
}

/// Calls test(workload, tensor) for every tensor of every operation.
void for_tensors(
    const WorkloadSpec& spec, const std::function<void(const Workload&, const TensorSpec&)>& test) {
  for (const Operation* operation : operations()) {
    const Workload workload(*operation, spec);
    for (const TensorSpec& tensor : operation->tensors) {
      CAPTURE(operation->name, tensor.name, to_string(spec.types));
      test(workload, tensor);
    }
  }
}

}  // namespace

TEST_CASE("the random bits are those of SplitMix64") {
  CHECK(random_bits(0, 0) == 0xe220a8397b1dcdaf);
  CHECK(random_bits(0, 1) == 0x6e789e6aa1b965f4);
  CHECK(random_bits(0, 2) == 0x06c45d188009454f);
}

TEST_CASE("random floats fill their range, and weights two ranges apart from 0 and 1, evenly") {
  double sum = 0;
  int negative = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const float value = random_float(1, i), weight = random_weight(1, i);
    REQUIRE((value >= -1 && value < 1));
    REQUIRE((std::abs(weight) >= 0.5f && std::abs(weight) <= 1.5f && std::abs(weight) != 1));
    sum += value;
    negative += weight < 0 ? 1 : 0;
  }
  CHECK(std::abs(sum / 100000) < 0.01);
  CHECK((negative > 49000 && negative < 51000));
}

TEST_CASE("rows differ in scale and neighbours mostly do") {
  constexpr int kHidden = 256;
  std::set<int> exponents;
  int unlike_the_next = 0;
  int last = 100;
  for (int row = 0; row < 256; ++row) {
    float largest = 0;
    for (int col = 0; col < kHidden; ++col)
      largest = std::max(largest, std::abs(random_x(1, row, col, kHidden)));
    const int exponent = std::ilogb(largest) + 1;  // of the first power of two above
    exponents.insert(exponent);
    unlike_the_next += exponent != last ? 1 : 0;
    last = exponent;
  }
  CHECK(exponents == std::set<int>{-4, -3, -2, -1, 0, 1, 2, 3});
  CHECK(unlike_the_next > 200);
}

TEST_CASE("every input depends on the seed and the set and nothing else and no two are alike") {
  for (const Operation* operation : operations()) {
    WorkloadSpec spec = spec_with(7);
    const Workload again(*operation, spec);
    const Workload other(*operation, spec_with(8));
    spec.sets = 3;
    const Workload once(*operation, spec);
    for (const TensorSpec& tensor : operation->tensors) {
      if (!is_read(tensor)) continue;
      CAPTURE(operation->name, tensor.name);
      const std::vector<float> values = values_of(once, tensor);
      CHECK(same_bits(values, values_of(again, tensor)));
      CHECK_FALSE(same_bits(values, values_of(other, tensor)));
      CHECK_FALSE(same_bits(values, values_of(once, tensor, 1)));
      CHECK_FALSE(same_bits(values_of(once, tensor, 1), values_of(once, tensor, 2)));
      const bool is_x = tensor.name == std::string("x");
      if (is_matrix(tensor) && !is_x) {
        CHECK_FALSE(same_bits(values, values_of(once, operation->tensors[0])));
      }
    }
  }
}

TEST_CASE("tensors of 16 bits hold the numbers of fp32 tensors, each rounded") {
  for (const Types& types : all_types()) {
    for_tensors(spec_with(7, types), [&](const Workload& workload, const TensorSpec& tensor) {
      const Problem p = workload.problem();
      const int i = workload.operation().index_of(tensor.name);
      CHECK((p.tensors[i] == nullptr) == !is_there(tensor, types));
      if (tensor.role != Role::input && tensor.role != Role::in_place) return;
      const Workload fp32(workload.operation(), spec_with(7));
      std::vector<float> expected = values_of(fp32, tensor);
      for (float& value : expected) value = rounded(dtype_of(tensor, types), value);
      CHECK(same_bits(values_of(workload, tensor), expected));
    });
  }
}

TEST_CASE("each tensor starts where it was asked to") {
  for (const Types& types : all_types()) {
    WorkloadSpec spec = spec_with(1, types);
    spec.sets = 2;
    spec.misalign = 3;
    for_tensors(spec, [&](const Workload& workload, const TensorSpec& tensor) {
      const GuardedTensor& guarded = workload.tensor(tensor.name);
      for (const int set : {0, 1}) {
        const auto address = reinterpret_cast<std::uintptr_t>(guarded.data(set));
        CHECK(address % 256 == 3 * static_cast<unsigned>(bytes_of(guarded.dtype())));
      }
    });
  }
}

TEST_CASE("NaN lies around what is read alone and poison in and around what is written") {
  for (const char* const types : {"fp32", "fp16", "bf16/fp32"}) {
    WorkloadSpec spec = spec_with(1, *types_named(types));
    spec.sets = 2;
    spec.misalign = 2;
    for_tensors(spec, [](const Workload& workload, const TensorSpec& tensor) {
      const GuardedTensor& guarded = workload.tensor(tensor.name);
      const int bytes = bytes_of(guarded.dtype());
      const std::size_t guard = GuardedTensor::kGuardBytes / bytes;
      const auto* const first = static_cast<const std::byte*>(guarded.data());
      CHECK(guarded.guard(0) == first - GuardedTensor::kGuardBytes);
      CHECK(guarded.guard(1) == first + guarded.size() * bytes);
      for (const int set : {0, 1}) {
        const std::vector<float> all = values_of(workload, tensor, set, guard);
        const auto is_guard = [&](float value) {
          return is_written(tensor) ? is_poison(value) : std::isnan(value) && !is_poison(value);
        };
        CHECK(std::all_of(all.begin(), all.begin() + guard, is_guard));
        CHECK(std::all_of(all.end() - guard, all.end(), is_guard));
        const auto inside = std::count_if(all.begin() + guard, all.end() - guard, is_guard);
        CHECK(inside == (tensor.role == Role::output ? static_cast<long>(guarded.size()) : 0));
      }
    });
  }
}

TEST_CASE("no rounding makes poison") {
  for (const Dtype dtype : {Dtype::fp16, Dtype::bf16}) {
    CHECK(is_poison(value_of(dtype, poison_bits(dtype))));
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const std::uint32_t back = bits_of(dtype, value_of(dtype, bits));
      REQUIRE_FALSE(is_poison(value_of(dtype, back)));
    }
  }
}

TEST_CASE("a bias without a weight is a mistake") {
  WorkloadSpec spec = spec_with(1, {.dtype = Dtype::bf16, .weight = {}, .weight_bias = 1});
  for (const Operation* operation : operations()) {
    const auto make = [&] { return Workload(*operation, spec); };
    spec.types.weight.reset();
    CHECK_THROWS_WITH(make(), "weight_bias is 1, and there is no weight: it needs to be 0");
    spec.types.weight = Dtype::fp32;
    CHECK_NOTHROW(make());
  }
}

TEST_CASE("the bytes of a workload cover the tensors and their guards and little else") {
  for (const Operation* operation : operations()) {
    CAPTURE(operation->name);
    std::size_t matrices = 0;
    for (const TensorSpec& tensor : operation->tensors) {
      matrices += (is_matrix(tensor)) + (tensor.role == Role::in_place);
    }
    const std::size_t tensors = matrices * 1000 * 1000 * sizeof(float);
    const std::size_t bytes = Workload::bytes(*operation, {.rows = 1000, .hidden = 1000});
    CHECK(bytes > tensors + 2 * matrices * GuardedTensor::kGuardBytes);
    CHECK(bytes < tensors * 1.02);
  }
}
