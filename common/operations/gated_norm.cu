#include "common/operations/gated_norm.hpp"
#include "common/operations/make_operation.cuh"

RMSNORM_OPERATION(GatedNorm)
