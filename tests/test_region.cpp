/// \file
/// Which layouts have memory in common, against a count of every byte.

#include <algorithm>
#include <random>
#include <set>

#include "library/region.hpp"
#include "tests/catch.hpp"

using namespace rmsnorm::library;

namespace {

/// Every byte, as often as a row has it.
std::multiset<std::int64_t> bytes_of(const Region& region) {
  std::multiset<std::int64_t> bytes;
  for (std::int64_t i = 0; i < region.size[0]; ++i) {
    for (std::int64_t j = 0; j < region.size[1]; ++j) {
      for (std::int64_t byte = 0; byte < region.row_bytes; ++byte) {
        bytes.insert(region.begin + i * region.stride[0] + j * region.stride[1] + byte);
      }
    }
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

/// Draws numbers in [from, to], the same at every run.
auto make_draw() {
  return [random = std::mt19937(6)](int from, int to) mutable {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
}

}  // namespace

TEST_CASE("rows of a region that overlap are always found") {
  auto draw = make_draw();
  int apart = 0;
  for (int i = 0; i < 20000; ++i) {
    const Region region{1000, {draw(0, 4), draw(0, 4)}, {draw(-20, 20), draw(-20, 20)}, draw(0, 6)};
    CAPTURE(region.size[0], region.size[1], region.stride[0], region.stride[1], region.row_bytes);
    if (rows_overlap(region)) continue;
    ++apart;
    REQUIRE_FALSE(has_twice(region));
  }
  CHECK(apart > 1000);
}

TEST_CASE("rows that lie in one another's order do not overlap") {
  auto draw = make_draw();
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t row_bytes = draw(1, 6);
    const std::int64_t step = row_bytes + draw(0, 5);
    const std::int64_t inner = draw(1, 5);
    const std::int64_t leap = step * (inner - 1) + row_bytes + draw(0, 5);
    const std::int64_t outer_sign = draw(0, 1) == 0 ? 1 : -1;
    const std::int64_t inner_sign = draw(0, 1) == 0 ? 1 : -1;
    Region region{1000, {draw(1, 5), inner}, {outer_sign * leap, inner_sign * step}, row_bytes};
    CHECK_FALSE(rows_overlap(region));
    std::swap(region.size[0], region.size[1]);
    std::swap(region.stride[0], region.stride[1]);
    CHECK_FALSE(rows_overlap(region));
  }
}

TEST_CASE("regions with a byte in common are always found, and in one grid no others") {
  auto draw = make_draw();
  int exact = 0;
  int with_common = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::int64_t stride[2] = {draw(-30, 30), draw(-12, 12)};
    Region a{1000, {draw(0, 4), draw(0, 4)}, {stride[0], stride[1]}, draw(1, 5)};
    Region b{1000 + draw(-90, 90), {draw(0, 4), draw(0, 4)}, {stride[0], stride[1]}, draw(1, 5)};
    if (draw(0, 3) == 0) b.stride[draw(0, 1)] = draw(-12, 12);
    CAPTURE(a.size[0], a.size[1], a.stride[0], a.stride[1], a.row_bytes);
    CAPTURE(b.begin, b.size[0], b.size[1], b.stride[0], b.stride[1], b.row_bytes);
    const bool common = have_common(a, b);
    if (common) REQUIRE(share_memory(a, b));
    if (common) REQUIRE(share_memory(b, a));

    // One grid: the rows of both, as far as either goes, do not overlap.
    const Region grid{
        0,
        {std::max(a.size[0], b.size[0]), std::max(a.size[1], b.size[1])},
        {stride[0], stride[1]},
        std::max(a.row_bytes, b.row_bytes)};
    const bool same = a.stride[0] == b.stride[0] && a.stride[1] == b.stride[1];
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
  const Region region{8, {1, 4}, {77, 16}, 8};
  CHECK(region == Region{8, {1, 4}, {0, 16}, 8});
  CHECK_FALSE(region == Region{8, {1, 4}, {77, 24}, 8});
  CHECK_FALSE(region == Region{16, {1, 4}, {77, 16}, 8});
  CHECK_FALSE(region == Region{8, {1, 3}, {77, 16}, 8});
  CHECK_FALSE(region == Region{8, {1, 4}, {77, 16}, 4});
}
