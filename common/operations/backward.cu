#include "common/operations/backward.hpp"
#include "common/operations/make_operation.cuh"

namespace rmsnorm {

RMSNORM_OPERATION(Backward)

}  // namespace rmsnorm
