#pragma once
/// \file
/// The library's forward pass as an implementation that is not registered, each shape for itself.

#include "common/contract/lesson.hpp"
#include "library/kernels/forward_shape.hpp"

namespace rmsnorm {

/// The forward pass in a shape that is for a problem's rows, whatever the table and the formula
/// say. It predicts no traffic.
Implementation forward_in_shape(const kernels::ForwardShape& shape);

}  // namespace rmsnorm
