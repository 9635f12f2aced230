#include "common/operations/all_reduce.hpp"
#include "common/operations/make_operation.cuh"

RMSNORM_OPERATION(AllReduce)
