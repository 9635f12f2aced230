#include "library/view.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
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

const char* text(Dtype dtype) {
  return dtype == Dtype::fp32 ? "float32" : dtype == Dtype::fp16 ? "float16" : "bfloat16";
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

Dtype dtype_of(const char* name, DLDataType dtype, bool is_fp8) {
  require(
      dtype.lanes == 1, RMSNORM_BAD_DTYPE,
      "{} has elements of {} lanes: they need to be single numbers", name, dtype.lanes);
  if (is_fp8 && dtype.code == RMSNORM_FLOAT8_E4M3FN && dtype.bits == 8) return Dtype::e4m3;
  if (is_fp8 && dtype.code == RMSNORM_FLOAT8_E5M2 && dtype.bits == 8) return Dtype::e5m2;
  if (!is_fp8 && dtype.code == kDLFloat && dtype.bits == 32) return Dtype::fp32;
  if (!is_fp8 && dtype.code == kDLFloat && dtype.bits == 16) return Dtype::fp16;
  if (!is_fp8 && dtype.code == kDLBfloat && dtype.bits == 16) return Dtype::bf16;
  refuse(
      RMSNORM_BAD_DTYPE, "{} has elements of {}: they need to be {}", name, name_of(dtype),
      is_fp8 ? "float8_e4m3fn or float8_e5m2" : "float32, float16 or bfloat16");
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

const DLTensor& tensor_of(const Argument& argument) {
  const auto [name, tensor] = argument;
  require(tensor != nullptr, RMSNORM_BAD_POINTER, "{} is null: it needs to be a tensor", name);
  require(
      tensor->shape != nullptr || tensor->ndim <= 0, RMSNORM_BAD_POINTER,
      "{} has no shape: the pointer to it is null", name);
  return *tensor;
}

/// What a tensor has to be.
struct Form {
  int fewest, most;    ///< dimensions
  const char* needed;  ///< the same, in words
  bool is_fp8 = false;
  bool may_expand = false;
};

/// What every tensor needs, on the device of x if there is one.
View view_of(const Argument& argument, const Form& form, const View* x) {
  const DLTensor& t = tensor_of(argument);
  const char* const name = argument.name;
  require(
      t.ndim >= form.fewest && t.ndim <= form.most, RMSNORM_BAD_SHAPE,
      "{} has {} dimension{}: it needs {}", name, t.ndim, t.ndim == 1 ? "" : "s", form.needed);
  const int last = t.ndim - 1;
  for (int i = 0; i <= last; ++i) {
    require(
        t.shape[i] >= 0, RMSNORM_BAD_SHAPE,
        "{} has the size {} in dimension {}: it needs 0 or more", name, t.shape[i], i);
  }
  require(
      t.shape[last] <= kMostColumns, RMSNORM_BAD_SHAPE, "{} has {} columns: it needs {} at most",
      name, t.shape[last], kMostColumns);
  const Dtype dtype = dtype_of(name, t.dtype, form.is_fp8);
  View view{name, dtype, t.device.device_id, t.ndim, t.shape[last], {}};
  if (t.device.device_type != kDLCUDA) {
    refuse(
        RMSNORM_BAD_DEVICE, "{} is on {}: it needs to be on a CUDA device", name, text(t.device));
  }
  if (x != nullptr) check_device(view, *x);

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
  const std::int64_t stride = has_stride ? t.strides[last] : 1;
  view.is_expanded = form.may_expand && stride == 0;
  if (view.is_expanded) region.row_bytes = bytes;
  require(
      stride == 1 || view.is_expanded, RMSNORM_BAD_STRIDES,
      "{} has the stride {} in its last dimension: it needs 1, columns side by side{}", name,
      stride, form.may_expand ? ", or 0, one for all" : "");
  for (int i = 0; i < kRowDimensions; ++i) {
    multiply(name, RMSNORM_BAD_STRIDES, region.size[i], region.stride[i]);  // is no overflow
  }

  require(
      t.data != nullptr, RMSNORM_BAD_POINTER,
      "{} has {} elements and no data: the pointer to them is null", name,
      region.rows() * view.hidden);
  region.begin =
      address_of(name, reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset, view.device);
  require(
      region.begin % bytes == 0, RMSNORM_BAD_ALIGNMENT,
      "{} begins at the address {:#x}: {} needs a multiple of {}", name, region.begin,
      text(view.dtype), bytes);
  return view;
}

constexpr Form kRows{
    2, 4, "2, (rows, hidden), 3, (batch, heads, head_dim), or 4, (batch, tokens, heads, head_dim)"};

std::string shape_text(const View& view) {
  const auto& size = view.region.size;
  std::string text;
  for (int i = kRowDimensions - (view.dimensions - 1); i < kRowDimensions; ++i) {
    text += fmt::format("{}, ", size[i]);
  }
  return fmt::format("({}{})", text, view.hidden);
}

void check_fp32(const View& tensor) {
  require(
      tensor.dtype == Dtype::fp32, RMSNORM_BAD_DTYPE, "{} has elements of {}: it needs float32",
      tensor.name, text(tensor.dtype));
}

void check_one_for_each(
    const View& tensor, std::int64_t number, const char* things, const View& x) {
  require(
      tensor.hidden == number, RMSNORM_BAD_SHAPE,
      "{} has {} elements: it needs one for each of the {} {} of {}", tensor.name, tensor.hidden,
      number, things, x.name);
}

/// Do any two rows overlap? Then it is no output.
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

}  // namespace

std::string name_of(DLDataType dtype) {
  static const std::map<int, const char*> kKinds = {
      {kDLInt, "int"},       {kDLUInt, "uint"},       {kDLFloat, "float"},
      {kDLBfloat, "bfloat"}, {kDLComplex, "complex"},
  };
  if (dtype.bits == 8 && dtype.code == RMSNORM_FLOAT8_E4M3FN) return "float8_e4m3fn";
  if (dtype.bits == 8 && dtype.code == RMSNORM_FLOAT8_E5M2) return "float8_e5m2";
  if (dtype.bits == 8 && dtype.code == RMSNORM_FLOAT8_E8M0) return "float8_e8m0fnu";
  const auto kind = kKinds.find(dtype.code);
  if (kind != kKinds.end()) return fmt::format("{}{}", kind->second, dtype.bits);
  return fmt::format("DLPack's type code {} with {} bits", dtype.code, dtype.bits);
}

std::int64_t address_of(const char* name, std::uintptr_t address, int device) {
  if (address > static_cast<std::uintptr_t>(kMostBytes)) refuse_address(name, address, device);
  return static_cast<std::int64_t>(address);
}

View rows_of(const Argument& argument) {
  return view_of(argument, kRows, nullptr);
}

View input_like(const Argument& argument, const View& x, bool may_expand) {
  Form form = kRows;
  form.may_expand = may_expand;
  const View view = view_of(argument, form, &x);
  check_shape(view, x);
  check_dtype(view, x);
  return view;
}

View output_like(const Argument& argument, const View& x, Elements elements) {
  Form form = kRows;
  form.is_fp8 = elements == Elements::fp8;
  const View view = view_of(argument, form, &x);
  check_shape(view, x);
  if (elements == Elements::of_x) check_dtype(view, x);
  check_rows_apart(view);
  return view;
}

View weight_of(const Argument& argument, const View& x) {
  constexpr Form kOne{1, 1, "1, (hidden)"}, kHeads{1, 2, "1, (head_dim), or 2, (heads, head_dim)"};
  const View weight = view_of(argument, x.dimensions > 2 ? kHeads : kOne, &x);
  if (weight.dimensions == 1) check_one_for_each(weight, x.hidden, "columns", x);
  const std::int64_t heads = x.region.size[kRowDimensions - 1];
  if (weight.dimensions == 2 && (weight.hidden != x.hidden || heads_of(weight) != heads)) {
    refuse(
        RMSNORM_BAD_SHAPE, "{} has the shape {}: it needs the last two sizes of {}, ({}, {})",
        weight.name, shape_text(weight), x.name, heads, x.hidden);
  }
  return weight;
}

std::optional<View> weight_or_none(const Argument& argument, const View& x, float weight_bias) {
  check_number("weight_bias", weight_bias, true);
  if (argument.tensor != nullptr) return weight_of(argument, x);
  require(
      weight_bias == 0, RMSNORM_BAD_VALUE, "weight_bias is {}, and {} null: it needs to be 0",
      weight_bias, argument.name);
  return {};
}

View rstd_of(const Argument& argument, const View& x) {
  const View rstd = view_of(argument, {1, 1, "1, (rows)"}, &x);
  check_one_for_each(rstd, x.region.rows(), "rows", x);
  check_fp32(rstd);
  return rstd;
}

View number_of(const Argument& argument, const View& x) {
  const View number = view_of(argument, {1, 1, "1, (1)"}, &x);
  require(
      number.hidden == 1, RMSNORM_BAD_SHAPE, "{} has {} elements: it needs one", number.name,
      number.hidden);
  check_fp32(number);
  return number;
}

/// A tensor of powers of two as one of a type that view_of() knows, with as many bytes.
DLTensor as_bytes(DLTensor tensor) {
  tensor.dtype = {RMSNORM_FLOAT8_E4M3FN, 8, 1};
  return tensor;
}

/// A place in that memory for each row of x, so many bytes apart, in the order of x's indices.
View rows_at(View memory, const View& x, std::int64_t stride) {
  Region& region = memory.region;
  for (int i = kRowDimensions - 1; i >= 0; --i) {
    region.size[i] = x.region.size[i];
    region.stride[i] = region.size[i] > 1 ? stride : 0;
    stride *= region.size[i];
  }
  return memory;
}

bool is_e8m0(const Argument& argument) {
  const DLDataType dtype = tensor_of(argument).dtype;
  const bool is_byte = dtype.code == RMSNORM_FLOAT8_E8M0 || dtype.code == kDLUInt;
  return is_byte && dtype.bits == 8 && dtype.lanes == 1;
}

Scales scales_of(const Argument& argument, const View& x, std::int64_t groups, bool are_powers) {
  DLTensor t = are_powers ? as_bytes(tensor_of(argument)) : tensor_of(argument);
  const std::int64_t bytes = are_powers ? 1 : bytes_of(Dtype::fp32);
  const char* const name = argument.name;
  const int leading = x.dimensions - 1;
  std::vector<std::int64_t> needed(std::end(x.region.size) - leading, std::end(x.region.size));
  if (groups != 1 || t.ndim != leading) needed.push_back(groups);
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

  const std::int64_t group_bytes = multiply(name, RMSNORM_BAD_STRIDES, group_stride, bytes);
  multiply(name, RMSNORM_BAD_STRIDES, groups, group_bytes);  // is no overflow
  std::int64_t extent[2] = {(rows - 1) * row_stride + (groups - 1) * group_stride + 1, 1};
  if (x.region.is_empty()) extent[0] = 0;
  t.ndim = 2;
  t.shape = extent;
  t.strides = nullptr;
  const View memory = view_of({name, &t}, {2, 2, "2", are_powers}, &x);
  if (!are_powers) check_fp32(memory);
  return {memory, rows_at(memory, x, row_stride * bytes), group_bytes, are_powers};
}

Scales tiles_of(const Argument& argument, const View& x, std::int64_t groups) {
  DLTensor t = as_bytes(tensor_of(argument));
  const View memory = view_of({argument.name, &t}, {1, 1, "1", true}, &x);
  const std::int64_t needed = (x.region.rows() + 127) / 128 * 128 * ((groups + 3) / 4 * 4);
  require(
      memory.hidden == needed, RMSNORM_BAD_SHAPE,
      "{} has {} elements: it needs {}, in tiles of 128 rows and 4 blocks", memory.name,
      memory.hidden, needed);
  require(
      memory.region.begin % 16 == 0, RMSNORM_BAD_ALIGNMENT,
      "{} begins at the address {:#x}: in tiles, it needs a multiple of 16", memory.name,
      memory.region.begin);
  return {memory, rows_at(memory, x, 1), 1, true, true};
}

void check_number(const char* name, float number, bool may_be_negative) {
  require(
      std::isfinite(number) && (may_be_negative || number >= 0), RMSNORM_BAD_VALUE,
      "{} is {}: it needs to be finite{}", name, number,
      may_be_negative ? "" : " and not negative");
}

void check_rounding(rmsnorm_rounding rounding) {
  require(
      rounding == RMSNORM_ROUND_ONCE || rounding == RMSNORM_ROUND_TWICE, RMSNORM_BAD_VALUE,
      "rounding is {}: it needs to be a value of rmsnorm_rounding", static_cast<int>(rounding));
}

void check_device(const View& tensor, const View& other) {
  require(
      tensor.device == other.device, RMSNORM_BAD_DEVICE,
      "{} is on CUDA device {}, {} on {}: they need to be on the same", tensor.name, tensor.device,
      other.name, other.device);
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
  require(
      tensor.dtype == other.dtype, RMSNORM_BAD_DTYPE,
      "{} has elements of {}: it needs those of {}, {}", tensor.name, text(tensor.dtype),
      other.name, text(other.dtype));
}

void check_apart(const View& written, const View& other) {
  require(
      !share_memory(written.region, other.region), RMSNORM_BAD_OVERLAP,
      "{} shares memory with {}: an output needs memory of its own", written.name, other.name);
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
  require(
      heads_of(tensor) <= 1 || tensor.region.is_empty() || stride == tensor.region.row_bytes,
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
