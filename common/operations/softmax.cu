#include "common/operations/make_operation.cuh"
#include "common/operations/softmax.hpp"

namespace rmsnorm {

RMSNORM_OPERATION(Softmax)

}  // namespace rmsnorm
