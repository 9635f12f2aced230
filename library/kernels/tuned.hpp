#pragma once
/// \file
/// The shapes of library/plans.csv, which are faster than the formula's on the GPU that they were
/// measured on, with a weight of x's type. CMake makes C++ of the file: nothing is read or timed
/// when a program runs.

#include <optional>
#include <span>
#include <string_view>

#include "library/kernels/forward_shape.hpp"

namespace rmsnorm::kernels {

/// A line of the table.
struct Tuned {
  std::string_view device;  ///< the GPU's name
  int element_bytes;        ///< of x and y
  int vectors;              ///< of a row, 16 bytes each
  ForwardShape shape;       ///< for it
};

/// What a table has for aligned rows on this GPU.
constexpr std::optional<ForwardShape> find_tuned(
    std::span<const Tuned> table, std::string_view device, int element_bytes, int vectors) {
  for (const Tuned& line : table) {
    if (line.vectors == vectors && line.element_bytes == element_bytes && line.device == device) {
      return line.shape;
    }
  }
  return std::nullopt;
}

/// The same of plans.csv.
std::optional<ForwardShape> tuned_shape(std::string_view device, int element_bytes, int vectors);

}  // namespace rmsnorm::kernels
