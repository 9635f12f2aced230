/** \file
 * Sums over ranks for programs that have NCCL: what does not fit in the ranks' buffers, or goes to
 * other machines, is added up by ncclAllReduce(). Header only; librmsnorm itself knows no NCCL.
 * EXPERIMENTAL, as the functions that it calls.
 */
#ifndef RMSNORM_NCCL_H
#define RMSNORM_NCCL_H

#include <nccl.h>

#include "rmsnorm.h"

/** rmsnorm_all_reduce_residual_add() if `ranks` is not null and x fits in its buffers. Otherwise
 * ncclAllReduce() stores the sum in y, and rmsnorm_residual_add() goes on with it, in two launches or
 * more. All ranks have the same bits then, too, but NCCL's order of additions and its roundings,
 * which may change with the number of rows. Which of the two it is depends on the shape alone, so
 * that all ranks choose alike.
 *
 * \param x (rows, hidden), contiguous where NCCL adds it up, as y is.
 * \param buffer_bytes The size of each of the ranks' buffers, as rmsnorm_ranks_create() has it.
 * \param communicator NCCL's, of the same ranks.
 * \param failure Where to write NCCL's result if that is no ncclSuccess: the status is
 *     RMSNORM_CUDA_ERROR then, and there is no sentence. */
static inline rmsnorm_status rmsnorm_all_reduce_residual_add_or_nccl(
    const DLTensor* x, const DLTensor* residual, const DLTensor* weight, const DLTensor* y,
    rmsnorm_ranks* ranks, size_t buffer_bytes, ncclComm_t communicator, ncclResult_t* failure,
    float eps, float weight_bias, struct CUstream_st* stream) {
  const size_t rows = (size_t)x->shape[0], columns = (size_t)x->shape[1];
  const size_t element = x->dtype.bits / 8u, row = (columns * element + 15) / 16 * 16;
  *failure = ncclSuccess;
  if (ranks != NULL && columns <= RMSNORM_MOST_RANK_COLUMNS &&
      RMSNORM_RANKS_HEADER_BYTES + 2 * rows * row <= buffer_bytes)
    return rmsnorm_all_reduce_residual_add(
        x, residual, weight, y, ranks, RMSNORM_PROTOCOL_BY_SIZE, eps, weight_bias, stream);
  const ncclDataType_t type = x->dtype.code == kDLBfloat ? ncclBfloat16
                              : x->dtype.bits == 16      ? ncclFloat16
                                                         : ncclFloat32;
  *failure = ncclAllReduce(
      (const char*)x->data + x->byte_offset, (char*)y->data + y->byte_offset, rows * columns, type,
      ncclSum, communicator, stream);
  if (*failure != ncclSuccess) return RMSNORM_CUDA_ERROR;
  return rmsnorm_residual_add(y, residual, weight, y, eps, weight_bias, stream);
}

#endif
