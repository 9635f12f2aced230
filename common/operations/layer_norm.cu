#include "common/operations/layer_norm.hpp"
#include "common/operations/make_operation.cuh"

namespace rmsnorm {

RMSNORM_OPERATION(LayerNorm)

}  // namespace rmsnorm
