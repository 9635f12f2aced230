#pragma once
/// \file
/// Tensors of three dimensions of rows, of which a launch has two.

#include <cuda_runtime.h>

#include <vector>

#include "library/view.hpp"

namespace rmsnorm::library {

/// Bytes from a period's rows to the next's.
inline std::int64_t step_of(const Layout& layout, std::size_t tensor) {
  return layout.period * layout.tensors[tensor].outer_stride + layout.leaps[tensor];
}

/// Launches each period of a layout, as a launch has two dimensions of rows. `rows` are those of
/// the first period, of which launch() has to launch `in_period`, in the order of the layout.
template <class Launch>
cudaError_t launch_periods(
    const Layout& layout, const std::vector<kernels::Rows*>& rows, std::int64_t in_period,
    Launch launch) {
  for (std::int64_t left = layout.rows; left > in_period; left -= in_period) {
    const cudaError_t error = launch();
    if (error != cudaSuccess) return error;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i]->data = static_cast<char*>(rows[i]->data) + step_of(layout, i);
    }
  }
  return launch();
}

/// The bits of the distances from a period's rows to the next's, of so many tensors.
inline std::int64_t step_bits_of(const Layout& layout, std::size_t tensors) {
  std::int64_t bits = 0;
  for (std::size_t i = 0; layout.period > 0 && i < tensors; ++i) bits |= step_of(layout, i);
  return bits;
}

/// The rows of a launch: all, or those of a period.
inline std::int64_t rows_of_launch(const Layout& layout) {
  return layout.period > 0 ? layout.period * layout.inner : layout.rows;
}

}  // namespace rmsnorm::library
