/// \file
/// What clang reads before a CUDA file, when it is asked which functions a kernel calls
/// (ask_clang.sh): the device's headers, with all functions in them for host and device. Of C++'s
/// own, those are for both that nvcc takes for both; the others have to be read before.

#define RMSNORM_BOTH _Pragma("clang force_cuda_host_device begin")
#define RMSNORM_HOST _Pragma("clang force_cuda_host_device end")

#include <cstddef>

RMSNORM_BOTH
#include <bits/move.h>

#include <compare>
#include <initializer_list>
RMSNORM_HOST
#include <array>
#include <limits>
RMSNORM_BOTH
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
RMSNORM_HOST
#include <algorithm>
#include <atomic>
#include <bit>
#include <cfenv>
#include <concepts>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>
RMSNORM_BOTH
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_pipeline.h>
#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>
#include <device_launch_parameters.h>

#include <cub/cub.cuh>
#include <cuda/annotated_ptr>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/cmath>
#include <cuda/functional>
#include <cuda/pipeline>

/// What clang makes of <<<...>>>.
extern "C" unsigned __cudaPushCallConfiguration(
    dim3 grid, dim3 block, std::size_t shared_bytes = 0, cudaStream_t stream = nullptr);
RMSNORM_HOST

#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __managed__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __shared__ __attribute__((shared))
