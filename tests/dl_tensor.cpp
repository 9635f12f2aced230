#include "tests/dl_tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

#include "common/base/cuda_check.hpp"
#include "common/contract/expected.hpp"
#include "common/contract/types.hpp"
#include "common/operations/rms_norm.hpp"
#include "common/tensors/random.hpp"
#include "tests/catch.hpp"
#include "tests/watch.hpp"

using rmsnorm::Dtype;

namespace tests {
DLDataType dl_type(Dtype dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * rmsnorm::bytes_of(dtype));
  const int code = dtype == Dtype::e4m3   ? RMSNORM_FLOAT8_E4M3FN
                   : dtype == Dtype::e5m2 ? RMSNORM_FLOAT8_E5M2
                   : dtype == Dtype::bf16 ? kDLBfloat
                                          : kDLFloat;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

std::vector<rmsnorm::Types> types_of_library() {
  std::vector<rmsnorm::Types> all = rmsnorm::all_types();
  for (const Dtype dtype : {Dtype::fp32, Dtype::fp16, Dtype::bf16}) {
    for (const Dtype weight : {Dtype::fp16, Dtype::bf16}) {
      if (weight != dtype) all.push_back({.dtype = dtype, .weight = weight});
    }
  }
  return all;
}

DeviceArray::DeviceArray(Dtype dtype, std::int64_t size, std::uint64_t seed)
    : dtype_(dtype), before_(static_cast<std::size_t>(size)) {
  std::vector<std::byte> bytes(before_.size() * rmsnorm::bytes_of(dtype));
  for (std::size_t i = 0; i < before_.size(); ++i) {
    before_[i] = rmsnorm::rounded(dtype, rmsnorm::random_weight(seed, i));
    rmsnorm::set_bits(bytes.data(), dtype, i, rmsnorm::bits_of(dtype, before_[i]));
  }
  rmsnorm::cuda_check(cudaMalloc(&data_, bytes.size()), "allocating an array");
  fill(bytes);
}

DeviceArray::~DeviceArray() {
  cudaFree(data_);
}

std::vector<std::byte> DeviceArray::bytes() const {
  rmsnorm::cuda_check(cudaDeviceSynchronize(), "waiting for the kernels");
  std::vector<std::byte> bytes(before_.size() * rmsnorm::bytes_of(dtype_));
  rmsnorm::cuda_check(
      cudaMemcpy(bytes.data(), data_, bytes.size(), cudaMemcpyDeviceToHost), "reading an array");
  return bytes;
}

void DeviceArray::fill(const std::vector<std::byte>& bytes) const {
  rmsnorm::cuda_check(
      cudaMemcpy(data_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "filling an array");
}

void DeviceArray::set(std::int64_t i, float number) const {
  std::vector<std::byte> all = bytes();
  rmsnorm::set_bits(all.data(), dtype_, i, rmsnorm::bits_of(dtype_, number));
  fill(all);
}

std::vector<float> DeviceArray::now() const {
  const std::vector<std::byte> read = bytes();
  std::vector<float> numbers(before_.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = rmsnorm::value_at(read.data(), dtype_, i);
  }
  return numbers;
}

std::int64_t Layout::rows() const {
  return std::accumulate(shape.begin(), shape.end() - 1, std::int64_t{1}, std::multiplies<>());
}

std::int64_t Layout::hidden() const {
  return shape.back();
}

std::int64_t Layout::row(std::int64_t number) const {
  std::int64_t element = offset;
  for (std::size_t i = shape.size() - 1; i-- > 0;) {
    element += number % shape[i] * strides[i];
    number /= shape[i];
  }
  return element;
}

std::pair<std::int64_t, std::int64_t> ends_of(const Layout& layout) {
  std::int64_t begin = layout.offset, end = layout.offset;
  for (std::int64_t row = 0; row < layout.rows(); ++row) {
    begin = std::min(begin, layout.row(row));
    end = std::max(end, layout.row(row) + (layout.hidden() - 1) * layout.strides.back() + 1);
  }
  return {begin, end};
}

Layout contiguous(std::vector<std::int64_t> shape, std::int64_t offset) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
  return {std::move(shape), std::move(strides), offset};
}

Layout random_layout(Draw& draw, std::vector<std::int64_t> shape, int unit, bool is_output) {
  const auto gap = [&] { return std::int64_t{unit} * draw(0, 1) * draw(0, 20); };
  Layout at = contiguous(std::move(shape));
  std::vector<std::size_t> order(at.shape.size() - 1);  // from the innermost dimension on
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (draw(0, 1) == 0) std::reverse(order.begin(), order.end());
  if (draw(0, 1) == 0) std::shuffle(order.begin(), order.end(), draw.engine);
  std::int64_t step = at.hidden();
  for (const std::size_t k : order) {
    at.strides[k] = step += gap();
    step *= at.shape[k];
  }
  at.offset = gap();
  for (const std::size_t k : order) {
    if (draw(0, 3) == 0) {
      at.offset += (at.shape[k] - 1) * at.strides[k];
      at.strides[k] = -at.strides[k];
    }
    if (!is_output && draw(0, 7) == 0) at.strides[k] = 0;
  }
  return at;
}

DLTensor view_of(const DeviceArray& array, Layout& layout) {
  DLTensor view{};
  view.data = array.data();
  view.device = {kDLCUDA, 0};
  view.ndim = static_cast<int>(layout.shape.size());
  view.dtype = dl_type(array.dtype());
  view.shape = layout.shape.data();
  view.strides = layout.strides.data();
  view.byte_offset = static_cast<std::uint64_t>(layout.offset) * rmsnorm::bytes_of(array.dtype());
  return view;
}

DLTensor part_of(const DLTensor& tensor, std::vector<std::int64_t>& shape, std::int64_t elements) {
  DLTensor part = tensor;
  part.shape = shape.data();
  part.ndim = static_cast<int>(shape.size());
  part.byte_offset += elements * (tensor.dtype.bits / 8);
  return part;
}

DeviceTensor::DeviceTensor(Dtype dtype, Layout at, std::uint64_t seed)
    : layout(std::move(at)),
      array(dtype, ends_of(layout).second + 5, seed),
      view(view_of(array, layout)) {}

rmsnorm::KnownMemory extent(const std::string& name, const DeviceTensor& tensor) {
  const auto [begin, end] = ends_of(tensor.layout);
  const auto bytes = static_cast<int>(rmsnorm::bytes_of(tensor.array.dtype()));
  const auto size = static_cast<std::size_t>(end - begin) * bytes;
  return {name, static_cast<const char*>(tensor.array.data()) + begin * bytes, size, bytes};
}

void call_watched(
    const std::vector<rmsnorm::KnownMemory>& touched, const std::function<rmsnorm_status()>& call) {
  rmsnorm_status status{};
  const Outcome outcome = watch(touched, [&] { status = call(); });
  INFO(rmsnorm_last_error());
  REQUIRE(status == RMSNORM_OK);
  CHECK(outcome.at_synchronise == cudaSuccess);
  CHECK(outcome.hazards == std::vector<std::string>());
}

Allowed in_fp32(int additions, double value, double size, Dtype dtype) {
  const double rounding = 1.01 * rmsnorm::rounding_error(dtype) * std::abs(value);
  return {value, additions * 0x1p-24 * size + rounding + 0x1p-24};
}

void check_elements(
    const DeviceArray& array, const Layout& at, const Wanted& expected, std::vector<float>& now) {
  int wrong = 0;
  for (std::int64_t row = 0; row < at.rows(); ++row) {
    for (std::int64_t col = 0; col < at.hidden(); ++col) {
      const std::optional<Allowed> is = expected(row, col);
      if (!is) continue;
      const std::int64_t i = at.row(row) + col;
      if (!(std::abs(now[i] - is->value) <= is->error) && wrong++ == 0) {
        UNSCOPED_INFO(row << ", " << col << ": " << now[i] << " instead of " << is->value);
      }
      now[i] = array.before()[i];
    }
  }
  CHECK(wrong == 0);
}

void check_elements(const DeviceTensor& got, const Wanted& expected) {
  std::vector<float> now = got.array.now();
  check_elements(got.array, got.layout, expected, now);
  CHECK((now == got.array.before()));  // and nothing beside it has changed
}

Values values_of(const DeviceTensor& x) {
  return [&](std::int64_t row, std::int64_t col) { return x.before(row, col); };
}

Values check_sum(const DeviceTensor& x, const DeviceTensor* residual) {
  const Values sum = [&x, residual](std::int64_t row, std::int64_t col) {
    return x.before(row, col) + (residual ? residual->before(row, col) : 0);
  };
  if (residual != nullptr) {
    const Dtype dtype = residual->array.dtype();
    check_elements(*residual, [&](std::int64_t row, std::int64_t col) -> Allowed {
      return {rmsnorm::rounded(dtype, sum(row, col)), 0};
    });
  }
  return sum;
}

Factors factors_of(const DeviceTensor* weight, float bias) {
  return [=](std::int64_t row, std::int64_t col) {
    return weight == nullptr ? 1 : double{weight->before(row % weight->layout.rows(), col)} + bias;
  };
}

std::function<Allowed(std::int64_t, std::int64_t)> norm_of(
    const Values& x, const Layout& at, Dtype dtype, const Factors& factors) {
  const double part = rmsnorm::rms_norm_bound(64, {}) + 1.001 * rmsnorm::rounding_error(dtype);
  std::vector<double> rstd;
  for (std::int64_t row = 0; row < at.rows(); ++row) {
    double sum = 0;
    for (std::int64_t col = 0; col < at.hidden(); ++col) sum += std::pow(double{x(row, col)}, 2);
    rstd.push_back(rmsnorm::reference_rstd(sum, static_cast<int>(at.hidden()), kEps));
  }
  return [=](std::int64_t row, std::int64_t col) -> Allowed {
    const double value = x(row, col) * rstd[row] * factors(row, col);
    return {value, part * std::abs(value) + 0x1p-24};
  };
}

NormCall random_call(Draw& draw) {
  const std::vector<rmsnorm::Types> all = types_of_library();
  const int unit = draw(0, 2) > 0 ? 1 : 8;
  const int hidden = unit * (draw(0, 3) == 0 ? draw(1, 5000 / unit) : draw(1, 300 / unit));
  std::vector<std::int64_t> shape{hidden};
  for (int k = draw(1, 3); k > 0; --k) shape.insert(shape.begin(), draw(1, 5));
  const auto layout = [&](bool is_output) { return random_layout(draw, shape, unit, is_output); };
  NormCall call{all[draw(0, static_cast<int>(all.size()) - 1)], layout(false), layout(true)};
  if (draw(0, 2) == 0) call.residual = layout(true);
  call.weight_offset = draw(0, 1) * unit * draw(0, 9);
  if (call.types.weight) call.types.weight_bias = static_cast<float>(draw(0, 1));
  call.weight_of_heads = call.types.weight && shape.size() > 2 && draw(0, 1) == 0;
  return call;
}

std::string text(const NormCall& call) {
  std::string text = to_string(call.types) + (call.in_place ? ", in place" : "") +
                     ", weight from " + std::to_string(call.weight_offset);
  if (call.weight_of_heads) text += ", of heads";
  if (call.residual_dtype) text += std::string(", residual ") + to_string(*call.residual_dtype);
  for (const Layout& at : {call.x, call.residual.value_or(call.x), call.y}) {
    for (const std::int64_t size : at.shape) text += ", " + std::to_string(size);
    for (const std::int64_t stride : at.strides) text += " / " + std::to_string(stride);
    text += " from " + std::to_string(at.offset);
  }
  return text;
}

Layout weight_layout(const NormCall& call) {
  const std::int64_t hidden = call.x.hidden(), offset = call.weight_offset;
  if (!call.weight_of_heads) return contiguous({hidden}, offset);
  return {{call.x.shape.end()[-2], hidden}, {hidden + offset, 1}, offset};
}

}  // namespace tests
