#include "common/operations/make_operation.cuh"
#include "common/operations/rms_norm.hpp"

namespace rmsnorm {

RMSNORM_OPERATION(RmsNorm)

}  // namespace rmsnorm
