#include "common/operations/make_operation.cuh"
#include "common/operations/softmax.hpp"

RMSNORM_OPERATION(Softmax)
