#include "common/operations/all_reduce.hpp"
#include "common/operations/make_operation.cuh"

namespace rmsnorm {

RMSNORM_OPERATION(AllReduce)

}  // namespace rmsnorm
