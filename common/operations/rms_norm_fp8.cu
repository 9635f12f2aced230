#include "common/operations/make_operation.cuh"
#include "common/operations/rms_norm_fp8.hpp"

namespace rmsnorm {

RMSNORM_OPERATION(RmsNormE4m3)
RMSNORM_OPERATION(RmsNormE4m3Twice)
RMSNORM_OPERATION(RmsNormE4m3Row)
RMSNORM_OPERATION(RmsNormE4m3RowTwice)
RMSNORM_OPERATION(RmsNormE4m3Group)
RMSNORM_OPERATION(RmsNormE4m3GroupTwice)
RMSNORM_OPERATION(RmsNormMxfp8)
RMSNORM_OPERATION(RmsNormE5m2)
RMSNORM_OPERATION(RmsNormE5m2Twice)
RMSNORM_OPERATION(RmsNormE5m2Row)
RMSNORM_OPERATION(RmsNormE5m2RowTwice)
RMSNORM_OPERATION(RmsNormE5m2Group)
RMSNORM_OPERATION(RmsNormE5m2GroupTwice)
RMSNORM_OPERATION(ResidualAddE4m3)
RMSNORM_OPERATION(ResidualAddE4m3Twice)
RMSNORM_OPERATION(ResidualAddE4m3Row)
RMSNORM_OPERATION(ResidualAddE4m3RowTwice)
RMSNORM_OPERATION(ResidualAddE4m3Group)
RMSNORM_OPERATION(ResidualAddE4m3GroupTwice)

}  // namespace rmsnorm
