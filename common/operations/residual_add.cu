#include "common/operations/make_operation.cuh"
#include "common/operations/residual_add.hpp"

RMSNORM_OPERATION(ResidualAdd)
