/* Stands in for librmsnorm: writes down what it is called with. It refuses a call with a weight_bias
 * of 3, with one of 4 CUDA could not do it, with one of 5 rmsnorm_forward() reads the tensors late.
 * rmsnorm_last_error() says what this thread's latest call has written down. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

#include "rmsnorm.h"

#ifndef STUB_VERSION
#define STUB_VERSION \
  (RMSNORM_VERSION_MAJOR * 10000 + RMSNORM_VERSION_MINOR * 100 + RMSNORM_VERSION_PATCH)
#endif

static _Thread_local char text[4000]; /* of the last call */

static void add(const char* format, long long number) {
  const size_t length = strlen(text);
  snprintf(text + length, sizeof text - length, format, number);
}

/* A tensor is "name@address+offset device type shape strides; ". */
static void add_tensor(const char* name, const DLTensor* t) {
  const size_t length = strlen(text);
  snprintf(text + length, sizeof text - length, "%s", name);
  if (t == NULL) {
    add(" null; ", 0);
    return;
  }
  add("@%lld", (long long)(intptr_t)t->data);
  add("+%lld", (long long)t->byte_offset);
  add(" device %lld", t->device.device_type);
  add(" type %lld", t->dtype.code);
  add(".%lld", t->dtype.bits);
  add(".%lld shape", t->dtype.lanes);
  for (int i = 0; i < t->ndim; ++i) add(" %lld", (long long)t->shape[i]);
  add(" strides", 0);
  for (int i = 0; i < t->ndim; ++i) add(" %lld", (long long)t->strides[i]);
  add("; ", 0);
}

/* Begins a call, whose tensors have these names. */
static void begin(const char* names, ...) {
  va_list tensors;
  va_start(tensors, names);
  text[0] = '\0';
  char name[16];
  for (int length = 0; sscanf(names, "%15s%n", name, &length) == 1; names += length)
    add_tensor(name, va_arg(tensors, const DLTensor*));
  va_end(tensors);
}

static rmsnorm_status end(float eps, float weight_bias, struct CUstream_st* stream) {
  add("eps %lld/1024 ", (long long)(eps * 1024));
  add("bias %lld ", (long long)weight_bias);
  add("stream %lld", (long long)(intptr_t)stream);
  if (weight_bias == 4) return RMSNORM_CUDA_ERROR;
  return weight_bias == 3 ? RMSNORM_BAD_VALUE : RMSNORM_OK;
}

int rmsnorm_version(void) {
  return STUB_VERSION;
}

const char* rmsnorm_last_error(void) {
  return text;
}

rmsnorm_status rmsnorm_forward(
    const DLTensor* x, const DLTensor* weight, const DLTensor* y, float eps, float weight_bias,
    struct CUstream_st* stream) {
  if (weight_bias == 5) thrd_sleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  begin("x weight y", x, weight, y);
  return end(eps, weight_bias, stream);
}

rmsnorm_status rmsnorm_forward_pair(
    const DLTensor* q, const DLTensor* q_weight, const DLTensor* q_out, const DLTensor* k,
    const DLTensor* k_weight, const DLTensor* k_out, float eps, float weight_bias,
    struct CUstream_st* stream) {
  begin("q q_weight q_out k k_weight k_out", q, q_weight, q_out, k, k_weight, k_out);
  return end(eps, weight_bias, stream);
}

rmsnorm_status rmsnorm_residual_add(
    const DLTensor* x, const DLTensor* residual, const DLTensor* weight, const DLTensor* y,
    float eps, float weight_bias, struct CUstream_st* stream) {
  begin("x residual weight y", x, residual, weight, y);
  return end(eps, weight_bias, stream);
}

rmsnorm_status rmsnorm_forward_fp8(
    const DLTensor* x, const DLTensor* residual, const DLTensor* weight, const DLTensor* y,
    const DLTensor* scale, const DLTensor* limit, const DLTensor* norm, rmsnorm_scaling scaling,
    rmsnorm_rounding rounding, float eps, float weight_bias, struct CUstream_st* stream) {
  begin("x residual weight y scale limit norm", x, residual, weight, y, scale, limit, norm);
  add("scaling %lld ", scaling);
  add("rounding %lld ", rounding);
  return end(eps, weight_bias, stream);
}

