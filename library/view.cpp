#include "library/view.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>

namespace rmsnorm::library {
namespace {

#if DLPACK_MAJOR_VERSION > 1 || (DLPACK_MAJOR_VERSION == 1 && DLPACK_MINOR_VERSION >= 1)
static_assert(RMSNORM_FLOAT8_E4M3FN == kDLFloat8_e4m3fn && RMSNORM_FLOAT8_E5M2 == kDLFloat8_e5m2);
#endif

constexpr std::int64_t kMostColumns = std::int64_t{1} << 30;
/// Addresses and distances are less than this: no sum of a few overflows.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

std::string text(DLDataType dtype) {
  static const std::map<int, const char*> kKinds = {
      {kDLInt, "int"},       {kDLUInt, "uint"},       {kDLFloat, "float"},
      {kDLBfloat, "bfloat"}, {kDLComplex, "complex"},
  };
  if (dtype.bits == 8 && dtype.code == RMSNORM_FLOAT8_E4M3FN) return "float8_e4m3fn";
  if (dtype.bits == 8 && dtype.code == RMSNORM_FLOAT8_E5M2) return "float8_e5m2";
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

/// What a tensor may have as elements.
enum class Kind { numbers, fp8 };

Dtype dtype_of(const char* name, DLDataType dtype, Kind kind) {
  if (dtype.lanes != 1) {
    refuse(
        RMSNORM_BAD_DTYPE, "{} has elements of {} lanes: they need to be single numbers", name,
        dtype.lanes);
  }
  if (kind == Kind::fp8) {
    if (dtype.code == RMSNORM_FLOAT8_E4M3FN && dtype.bits == 8) return Dtype::e4m3;
    if (dtype.code == RMSNORM_FLOAT8_E5M2 && dtype.bits == 8) return Dtype::e5m2;
    refuse(
        RMSNORM_BAD_DTYPE, "{} has elements of {}: they need to be float8_e4m3fn or float8_e5m2",
        name, text(dtype));
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
View view_of(
    const char* name, const DLTensor* tensor, int fewest, int most, const char* needed,
    bool may_expand = false, Kind kind = Kind::numbers) {
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
  View view{name, dtype_of(name, t.dtype, kind), t.device.device_id, t.ndim, t.shape[last], {}};
  if (t.device.device_type != kDLCUDA) {
    refuse(
        RMSNORM_BAD_DEVICE, "{} is on {}: it needs to be on a CUDA device", name, text(t.device));
  }

  // The rows' sizes, the last to the right: (rows, hidden) is (1, 1, rows, hidden).
  const std::int64_t bytes = bytes_of(view.dtype);
  Region& region = view.region;
  region = {0, {1, 1, 1}, {0, 0, 0}, view.hidden * bytes};
  std::int64_t compact = region.row_bytes;
  for (int i = last - 1; i >= 0; --i) {
    const int to = i + kRowDimensions - last;
    region.size[to] = t.shape[i];
    if (t.shape[i] > 1) {  // else the stride is never used
      region.stride[to] =
          t.strides == nullptr ? compact : multiply(name, RMSNORM_BAD_STRIDES, t.strides[i], bytes);
    }
    compact = multiply(name, RMSNORM_BAD_SHAPE, t.shape[i], compact);
  }
  if (region.is_empty()) return view;
  const bool has_stride = t.strides != nullptr && t.shape[last] > 1;  // else it is never used
  view.is_expanded = may_expand && has_stride && t.strides[last] == 0;
  if (view.is_expanded) region.row_bytes = bytes;
  if (has_stride && t.strides[last] != 1 && !view.is_expanded) {
    refuse(
        RMSNORM_BAD_STRIDES,
        "{} has the stride {} in its last dimension: it needs 1, columns side by side{}", name,
        t.strides[last], may_expand ? ", or 0, one for all" : "");
  }
  for (int i = 0; i < kRowDimensions; ++i) {
    multiply(name, RMSNORM_BAD_STRIDES, region.size[i], region.stride[i]);  // is no overflow
  }

  if (t.data == nullptr) {
    refuse(
        RMSNORM_BAD_POINTER, "{} has {} elements and no data: the pointer to them is null", name,
        region.rows() * view.hidden);
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

constexpr const char* kRowsNeeded =
    "2, (rows, hidden), 3, (batch, heads, head_dim), or 4, (batch, tokens, heads, head_dim)";

std::string shape_text(const View& view) {
  const auto& size = view.region.size;
  std::string text;
  for (int i = kRowDimensions - (view.dimensions - 1); i < kRowDimensions; ++i) {
    text += fmt::format("{}, ", size[i]);
  }
  return fmt::format("({}{})", text, view.hidden);
}

void check_fp32(const View& tensor) {
  if (tensor.dtype == Dtype::fp32) return;
  refuse(
      RMSNORM_BAD_DTYPE, "{} has elements of {}: it needs float32", tensor.name,
      text(tensor.dtype));
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

View rows_of(const char* name, const DLTensor* tensor, bool may_expand) {
  return view_of(name, tensor, 2, 4, kRowsNeeded, may_expand);
}

View fp8_rows_of(const char* name, const DLTensor* tensor, const View& x) {
  const View view = view_of(name, tensor, 2, 4, kRowsNeeded, false, Kind::fp8);
  check_shape(view, x);
  check_device(view, x);
  return view;
}

View weight_of(const char* name, const DLTensor* tensor, const View& x) {
  const bool has_heads = x.dimensions > 2;
  const View weight = view_of(
      name, tensor, 1, has_heads ? 2 : 1,
      has_heads ? "1, (head_dim), or 2, (heads, head_dim)" : "1, (hidden)");
  if (weight.dimensions == 1) check_one_for_each(weight, x.hidden, "columns", x);
  const std::int64_t heads = x.region.size[kRowDimensions - 1];
  if (weight.dimensions == 2 && (weight.hidden != x.hidden || heads_of(weight) != heads)) {
    refuse(
        RMSNORM_BAD_SHAPE, "{} has the shape {}: it needs the last two sizes of {}, ({}, {})", name,
        shape_text(weight), x.name, heads, x.hidden);
  }
  check_device(weight, x);
  return weight;
}

View rstd_of(const char* name, const DLTensor* tensor, const View& x) {
  const View rstd = view_of(name, tensor, 1, 1, "1, (rows)");
  check_one_for_each(rstd, x.region.rows(), "rows", x);
  check_fp32(rstd);
  check_device(rstd, x);
  return rstd;
}

View number_of(const char* name, const DLTensor* tensor, const View& x) {
  const View number = view_of(name, tensor, 1, 1, "1, (1)");
  if (number.hidden != 1) {
    refuse(RMSNORM_BAD_SHAPE, "{} has {} elements: it needs one", name, number.hidden);
  }
  check_fp32(number);
  check_device(number, x);
  return number;
}

Scales scales_of(const char* name, const DLTensor* tensor, const View& x, std::int64_t groups) {
  if (tensor == nullptr) refuse(RMSNORM_BAD_POINTER, "{} is null: it needs to be a tensor", name);
  DLTensor t = *tensor;
  const int leading = x.dimensions - 1;
  std::vector<std::int64_t> needed(std::end(x.region.size) - leading, std::end(x.region.size));
  if (groups != 1 || t.ndim != leading) needed.push_back(groups);
  if (t.shape == nullptr && t.ndim > 0) {
    refuse(RMSNORM_BAD_POINTER, "{} has no shape: the pointer to it is null", name);
  }
  const std::vector<std::int64_t> shape(t.shape, t.shape + std::max(0, t.ndim));
  if (shape != needed) {
    refuse(
        RMSNORM_BAD_SHAPE, "{} has the shape ({}): it needs ({}), for {} of the shape {}", name,
        fmt::join(shape, ", "), fmt::join(needed, ", "), x.name, shape_text(x));
  }

  // Rows at one distance, and a row's numbers at one. The strides of sizes of 1 are never used.
  const std::int64_t rows = x.region.rows();
  const bool has_last = static_cast<int>(needed.size()) > leading;
  const bool has_strides = t.strides != nullptr;
  const std::int64_t group_stride = has_strides && has_last && groups > 1 ? t.strides[leading] : 1;
  const bool is_row_order = group_stride == 1;
  const std::int64_t row_stride = is_row_order ? groups : 1;
  std::int64_t expected = row_stride;
  bool is_right = is_row_order || group_stride >= rows;
  for (int i = leading - 1; i >= 0; expected *= shape[i--]) {
    if (has_strides && shape[i] > 1 && t.strides[i] != expected) is_right = false;
  }
  if (!is_right && !x.region.is_empty()) {
    refuse(
        RMSNORM_BAD_STRIDES,
        "{} has the strides ({}): it needs those of a contiguous tensor, or rows side by side and "
        "the last stride {} or more",
        name, fmt::join(t.strides, t.strides + t.ndim, ", "), rows);
  }

  const std::int64_t group_bytes =
      multiply(name, RMSNORM_BAD_STRIDES, group_stride, bytes_of(Dtype::fp32));
  multiply(name, RMSNORM_BAD_STRIDES, groups, group_bytes);  // is no overflow
  std::int64_t extent[2] = {(rows - 1) * row_stride + (groups - 1) * group_stride + 1, 1};
  if (x.region.is_empty()) extent[0] = 0;
  t.ndim = 2;
  t.shape = extent;
  t.strides = nullptr;
  const View memory = view_of(name, &t, 2, 2, "2");
  check_fp32(memory);
  check_device(memory, x);
  Scales scales{memory, memory, group_bytes};
  Region& region = scales.rows.region;
  std::int64_t stride = row_stride * bytes_of(Dtype::fp32);
  for (int i = kRowDimensions - 1; i >= 0; --i) {
    region.size[i] = x.region.size[i];
    region.stride[i] = region.size[i] > 1 ? stride : 0;
    stride *= region.size[i];
  }
  return scales;
}

void check_device(const View& tensor, const View& other) {
  if (tensor.device == other.device) return;
  refuse(
      RMSNORM_BAD_DEVICE, "{} is on CUDA device {}, {} on {}: they need to be on the same",
      tensor.name, tensor.device, other.name, other.device);
}

void check_shape(const View& tensor, const View& other) {
  const bool is_same =
      tensor.dimensions == other.dimensions && tensor.hidden == other.hidden &&
      std::equal(std::begin(tensor.region.size), std::end(tensor.region.size), other.region.size);
  if (is_same) return;
  refuse(
      RMSNORM_BAD_SHAPE, "{} has the shape {}: it needs that of {}, {}", tensor.name,
      shape_text(tensor), other.name, shape_text(other));
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
  const std::int64_t inner = tensor.region.stride[kRowDimensions - 1] / bytes;
  if (tensor.dimensions == 2) {
    refuse(
        RMSNORM_BAD_STRIDES,
        "{} has the stride {}, with which its rows of {} columns overlap: each needs its own "
        "memory",
        tensor.name, inner, tensor.hidden);
  }
  std::string others;
  for (int i = kRowDimensions - (tensor.dimensions - 1); i < kRowDimensions - 1; ++i) {
    others += fmt::format("{}{}", others.empty() ? "" : ", ", tensor.region.stride[i] / bytes);
  }
  refuse(
      RMSNORM_BAD_STRIDES,
      "{} has the strides {} and {}, with which its rows overlap or interleave: the dimensions "
      "need to lie one within the other",
      tensor.name, others, inner);
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

void check_heads_together(const View& tensor) {
  const std::int64_t stride = tensor.region.stride[kRowDimensions - 1];
  if (heads_of(tensor) <= 1 || tensor.region.is_empty() || stride == tensor.region.row_bytes) {
    return;
  }
  refuse(
      RMSNORM_BAD_STRIDES, "{} has the stride {} between heads: it needs {}, heads side by side",
      tensor.name, stride / bytes_of(tensor.dtype), tensor.hidden);
}

namespace {

/// A dimension of tensors of one shape.
struct Dimension {
  std::int64_t size;
  std::array<std::int64_t, kMaxTensors> strides;  ///< bytes, of each tensor; 0 for none
};

/// Do the rows of both dimensions lie at one distance in every tensor, `inner` within `outer`?
bool are_one(const Dimension& outer, const Dimension& inner) {
  return std::equal(
      outer.strides.begin(), outer.strides.end(), inner.strides.begin(),
      [&](std::int64_t a, std::int64_t b) { return a == inner.size * b; });
}

/// Makes one of two dimensions wherever that can be. Returns whether it could.
bool merge(std::vector<Dimension>& dimensions, Order order) {
  for (std::size_t outer = 0; outer < dimensions.size(); ++outer) {
    for (std::size_t inner = 0; inner < dimensions.size(); ++inner) {
      const bool is_next = inner == outer + 1;
      if (inner == outer || (order == Order::kept && !is_next)) continue;
      if (!are_one(dimensions[outer], dimensions[inner])) continue;
      dimensions[inner].size *= dimensions[outer].size;
      dimensions.erase(dimensions.begin() + static_cast<std::ptrdiff_t>(outer));
      return true;
    }
  }
  return false;
}

}  // namespace

Layout layout_of(const Views& tensors, Order order, int dimensions) {
  const Region& first = tensors.front()->region;
  std::vector<Dimension> left;
  left.reserve(kRowDimensions);
  std::int64_t rows = 1;
  for (int i = 0; i < dimensions; ++i) {
    rows *= first.size[i];
    if (first.size[i] == 1) continue;
    left.push_back({first.size[i], {}});
    for (std::size_t k = 0; k < tensors.size(); ++k)
      left.back().strides[k] = tensors[k]->region.stride[i];
  }
  while (merge(left, order)) continue;
  if (left.size() == 3 && order == Order::free && left[1].size < left[0].size) {
    std::swap(left[0], left[1]);
  }
  while (left.size() < 2) left.insert(left.begin(), {1, {}});

  const Dimension& inner = left.back();
  const Dimension& outer = left[left.size() - 2];
  const bool is_nested = left.size() == 3;
  const bool is_flat = outer.size == 1;
  Layout layout{
      rows,
      std::max(std::int64_t{1}, is_flat ? rows : inner.size),
      is_nested ? outer.size : 0,
      {},
      {}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    layout.tensors[i] = {data_of(*tensors[i]), outer.strides[i], inner.strides[i]};
    const std::int64_t leap = left.front().strides[i] - outer.size * outer.strides[i];
    layout.leaps[i] = is_nested ? leap : 0;
  }
  return layout;
}

}  // namespace rmsnorm::library
