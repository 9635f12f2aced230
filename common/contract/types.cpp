#include "common/contract/types.hpp"

#include <fmt/format.h>

namespace rmsnorm {

const char* to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32:
      return "fp32";
    case Dtype::bf16:
      return "bf16";
    case Dtype::fp16:
      return "fp16";
    case Dtype::e4m3:
      return "e4m3";
    case Dtype::e5m2:
      return "e5m2";
    case Dtype::e8m0:
      return "e8m0";
    case Dtype::int32:
      return "int32";
  }
  return "";
}

std::string to_string(const Types& types) {
  if (types.weight == types.dtype) return to_string(types.dtype);
  return fmt::format(
      "{}/{}", to_string(types.dtype), types.weight ? to_string(*types.weight) : "none");
}

std::string with_dtype(const std::string& text, const std::string& dtype) {
  return dtype == to_string(Types{}) ? text : text + " " + dtype;
}

std::optional<Types> types_named(std::string_view text) {
  for (const Types& types : all_types()) {
    if (to_string(types) == text) return types;
  }
  return std::nullopt;
}

std::vector<Types> all_types() {
  std::vector<Types> all;
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    all.push_back({.dtype = dtype, .weight = dtype});
    if (dtype != Dtype::fp32) all.push_back({.dtype = dtype, .weight = Dtype::fp32});
    all.push_back({.dtype = dtype, .weight = std::nullopt});
  }
  return all;
}

}  // namespace rmsnorm