rmsnorm_status rmsnorm_forward_rstd(
    const DLTensor* x, const DLTensor* weight, const DLTensor* y, const DLTensor* rstd, float eps,
    float weight_bias, struct CUstream_st* stream) {
  begin("x weight y rstd", x, weight, y, rstd);
  return end(eps, weight_bias, stream);
}

rmsnorm_status rmsnorm_backward_workspace_bytes(const DLTensor* x, size_t* bytes) {
  begin("x", x);
  *bytes = 768;
  return RMSNORM_OK;
}

rmsnorm_status rmsnorm_backward(
    const DLTensor* dy, const DLTensor* x, const DLTensor* weight, const DLTensor* rstd,
    const DLTensor* dx, const DLTensor* dweight, void* workspace, size_t workspace_bytes,
    float weight_bias, struct CUstream_st* stream) {
  begin("dy x weight rstd dx dweight", dy, x, weight, rstd, dx, dweight);
  add("workspace %lld", workspace != NULL);
  add(" %lld ", (long long)workspace_bytes);
  return end(0, weight_bias, stream);
}

rmsnorm_status rmsnorm_forward_gated(
    const DLTensor* x, const DLTensor* z, const DLTensor* weight, const DLTensor* y,
    rmsnorm_gate gate, rmsnorm_rounding rounding, float eps, float weight_bias,
    struct CUstream_st* stream) {
  begin("x z weight y", x, z, weight, y);
  add("gate %lld ", gate);
  add("rounding %lld ", rounding);
  return end(eps, weight_bias, stream);
}

rmsnorm_status rmsnorm_backward_gated_workspace_bytes(const DLTensor* x, size_t* bytes) {
  return rmsnorm_backward_workspace_bytes(x, bytes);
}

rmsnorm_status rmsnorm_backward_gated(
    const DLTensor* dy, const DLTensor* x, const DLTensor* z, const DLTensor* weight,
    const DLTensor* dx, const DLTensor* dz, const DLTensor* dweight, void* workspace,
    size_t workspace_bytes, rmsnorm_gate gate, float eps, float weight_bias,
    struct CUstream_st* stream) {
  begin("dy x z weight dx dz dweight", dy, x, z, weight, dx, dz, dweight);
  add("workspace %lld", workspace != NULL);
  add(" %lld ", (long long)workspace_bytes);
  add("gate %lld ", gate);
  return end(eps, weight_bias, stream);
}

rmsnorm_status rmsnorm_forward_rotated(
    const DLTensor* q, const DLTensor* q_weight, const DLTensor* q_out, const DLTensor* k,
    const DLTensor* k_weight, const DLTensor* k_out, const DLTensor* cos, const DLTensor* sin,
    const DLTensor* positions, const DLTensor* v, const DLTensor* k_cache, const DLTensor* v_cache,
    const DLTensor* slots, rmsnorm_rotation rotation, rmsnorm_rounding rounding, float eps,
    float weight_bias, struct CUstream_st* stream) {
  begin(
      "q q_weight q_out k k_weight k_out cos sin positions v k_cache v_cache slots", q, q_weight,
      q_out, k, k_weight, k_out, cos, sin, positions, v, k_cache, v_cache, slots);
  add("rotation %lld ", rotation);
  add("rounding %lld ", rounding);
  return end(eps, weight_bias, stream);
}

rmsnorm_status rmsnorm_all_reduce_residual_add(
    const DLTensor* x, const DLTensor* residual, const DLTensor* weight, const DLTensor* y,
    rmsnorm_ranks* ranks, rmsnorm_protocol protocol, float eps, float weight_bias,
    struct CUstream_st* stream) {
  begin("x residual weight y", x, residual, weight, y);
  add("ranks %lld ", (long long)(intptr_t)ranks);
  add("protocol %lld ", protocol);
  return end(eps, weight_bias, stream);
}
