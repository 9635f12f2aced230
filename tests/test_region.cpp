/// \file
/// Which layouts have memory in common, against a count of every byte.

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "library/region.hpp"
#include "tests/catch.hpp"
#include "tests/dl_tensor.hpp"

using namespace rmsnorm::library;

namespace {

/// Every byte, as often as a row has it.
std::multiset<std::int64_t> bytes_of(const Region& region) {
  std::multiset<std::int64_t> bytes;
  for (std::int64_t row = 0; row < region.rows(); ++row) {
    std::int64_t begin = region.begin, left = row;
    for (int i = kRowDimensions - 1; i >= 0; --i) {
      begin += left % region.size[i] * region.stride[i];
      left /= region.size[i];
    }
    for (std::int64_t byte = 0; byte < region.row_bytes; ++byte) bytes.insert(begin + byte);
  }
  return bytes;
}

bool have_common(const Region& a, const Region& b) {
  const std::multiset<std::int64_t> of_a = bytes_of(a);
  const std::multiset<std::int64_t> of_b = bytes_of(b);
  return std::any_of(of_a.begin(), of_a.end(), [&](std::int64_t byte) { return of_b.count(byte); });
}

bool has_twice(const Region& region) {
  const std::multiset<std::int64_t> bytes = bytes_of(region);
  return std::set<std::int64_t>(bytes.begin(), bytes.end()).size() != bytes.size();
}

}  // namespace

TEST_CASE("rows of a region that overlap are always found") {
  tests::Draw draw{std::mt19937(6)};
  int apart = 0;
  for (int i = 0; i < 20000; ++i) {
    const Region region{
        1000,
        {draw(0, 2), draw(0, 4), draw(0, 4)},
        {draw(-60, 60), draw(-20, 20), draw(-20, 20)},
        draw(0, 6)};
    CAPTURE(region.size[0], region.size[1], region.size[2], region.row_bytes);
    CAPTURE(region.stride[0], region.stride[1], region.stride[2]);
    if (rows_overlap(region)) continue;
    ++apart;
    REQUIRE_FALSE(has_twice(region));
  }
  CHECK(apart > 1000);
}

TEST_CASE("rows that lie in one another's order do not overlap") {
  tests::Draw draw{std::mt19937(6)};
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t row_bytes = draw(1, 6);
    const std::int64_t step = row_bytes + draw(0, 5);
    const std::int64_t inner = draw(1, 5), middle = draw(1, 5);
    const std::int64_t leap = step * (inner - 1) + row_bytes + draw(0, 5);
    const std::int64_t jump = leap * (middle - 1) + step * (inner - 1) + row_bytes + draw(0, 5);
    const auto sign = [&] { return draw(0, 1) == 0 ? 1 : -1; };
    const Region region{
        1000,
        {draw(1, 5), middle, inner},
        {sign() * jump, sign() * leap, sign() * step},
        row_bytes};
    std::array<int, kRowDimensions> order{0, 1, 2};
    do {
      Region other = region;
      for (int k = 0; k < kRowDimensions; ++k) {
        other.size[k] = region.size[order[k]];
        other.stride[k] = region.stride[order[k]];
      }
      CHECK_FALSE(rows_overlap(other));
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST_CASE("regions with a byte in common are always found, and in one grid no others") {
  tests::Draw draw{std::mt19937(6)};
  int exact = 0;
  int with_common = 0;
  for (int i = 0; i < 40000; ++i) {
    const std::int64_t stride[] = {draw(-90, 90), draw(-30, 30), draw(-12, 12)};
    const auto part = [&](std::int64_t begin) -> Region {
      return {
          begin,
          {draw(0, 2), draw(0, 4), draw(0, 4)},
          {stride[0], stride[1], stride[2]},
          draw(1, 5)};
    };
    const Region a = part(1000);
    Region b = part(1000 + draw(-120, 120));
    if (draw(0, 3) == 0) b.stride[draw(0, 2)] = draw(-12, 12);
    CAPTURE(a.size[0], a.size[1], a.size[2], a.row_bytes);
    CAPTURE(a.stride[0], a.stride[1], a.stride[2]);
    CAPTURE(b.begin, b.size[0], b.size[1], b.size[2], b.row_bytes);
    CAPTURE(b.stride[0], b.stride[1], b.stride[2]);
    const bool common = have_common(a, b);
    if (common) REQUIRE(share_memory(a, b));
    if (common) REQUIRE(share_memory(b, a));

    // One grid: the rows of both, as far as either goes, do not overlap.
    Region grid = a;
    grid.row_bytes = std::max(a.row_bytes, b.row_bytes);
    bool same = true;
    for (int k = 0; k < kRowDimensions; ++k) {
      grid.size[k] = std::max(a.size[k], b.size[k]);
      same = same && a.stride[k] == b.stride[k];
    }
    if (!same || a.is_empty() || b.is_empty() || rows_overlap(grid)) continue;
    ++exact;
    with_common += common;
    REQUIRE(share_memory(a, b) == common);
  }
  CHECK(exact > 500);
  CHECK(with_common > 100);
  CHECK(with_common < exact - 100);
}

TEST_CASE("the same rows are the same region, whatever the strides of single rows") {
  const Region region{8, {2, 1, 4}, {99, 77, 16}, 8};
  CHECK(region == Region{8, {2, 1, 4}, {99, 0, 16}, 8});
  CHECK_FALSE(region == Region{8, {2, 1, 4}, {99, 77, 24}, 8});
  CHECK_FALSE(region == Region{8, {2, 1, 4}, {98, 77, 16}, 8});
  CHECK_FALSE(region == Region{16, {2, 1, 4}, {99, 77, 16}, 8});
  CHECK_FALSE(region == Region{8, {2, 1, 3}, {99, 77, 16}, 8});
  CHECK_FALSE(region == Region{8, {2, 1, 4}, {99, 77, 16}, 4});
}
