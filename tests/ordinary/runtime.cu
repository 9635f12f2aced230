/// \file
/// Functions of the runtime, around a plain kernel.

#include "tests/ordinary/block_sum.cuh"
#include "tests/ordinary/cases.hpp"

namespace tests {
namespace {

constexpr int kHidden = Rows::kHidden;

__global__ void plain(const float* x, float* y) {
  extern __shared__ float partial[];
  const float value = x[blockIdx.x * kHidden + threadIdx.x];
  y[blockIdx.x * kHidden + threadIdx.x] = value * rstd_of(block_sum(value * value, partial));
}
constexpr std::size_t kPartial = 8 * sizeof(float);

/// Through a workspace of the stream's own, by rows that lie further apart there.
void launch_pitched(Rows rows) {
  constexpr std::size_t kRow = kHidden * sizeof(float);
  constexpr std::size_t kPitch = kRow + 256;
  float* workspace = nullptr;
  cudaMallocAsync(&workspace, Rows::kRows * kPitch, nullptr);
  cudaMemset2DAsync(workspace, kPitch, 0, kRow, Rows::kRows, nullptr);
  cudaMemcpy2DAsync(
      workspace, kPitch, rows.x, kRow, kRow, Rows::kRows, cudaMemcpyDeviceToDevice, nullptr);
  for (int row = 0; row < Rows::kRows; ++row) {
    plain<<<1, kHidden, kPartial>>>(
        workspace + row * kPitch / sizeof(float), rows.y + row * kHidden);
  }
  cudaFreeAsync(workspace, nullptr);
}

void launch_managed(Rows rows) {
  float* x = nullptr;
  float* y = nullptr;
  cudaMallocManaged(&x, kHidden * sizeof(float));
  cudaMallocHost(&y, kHidden * sizeof(float));
  for (int row = 0; row < Rows::kRows; ++row) {
    cudaMemcpy(y, rows.x + row * kHidden, kHidden * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < kHidden; ++i) x[i] = y[i];
    plain<<<1, kHidden, kPartial>>>(x, y);
    cudaDeviceSynchronize();
    cudaMemcpy(rows.y + row * kHidden, y, kHidden * sizeof(float), cudaMemcpyHostToDevice);
  }
  cudaFree(x);
  cudaFreeHost(y);
}

/// As many threads as fit, if that is a row.
void launch_as_fits(Rows rows) {
  int blocks = 0, least = 0, threads = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, plain, kHidden, kPartial);
  cudaOccupancyMaxPotentialBlockSize(&least, &threads, plain, kPartial, kHidden);
  if (blocks >= 1 && least >= blocks) plain<<<Rows::kRows, threads, kPartial>>>(rows.x, rows.y);
}

/// With hints, and as a launch whose blocks are there at the same time.
void launch_with_attributes(Rows rows) {
  cudaFuncSetCacheConfig(plain, cudaFuncCachePreferL1);
  cudaFuncSetAttribute(
      plain, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = Rows::kRows;
  config.blockDim = kHidden;
  config.dynamicSmemBytes = kPartial;
  config.attrs = &cooperative;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, plain, rows.x, rows.y);
}

/// One stream begins, another goes on when an event says so, and the first one waits for it.
void launch_on_two_streams(Rows rows) {
  cudaStream_t other = nullptr;
  cudaEvent_t begun = nullptr, done = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&begun, cudaEventDisableTiming);
  cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
  float* copy = nullptr;
  cudaMalloc(&copy, Rows::kRows * kHidden * sizeof(float));
  cudaMemcpyAsync(copy, rows.x, Rows::kRows * kHidden * sizeof(float), cudaMemcpyDefault);
  cudaEventRecord(begun);
  cudaStreamWaitEvent(other, begun);
  plain<<<Rows::kRows, kHidden, kPartial, other>>>(copy, copy);
  cudaEventRecord(done, other);
  cudaStreamWaitEvent(nullptr, done);
  cudaMemcpyAsync(rows.y, copy, Rows::kRows * kHidden * sizeof(float), cudaMemcpyDefault);
  cudaStreamSynchronize(nullptr);
  cudaEventDestroy(begun);
  cudaEventDestroy(done);
  cudaStreamDestroy(other);
  cudaFree(copy);
}

}  // namespace

std::vector<Ordinary> runtime_kernels() {
  return {
      {"cudaMallocAsync, cudaMemset2DAsync and cudaMemcpy2DAsync", launch_pitched},
      {"cudaMallocManaged and cudaMallocHost", launch_managed},
      {"cudaLaunchKernel",
       [](Rows rows) {
         void* arguments[] = {&rows.x, &rows.y};
         cudaLaunchKernel(plain, Rows::kRows, kHidden, arguments, kPartial, nullptr);
       }},
      {"cudaLaunchCooperativeKernel, by the address as void*",
       [](Rows rows) {
         void* arguments[] = {&rows.x, &rows.y};
         cudaLaunchCooperativeKernel((void*)plain, Rows::kRows, kHidden, arguments, kPartial);
       }},
      {"the occupancy functions", launch_as_fits},
      {"attributes of kernels and launches", launch_with_attributes},
      {"events, for the order of two streams", launch_on_two_streams},
  };
}

}  // namespace tests
