#pragma once
/// \file
/// What rmsnorm_nccl.h needs of NCCL's header, for machines that have none.

#include <cuda_runtime.h>

#include <cstddef>

using ncclComm_t = void*;
enum ncclResult_t { ncclSuccess = 0, ncclInvalidArgument = 4 };
enum ncclDataType_t { ncclFloat16 = 6, ncclFloat32 = 7, ncclBfloat16 = 9 };
enum ncclRedOp_t { ncclSum = 0 };
ncclResult_t ncclAllReduce(
    const void* from, void* to, std::size_t elements, ncclDataType_t type, ncclRedOp_t operation,
    ncclComm_t communicator, cudaStream_t stream);
