#include "library/region.hpp"

#include <algorithm>
#include <utility>

namespace rmsnorm::library {
namespace {

/// The same bytes with positive strides, and without dimensions that repeat rows.
Region forward(Region region) {
  for (int i = 0; i < 2; ++i) {
    std::int64_t& stride = region.stride[i];
    if (stride < 0) region.begin += (region.size[i] - 1) * std::exchange(stride, -stride);
    if (stride == 0) region.size[i] = 1;
    if (region.size[i] == 1) stride = 0;
  }
  return region;
}

std::int64_t end(const Region& region) {
  return region.begin + (region.size[0] - 1) * region.stride[0] +
         (region.size[1] - 1) * region.stride[1] + region.row_bytes;
}

/// Is a dimension's step larger than all that lies within?
bool holds(std::int64_t stride, std::int64_t size, std::int64_t bytes) {
  return size == 1 || stride >= bytes;
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

}  // namespace

bool Region::is_empty() const {
  return size[0] == 0 || size[1] == 0 || row_bytes == 0;
}

bool Region::operator==(const Region& other) const {
  for (int i = 0; i < 2; ++i) {
    if (size[i] != other.size[i] || (size[i] > 1 && stride[i] != other.stride[i])) return false;
  }
  return begin == other.begin && row_bytes == other.row_bytes;
}

bool rows_overlap(const Region& region) {
  if (region.is_empty()) return false;
  for (int i = 0; i < 2; ++i) {
    if (region.size[i] > 1 && region.stride[i] == 0) return true;
  }
  const Region rows = forward(region);
  const int inner = rows.stride[1] <= rows.stride[0] ? 1 : 0;
  const std::int64_t extent = (rows.size[inner] - 1) * rows.stride[inner] + rows.row_bytes;
  return !holds(rows.stride[inner], rows.size[inner], rows.row_bytes) ||
         !holds(rows.stride[1 - inner], rows.size[1 - inner], extent);
}

bool share_memory(const Region& one, const Region& other) {
  if (one.is_empty() || other.is_empty()) return false;
  const Region a = forward(one);
  const Region b = forward(other);
  if (end(a) <= b.begin || end(b) <= a.begin) return false;

  // Both are parts of one grid of rows, or it cannot be told.
  Region grid = a;
  grid.row_bytes = std::max(a.row_bytes, b.row_bytes);
  for (int i = 0; i < 2; ++i) {
    if (a.size[i] > 1 && b.size[i] > 1 && a.stride[i] != b.stride[i]) return true;
    grid.size[i] = std::max(a.size[i], b.size[i]);
    grid.stride[i] = std::max(a.stride[i], b.stride[i]);
  }
  if (rows_overlap(grid)) return true;

  // Row (i, j) of a and row (k, l) of b overlap if (i - k) outer strides and (j - l) inner ones are
  // less than a row away from the distance between the regions. As the inner dimension lies within
  // the outer, only two differences come near it in each.
  const int outer = grid.stride[0] >= grid.stride[1] ? 0 : 1;
  const auto nearest = [&](int dimension, std::int64_t distance) {
    return grid.size[dimension] == 1 ? 0 : floor_divide(distance, grid.stride[dimension]);
  };
  const auto is_difference = [&](int dimension, std::int64_t steps) {
    return -b.size[dimension] < steps && steps < a.size[dimension];
  };
  const std::int64_t distance = b.begin - a.begin;
  const std::int64_t first = nearest(outer, distance);
  for (std::int64_t i = first; i <= first + 1; ++i) {
    const std::int64_t rest = distance - i * grid.stride[outer];
    const std::int64_t second = nearest(1 - outer, rest);
    for (std::int64_t j = second; j <= second + 1; ++j) {
      const std::int64_t gap = rest - j * grid.stride[1 - outer];  // from a's row to b's
      const bool touch = -b.row_bytes < gap && gap < a.row_bytes;
      if (touch && is_difference(outer, i) && is_difference(1 - outer, j)) return true;
    }
  }
  return false;
}

}  // namespace rmsnorm::library
