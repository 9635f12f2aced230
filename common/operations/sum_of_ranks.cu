#include "common/operations/make_operation.cuh"
#include "common/operations/sum_of_ranks.hpp"

namespace rmsnorm {

RMSNORM_OPERATION(SumOfRanks)

}  // namespace rmsnorm
