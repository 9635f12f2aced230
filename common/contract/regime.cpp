#include "common/contract/regime.hpp"

#include "common/contract/operation.hpp"

namespace rmsnorm {
namespace {

std::vector<Shape> shapes_over_rows() {
  std::vector<Shape> shapes;
  for (int rows = 16; rows <= 262144; rows *= 2) shapes.push_back({rows, 4096});
  return shapes;
}

/// The same number of elements everywhere, so that only the rows' length changes. Between the
/// powers of two lie three lengths that real models have.
std::vector<Shape> shapes_over_hidden() {
  constexpr int kElements = 1 << 26;
  std::vector<Shape> shapes;
  for (const int hidden :
       {32, 64, 128, 256, 512, 1024, 2048, 3584, 4096, 5120, 7168, 8192, 16384, 32768, 49152,
        65536}) {
    shapes.push_back({kElements / hidden, hidden});
  }
  return shapes;
}

}  // namespace

const std::vector<Regime>& regimes() {
  static const std::vector<Regime> all = {
      {kPrefillRegime, {{262144, 4096}}, {Cache::cold}},
      {"batch", {{1024, 4096}}, {Cache::cold, Cache::warm}},
      {kDecodeRegime, {{16, 4096}}, {Cache::cold, Cache::warm}},
      {"heads", {{1048576, 128}}, {Cache::cold}},
      {"wide", {{4096, 49152}}, {Cache::cold}},
      {"backward", {{16384, 4096}}, {Cache::cold}, /*is_of_one=*/true},
  };
  return all;
}

const std::vector<Regime>& sweeps() {
  static const std::vector<Regime> all = {
      {kRowsSweep, shapes_over_rows(), {Cache::warm}},
      {kHiddenSweep, shapes_over_hidden(), {Cache::cold}},
      {kUnalignedSweep,
       {{32768, 768}, {32768, 769}, {32768, 12288}, {32768, 12289}},
       {Cache::cold}},
  };
  return all;
}

bool is_measured_in(const Operation& operation, const Regime& regime) {
  if (regime.name == kCustomRegime) return true;
  return operation.regime.empty() ? !regime.is_of_one : operation.regime == regime.name;
}

Shape small_version(Shape shape, int least_rows) {
  constexpr std::int64_t kElements = 1 << 17;
  while (shape.rows > least_rows && std::int64_t{shape.rows} * shape.hidden > kElements) {
    shape.rows /= 2;
  }
  return shape;
}

}  // namespace rmsnorm
