#include "common/operations/layer_norm.hpp"
#include "common/operations/make_operation.cuh"

RMSNORM_OPERATION(LayerNorm)
