#pragma once
/// \file
/// The types of a problem's tensors, and their names.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/dtype.hpp"

namespace rmsnorm {

/// The types of a problem.
struct Types {
  Dtype dtype = Dtype::fp32;                  ///< of x and all that is like it
  std::optional<Dtype> weight = Dtype::fp32;  ///< fp32 or that of x; empty: there is no weight
  float weight_bias = 0;                      ///< added to the weight; 0 without one

  bool operator==(const Types&) const = default;  ///< whether all are the same
};

/// The types as files and the command line have them: "bf16", "bf16/fp32" with another weight,
/// "bf16/none" without. The bias is not named.
std::string to_string(const Types& types);

/// A text, and the types behind it if they are not fp32: "decode bf16".
std::string with_dtype(const std::string& text, const std::string& dtype);

/// The types of such a text; none if there are no such types.
std::optional<Types> types_named(std::string_view text);

/// All of them, without a bias: each type of x with a weight of that type, of fp32, and without.
std::vector<Types> all_types();

}  // namespace rmsnorm
