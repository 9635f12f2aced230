#include "common/operations/gated_norm.hpp"
#include "common/operations/make_operation.cuh"

namespace rmsnorm {

RMSNORM_OPERATION(GatedNorm)

}  // namespace rmsnorm
