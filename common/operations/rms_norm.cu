#include "common/operations/make_operation.cuh"
#include "common/operations/rms_norm.hpp"

RMSNORM_OPERATION(RmsNorm)
