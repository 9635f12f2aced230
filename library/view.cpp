#include "library/view.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

namespace rmsnorm::library {
namespace {

constexpr std::int64_t kMostColumns = std::int64_t{1} << 30;
/// Addresses and distances are less than this: no sum of a few overflows.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

std::string text(DLDataType dtype) {
  static const std::map<int, const char*> kKinds = {
      {kDLInt, "int"},       {kDLUInt, "uint"},       {kDLFloat, "float"},
      {kDLBfloat, "bfloat"}, {kDLComplex, "complex"},
  };
  const auto kind = kKinds.find(dtype.code);
  if (kind != kKinds.end()) return fmt::format("{}{}", kind->second, dtype.bits);
  return fmt::format("DLPack's type code {} with {} bits", dtype.code, dtype.bits);
}

std::string text(Dtype dtype) {
  const int bits = 8 * bytes_of(dtype);
  return fmt::format("{}{}", dtype == Dtype::bf16 ? "bfloat" : "float", bits);
}

std::string text(DLDevice device) {
  static const std::map<int, const char*> kNames = {
      {kDLCPU, "the CPU"},
      {kDLCUDAHost, "the CPU (page-locked memory)"},
      {kDLCUDAManaged, "CUDA managed memory"},
      {kDLROCM, "a ROCm device"},
  };
  const auto name = kNames.find(device.device_type);
  if (name != kNames.end()) return name->second;
  return fmt::format("a device of DLPack's type {}", static_cast<int>(device.device_type));
}

Dtype dtype_of(const char* name, DLDataType dtype) {
  if (dtype.lanes != 1) {
    refuse(
        RMSNORM_BAD_DTYPE, "{} has elements of {} lanes: they need to be single numbers", name,
        dtype.lanes);
  }
  if (dtype.code == kDLFloat && dtype.bits == 32) return Dtype::fp32;
  if (dtype.code == kDLFloat && dtype.bits == 16) return Dtype::fp16;
  if (dtype.code == kDLBfloat && dtype.bits == 16) return Dtype::bf16;
  refuse(
      RMSNORM_BAD_DTYPE, "{} has elements of {}: they need to be float32, float16 or bfloat16",
      name, text(dtype));
}

/// a * b; `status` is that of a tensor which is too large.
std::int64_t multiply(const char* name, rmsnorm_status status, std::int64_t a, std::int64_t b) {
  std::int64_t product;
  if (__builtin_mul_overflow(a, b, &product) || product > kMostBytes || product < -kMostBytes) {
    refuse(status, "{} is larger than any memory: {} times {} bytes", name, a, b);
  }
  return product;
}

[[noreturn]] void refuse_address(const char* name, std::uintptr_t address, int device) {
  refuse(
      RMSNORM_BAD_DEVICE,
      "{} begins at the address {:#x}: that is not in the memory of CUDA device {}", name, address,
      device);
}

/// What every tensor needs; `needed` are its numbers of dimensions, in words.
View view_of(const char* name, const DLTensor* tensor, int fewest, int most, const char* needed) {
  if (tensor == nullptr) refuse(RMSNORM_BAD_POINTER, "{} is null: it needs to be a tensor", name);
  const DLTensor& t = *tensor;
  if (t.ndim < fewest || t.ndim > most) {
    refuse(
        RMSNORM_BAD_SHAPE, "{} has {} dimension{}: it needs {}", name, t.ndim,
        t.ndim == 1 ? "" : "s", needed);
  }
  if (t.shape == nullptr) {
    refuse(RMSNORM_BAD_POINTER, "{} has no shape: the pointer to it is null", name);
  }
  const int last = t.ndim - 1;
  for (int i = 0; i <= last; ++i) {
    if (t.shape[i] < 0) {
      refuse(
          RMSNORM_BAD_SHAPE, "{} has the size {} in dimension {}: it needs 0 or more", name,
          t.shape[i], i);
    }
  }
  if (t.shape[last] > kMostColumns) {
    refuse(
        RMSNORM_BAD_SHAPE, "{} has {} columns: it needs {} at most", name, t.shape[last],
        kMostColumns);
  }
  View view{name, dtype_of(name, t.dtype), t.device.device_id, t.ndim, t.shape[last], {}};
  if (t.device.device_type != kDLCUDA) {
    refuse(
        RMSNORM_BAD_DEVICE, "{} is on {}: it needs to be on a CUDA device", name, text(t.device));
  }

  // The rows' sizes, the last to the right: (rows, hidden) is (1, rows, hidden).
  const std::int64_t bytes = bytes_of(view.dtype);
  Region& region = view.region;
  region = {0, {1, 1}, {0, 0}, view.hidden * bytes};
  std::int64_t compact = region.row_bytes;
  for (int i = last - 1; i >= 0; --i) {
    const int to = i + 2 - last;
    region.size[to] = t.shape[i];
    if (t.shape[i] > 1) {  // else the stride is never used
      region.stride[to] =
          t.strides == nullptr ? compact : multiply(name, RMSNORM_BAD_STRIDES, t.strides[i], bytes);
    }
    compact = multiply(name, RMSNORM_BAD_SHAPE, t.shape[i], compact);
  }
  if (region.is_empty()) return view;
  if (t.strides != nullptr && t.shape[last] > 1 && t.strides[last] != 1) {
    refuse(
        RMSNORM_BAD_STRIDES,
        "{} has the stride {} in its last dimension: it needs 1, columns side by side", name,
        t.strides[last]);
  }
  for (int i = 0; i < 2; ++i) {
    multiply(name, RMSNORM_BAD_STRIDES, region.size[i], region.stride[i]);  // is no overflow
  }

  if (t.data == nullptr) {
    refuse(
        RMSNORM_BAD_POINTER, "{} has {} elements and no data: the pointer to them is null", name,
        region.size[0] * region.size[1] * view.hidden);
  }
  region.begin =
      address_of(name, reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset, view.device);
  if (region.begin % bytes != 0) {
    refuse(
        RMSNORM_BAD_ALIGNMENT, "{} begins at the address {:#x}: {} needs a multiple of {}", name,
        region.begin, text(view.dtype), bytes);
  }
  return view;
}

std::string shape_text(const View& view) {
  const auto& size = view.region.size;
  if (view.dimensions == 1) return fmt::format("({})", view.hidden);
  if (view.dimensions == 2) return fmt::format("({}, {})", size[1], view.hidden);
  return fmt::format("({}, {}, {})", size[0], size[1], view.hidden);
}

void check_one_for_each(
    const View& tensor, std::int64_t number, const char* things, const View& x) {
  if (tensor.hidden == number) return;
  refuse(
      RMSNORM_BAD_SHAPE, "{} has {} elements: it needs one for each of the {} {} of {}",
      tensor.name, tensor.hidden, number, things, x.name);
}

}  // namespace

std::int64_t address_of(const char* name, std::uintptr_t address, int device) {
  if (address > static_cast<std::uintptr_t>(kMostBytes)) refuse_address(name, address, device);
  return static_cast<std::int64_t>(address);
}

View rows_of(const char* name, const DLTensor* tensor) {
  return view_of(name, tensor, 2, 3, "2, (rows, hidden), or 3, (batch, heads, head_dim)");
}

View weight_of(const char* name, const DLTensor* tensor, const View& x) {
  const View weight = view_of(name, tensor, 1, 1, "1, (hidden)");
  check_one_for_each(weight, x.hidden, "columns", x);
  check_device(weight, x);
  return weight;
}

View rstd_of(const char* name, const DLTensor* tensor, const View& x) {
  const View rstd = view_of(name, tensor, 1, 1, "1, (rows)");
  check_one_for_each(rstd, x.region.size[0] * x.region.size[1], "rows", x);
  if (rstd.dtype != Dtype::fp32) {
    refuse(RMSNORM_BAD_DTYPE, "{} has elements of {}: it needs float32", name, text(rstd.dtype));
  }
  check_device(rstd, x);
  return rstd;
}

void check_device(const View& tensor, const View& other) {
  if (tensor.device == other.device) return;
  refuse(
      RMSNORM_BAD_DEVICE, "{} is on CUDA device {}, {} on {}: they need to be on the same",
      tensor.name, tensor.device, other.name, other.device);
}

void check_shape(const View& tensor, const View& other) {
  if (shape_text(tensor) != shape_text(other)) {
    refuse(
        RMSNORM_BAD_SHAPE, "{} has the shape {}: it needs that of {}, {}", tensor.name,
        shape_text(tensor), other.name, shape_text(other));
  }
}

void check_dtype(const View& tensor, const View& other) {
  if (tensor.dtype == other.dtype) return;
  refuse(
      RMSNORM_BAD_DTYPE, "{} has elements of {}: it needs those of {}, {}", tensor.name,
      text(tensor.dtype), other.name, text(other.dtype));
}

void check_rows_apart(const View& tensor) {
  if (!rows_overlap(tensor.region)) return;
  const std::int64_t bytes = bytes_of(tensor.dtype);
  const std::int64_t outer = tensor.region.stride[0] / bytes;
  const std::int64_t inner = tensor.region.stride[1] / bytes;
  if (tensor.dimensions == 2) {
    refuse(
        RMSNORM_BAD_STRIDES,
        "{} has the stride {}, with which its rows of {} columns overlap: each needs its own "
        "memory",
        tensor.name, inner, tensor.hidden);
  }
  refuse(
      RMSNORM_BAD_STRIDES,
      "{} has the strides {} and {}, with which its rows overlap or interleave: the dimensions "
      "need to lie one within the other",
      tensor.name, outer, inner);
}

void check_apart(const View& written, const View& other) {
  if (!share_memory(written.region, other.region)) return;
  refuse(
      RMSNORM_BAD_OVERLAP, "{} shares memory with {}: an output needs memory of its own",
      written.name, other.name);
}

void check_memory(const View& tensor) {
  if (tensor.region.is_empty()) return;
  cudaPointerAttributes memory{};
  const auto* const data = reinterpret_cast<const void*>(tensor.region.begin);
  if (cudaPointerGetAttributes(&memory, data) != cudaSuccess) {
    cudaGetLastError();  // it has been dealt with
    memory.type = cudaMemoryTypeUnregistered;
  }
  const bool is_own = memory.type == cudaMemoryTypeDevice && memory.device == tensor.device;
  if (is_own || memory.type == cudaMemoryTypeManaged) return;
  refuse_address(tensor.name, static_cast<std::uintptr_t>(tensor.region.begin), tensor.device);
}

Layout layout_of(const std::vector<View>& tensors) {
  const auto& size = tensors.front().region.size;
  const auto are_at_one_distance = [&](const View& tensor) {
    const auto& stride = tensor.region.stride;
    return size[0] <= 1 || size[1] <= 1 || stride[0] == size[1] * stride[1];
  };
  const bool is_flat = std::all_of(tensors.begin(), tensors.end(), are_at_one_distance);
  const std::int64_t rows = size[0] * size[1];
  Layout layout{rows, std::max(std::int64_t{1}, is_flat ? rows : size[1]), {}};
  for (const View& tensor : tensors) {
    const auto& stride = tensor.region.stride;
    if (is_flat) {
      layout.tensors.push_back({data_of(tensor), 0, size[1] > 1 ? stride[1] : stride[0]});
    } else {
      layout.tensors.push_back({data_of(tensor), stride[0], stride[1]});
    }
  }
  return layout;
}

}  // namespace rmsnorm::library
