#include "library/region.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace rmsnorm::library {
namespace {

/// The same bytes with positive strides, and without dimensions that repeat rows.
Region forward(Region region) {
  for (int i = 0; i < kRowDimensions; ++i) {
    std::int64_t& stride = region.stride[i];
    if (stride < 0) region.begin += (region.size[i] - 1) * std::exchange(stride, -stride);
    if (stride == 0) region.size[i] = 1;
    if (region.size[i] == 1) stride = 0;
  }
  return region;
}

std::int64_t end(const Region& region) {
  std::int64_t end = region.begin + region.row_bytes;
  for (int i = 0; i < kRowDimensions; ++i) end += (region.size[i] - 1) * region.stride[i];
  return end;
}

/// The dimensions of a region with positive strides, each before those that lie within it.
std::array<int, kRowDimensions> outer_to_inner(const Region& region) {
  std::array<int, kRowDimensions> dimensions;
  std::iota(dimensions.begin(), dimensions.end(), 0);
  std::sort(dimensions.begin(), dimensions.end(), [&](int a, int b) {
    return std::pair(-region.stride[a], a) < std::pair(-region.stride[b], b);
  });
  return dimensions;
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

}  // namespace

bool Region::is_empty() const {
  return std::count(size, size + kRowDimensions, 0) > 0 || row_bytes == 0;
}

bool Region::operator==(const Region& other) const {
  for (int i = 0; i < kRowDimensions; ++i) {
    if (size[i] != other.size[i] || (size[i] > 1 && stride[i] != other.stride[i])) return false;
  }
  return begin == other.begin && row_bytes == other.row_bytes;
}

bool rows_overlap(const Region& region) {
  if (region.is_empty()) return false;
  for (int i = 0; i < kRowDimensions; ++i) {
    if (region.size[i] > 1 && region.stride[i] == 0) return true;
  }
  const Region rows = forward(region);
  const auto dimensions = outer_to_inner(rows);
  std::int64_t extent = rows.row_bytes;  // of what lies within the dimension
  for (auto i = dimensions.rbegin(); i != dimensions.rend(); ++i) {
    if (rows.size[*i] > 1 && rows.stride[*i] < extent) return true;
    extent += (rows.size[*i] - 1) * rows.stride[*i];
  }
  return false;
}

namespace {

/// Does a row of a begin less than a row's length from one of b, which are `distance` further? As
/// each dimension of their grid lies within the one before, only two differences of indices come
/// near that distance in each. `dimension` and those behind it are left to choose from.
bool touch(
    const Region& a, const Region& b, const Region& grid,
    const std::array<int, kRowDimensions>& dimensions, std::size_t dimension,
    std::int64_t distance) {
  if (dimension == dimensions.size()) return -b.row_bytes < distance && distance < a.row_bytes;
  const int i = dimensions[dimension];
  const std::int64_t stride = grid.stride[i];
  const std::int64_t first = grid.size[i] == 1 ? 0 : floor_divide(distance, stride);
  for (std::int64_t steps = first; steps <= first + 1; ++steps) {
    const bool is_difference = -b.size[i] < steps && steps < a.size[i];
    if (is_difference && touch(a, b, grid, dimensions, dimension + 1, distance - steps * stride)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool share_memory(const Region& one, const Region& other) {
  if (one.is_empty() || other.is_empty()) return false;
  const Region a = forward(one);
  const Region b = forward(other);
  if (end(a) <= b.begin || end(b) <= a.begin) return false;

  // Both are parts of one grid of rows, or it cannot be told.
  Region grid = a;
  grid.row_bytes = std::max(a.row_bytes, b.row_bytes);
  for (int i = 0; i < kRowDimensions; ++i) {
    if (a.size[i] > 1 && b.size[i] > 1 && a.stride[i] != b.stride[i]) return true;
    grid.size[i] = std::max(a.size[i], b.size[i]);
    grid.stride[i] = std::max(a.stride[i], b.stride[i]);
  }
  if (rows_overlap(grid)) return true;

  return touch(a, b, grid, outer_to_inner(grid), 0, b.begin - a.begin);
}

}  // namespace rmsnorm::library
