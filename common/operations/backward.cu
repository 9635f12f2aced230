#include "common/operations/backward.hpp"
#include "common/operations/make_operation.cuh"

RMSNORM_OPERATION(Backward)
