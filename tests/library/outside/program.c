/* librmsnorm from C99: the header compiles, the functions link, errors arrive. */
#include <stdio.h>
#include <string.h>

#include "rmsnorm.h"

int main(void) {
  const int version =
      RMSNORM_VERSION_MAJOR * 10000 + RMSNORM_VERSION_MINOR * 100 + RMSNORM_VERSION_PATCH;
  int64_t shape[2] = {0, 64};
  DLTensor x = {0};
  x.ndim = 2;
  x.shape = shape;
  x.device.device_type = kDLCPU;
  x.dtype.code = kDLFloat;
  x.dtype.bits = 32;
  x.dtype.lanes = 1;
  if (rmsnorm_version() != version) return 1;
  if (strcmp(rmsnorm_last_error(), "") != 0) return 2;
  if (rmsnorm_forward(&x, NULL, &x, 1e-6f, 0, NULL) != RMSNORM_BAD_DEVICE) return 3;
  puts(rmsnorm_last_error());
  return 0;
}
