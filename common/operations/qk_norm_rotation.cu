#include "common/operations/make_operation.cuh"
#include "common/operations/qk_norm_rotation.hpp"

namespace rmsnorm {

RMSNORM_OPERATION(QkNormRotation)

}  // namespace rmsnorm
