#include "common/records/result.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace rmsnorm {

double bytes_of_tensors(const Result& result) {
  const std::string x = result.dtype.substr(0, result.dtype.find('/'));
  double bytes = 0;
  if (x == "fp32") bytes = 4;
  if (x == "fp16" || x == "bf16") bytes = 2;
  if (bytes == 0)
    throw std::runtime_error(fmt::format("the size of dtype {} is unknown", result.dtype));
  const int tensors = result.regime == "residual_add" ? 4 : result.regime == "backward" ? 3 : 2;
  return tensors * bytes * static_cast<double>(result.rows) * static_cast<double>(result.hidden);
}

bool moves_more_than_copy(const Result& result) {
  if (!result.gbps || !result.median_us) return false;
  constexpr double kRounding = 1.01;  // of what a file holds
  return *result.gbps * *result.median_us * 1e3 > kRounding * bytes_of_tensors(result);
}

std::optional<double> percent_of_copy(const Result& result) {
  if (!result.gbps || !result.copy_gbps || !(*result.copy_gbps > 0)) return std::nullopt;
  if (moves_more_than_copy(result)) return std::nullopt;
  return 100 * *result.gbps / *result.copy_gbps;
}

}  // namespace rmsnorm
