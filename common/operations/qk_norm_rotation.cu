#include "common/operations/make_operation.cuh"
#include "common/operations/qk_norm_rotation.hpp"

RMSNORM_OPERATION(QkNormRotation)
