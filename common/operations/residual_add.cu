#include "common/operations/make_operation.cuh"
#include "common/operations/residual_add.hpp"

namespace rmsnorm {

RMSNORM_OPERATION(ResidualAdd)

}  // namespace rmsnorm
