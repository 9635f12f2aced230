#pragma once
/// \file
/// Floats as bits: NaN equals nothing, not even itself, but its bits do.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace tests {

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float left, float right) {
    return std::bit_cast<std::uint32_t>(left) == std::bit_cast<std::uint32_t>(right);
  });
}

}  // namespace tests
