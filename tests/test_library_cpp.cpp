/// \file
/// rmsnorm.hpp hands each argument to the function of rmsnorm.h, as it is.

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "library/include/rmsnorm.hpp"
#include "tests/dl_tensor.hpp"
#include "tests/gpu_support.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

constexpr std::int64_t kHidden = 96;

/// Tensors of each role, the same for the same type.
struct Arrays {
  explicit Arrays(Dtype dtype) : dtype(dtype) {}
  Dtype dtype;
  DeviceTensor x{dtype, {{3, 4, kHidden}, {kHidden * 8, kHidden * 2, 1}}, 1};
  DeviceTensor weight{dtype, contiguous({kHidden}), 2};
  DeviceTensor y{dtype, contiguous({3, 4, kHidden}), 3};
  DeviceTensor k{dtype, contiguous({5, kHidden}), 4};
  DeviceTensor k_weight{dtype, contiguous({kHidden}), 5};
  DeviceTensor k_out{dtype, contiguous({5, kHidden}), 6};
  DeviceTensor dy{dtype, contiguous({3, 4, kHidden}), 7};
  DeviceTensor rstd{Dtype::fp32, contiguous({12}), 8};
  DeviceTensor dweight{dtype, contiguous({kHidden}), 9};
  DeviceArray workspace{Dtype::fp32, 1 << 14, 10};
  DeviceTensor fp8{Dtype::e4m3, contiguous({3, 4, kHidden}), 11};
  DeviceTensor scale{Dtype::fp32, contiguous({3, 4, 1}), 12};
  DeviceTensor limit{Dtype::fp32, contiguous({1}), 13};
  DeviceTensor tiles{Dtype::e4m3, contiguous({512}), 16};
  DeviceTensor z{dtype, contiguous({3, 4, kHidden}), 14};
  DeviceTensor dz{dtype, contiguous({3, 4, kHidden}), 15};
  DeviceTensor keys{dtype, contiguous({3, 2, kHidden}), 17};
  DeviceTensor values{dtype, contiguous({3, 2, kHidden}), 18};
  DeviceTensor angles{Dtype::fp32, contiguous({5, kHidden / 2}), 19};
  DeviceTensor k_cache{dtype, contiguous({2, 2, 2, kHidden}), 20};
  DeviceTensor v_cache{dtype, contiguous({2, 2, 2, kHidden}), 21};
  DeviceTensor integers{Dtype::fp32, contiguous({3}), 22};

  /// The integers 3, 0 and 2.
  DLTensor places() const {
    const std::int32_t numbers[] = {3, 0, 2};
    std::vector<std::byte> bytes = integers.array.bytes();
    std::memcpy(bytes.data(), numbers, sizeof(numbers));
    integers.array.fill(bytes);
    DLTensor view = integers.view;
    view.dtype = {kDLInt, 32, 1};
    return view;
  }
  std::vector<std::vector<float>> now() const {
    std::vector<std::vector<float>> numbers;
    for (const DeviceTensor* tensor :
         {&x, &y, &k, &k_out, &dy, &rstd, &dweight, &fp8, &scale, &dz, &tiles, &keys, &k_cache,
          &v_cache}) {
      numbers.push_back(tensor->array.now());
    }
    return numbers;
  }
};

/// What rmsnorm.hpp makes of a tensor.
template <class Element>
TensorView view(const DeviceTensor& tensor) {
  auto* const data = static_cast<Element*>(tensor.view.data);
  const auto& sizes = tensor.layout.shape;
  const auto& strides = tensor.layout.strides;
  if (sizes.size() == 1) return {data, {sizes[0]}};
  if (sizes.size() == 2) return {data, {sizes[0], sizes[1]}};
  if (sizes.size() == 4) return {data, {sizes[0], sizes[1], sizes[2], sizes[3]}};
  return {data, {sizes[0], sizes[1], sizes[2]}, {strides[0], strides[1], strides[2]}};
}

/// A function, called through either header.
struct Function {
  std::string name;
  std::function<rmsnorm_status(Arrays&)> c;
  std::function<void(Arrays&)> cpp;
};

template <class Element>
std::vector<Function> functions() {
  const auto of = view<Element>;
  const auto fp32 = view<float>;
  return {
      {"forward",
       [](Arrays& a) {
         return rmsnorm_forward(&a.x.view, &a.weight.view, &a.y.view, kEps, 1, nullptr);
       },
       [=](Arrays& a) { forward(of(a.x), of(a.weight), of(a.y), kEps, 1); }},
      {"forward without a weight",
       [](Arrays& a) { return rmsnorm_forward(&a.x.view, nullptr, &a.y.view, kEps, 0, nullptr); },
       [=](Arrays& a) { forward(of(a.x), std::nullopt, of(a.y), kEps); }},
      {"forward_pair",
       [](Arrays& a) {
         return rmsnorm_forward_pair(
             &a.x.view, &a.weight.view, &a.y.view, &a.k.view, &a.k_weight.view, &a.k_out.view, kEps,
             1, nullptr);
       },
       [=](Arrays& a) {
         forward_pair(
             of(a.x), of(a.weight), of(a.y), of(a.k), of(a.k_weight), of(a.k_out), kEps, 1);
       }},
      {"residual_add",
       [](Arrays& a) {
         return rmsnorm_residual_add(
             &a.x.view, &a.dy.view, &a.weight.view, &a.y.view, kEps, 1, nullptr);
       },
       [=](Arrays& a) { residual_add(of(a.x), of(a.dy), of(a.weight), of(a.y), kEps, 1); }},
      {"forward_fp8",
       [](Arrays& a) {
         return rmsnorm_forward_fp8(
             &a.x.view, &a.dy.view, &a.weight.view, &a.fp8.view, &a.scale.view, &a.limit.view,
             &a.y.view, RMSNORM_SCALE_GROUP, RMSNORM_ROUND_TWICE, kEps, 1, nullptr);
       },
       [=](Arrays& a) {
         forward_fp8(
             of(a.x), of(a.dy), of(a.weight), view<__nv_fp8_e4m3>(a.fp8), fp32(a.scale),
             fp32(a.limit), of(a.y), RMSNORM_SCALE_GROUP, RMSNORM_ROUND_TWICE, kEps, 1);
       }},
      {"forward_fp8 with scales of blocks",
       [](Arrays& a) {
         DLTensor scale = a.tiles.view;
         scale.dtype = {kDLUInt, 8, 1};
         return rmsnorm_forward_fp8(
             &a.x.view, nullptr, nullptr, &a.fp8.view, &scale, nullptr, nullptr,
             RMSNORM_SCALE_BLOCK, RMSNORM_ROUND_ONCE, kEps, 0, nullptr);
       },
       [=](Arrays& a) {
         forward_fp8(
             of(a.x), {}, {}, view<__nv_fp8_e4m3>(a.fp8), view<std::uint8_t>(a.tiles), {}, {},
             RMSNORM_SCALE_BLOCK, RMSNORM_ROUND_ONCE, kEps);
       }},
      {"forward_rstd and backward",
       [](Arrays& a) {
         std::size_t bytes = 0;
         rmsnorm_backward_workspace_bytes(&a.x.view, &bytes);
         const rmsnorm_status status = rmsnorm_forward_rstd(
             &a.x.view, &a.weight.view, &a.y.view, &a.rstd.view, kEps, 1, nullptr);
         if (status != RMSNORM_OK) return status;
         return rmsnorm_backward(
             &a.dy.view, &a.x.view, &a.weight.view, &a.rstd.view, &a.y.view, &a.dweight.view,
             a.workspace.data(), bytes, 1, nullptr);
       },
       [=](Arrays& a) {
         const std::size_t bytes = backward_workspace_bytes(of(a.x));
         forward_rstd(of(a.x), of(a.weight), of(a.y), fp32(a.rstd), kEps, 1);
         backward(
             of(a.dy), of(a.x), of(a.weight), fp32(a.rstd), of(a.y), of(a.dweight),
             a.workspace.data(), bytes, 1);
       }},
      {"forward_gated",
       [](Arrays& a) {
         return rmsnorm_forward_gated(
             &a.x.view, &a.dy.view, &a.weight.view, &a.y.view, RMSNORM_GATE_FIRST,
             RMSNORM_ROUND_TWICE, kEps, 1, nullptr);
       },
       [=](Arrays& a) {
         forward_gated(
             of(a.x), of(a.dy), of(a.weight), of(a.y), RMSNORM_GATE_FIRST, RMSNORM_ROUND_TWICE,
             kEps, 1);
       }},
      {"backward_gated",
       [](Arrays& a) {
         std::size_t bytes = 0;
         rmsnorm_backward_gated_workspace_bytes(&a.x.view, &bytes);
         return rmsnorm_backward_gated(
             &a.dy.view, &a.x.view, &a.z.view, &a.weight.view, &a.y.view, &a.dz.view,
             &a.dweight.view, a.workspace.data(), bytes, RMSNORM_GATE_FIRST, kEps, 1, nullptr);
       },
       [=](Arrays& a) {
         const std::size_t bytes = backward_gated_workspace_bytes(of(a.x));
         backward_gated(
             of(a.dy), of(a.x), of(a.z), of(a.weight), of(a.y), of(a.dz), of(a.dweight),
             a.workspace.data(), bytes, RMSNORM_GATE_FIRST, kEps, 1);
       }},
      {"forward_rotated",
       [](Arrays& a) {
         const DLTensor integers = a.places();
         return rmsnorm_forward_rotated(
             &a.x.view, &a.weight.view, &a.y.view, &a.keys.view, &a.k_weight.view, &a.keys.view,
             &a.angles.view, &a.angles.view, &integers, &a.values.view, &a.k_cache.view,
             &a.v_cache.view, &integers, RMSNORM_ROTATE_INTERLEAVED, RMSNORM_ROUND_TWICE, kEps, 1,
             nullptr);
       },
       [=](Arrays& a) {
         a.places();
         const TensorView integers = view<std::int32_t>(a.integers), angles = fp32(a.angles);
         forward_rotated(
             of(a.x), of(a.weight), of(a.y), of(a.keys), of(a.k_weight), of(a.keys), angles, angles,
             integers, of(a.values), of(a.k_cache), of(a.v_cache), integers,
             RMSNORM_ROTATE_INTERLEAVED, RMSNORM_ROUND_TWICE, kEps, 1);
       }},
  };
}

template <class Element>
void check_functions(Dtype dtype) {
  for (const Function& function : functions<Element>()) {
    CAPTURE(to_string(dtype), function.name);
    Arrays c(dtype), cpp(dtype);
    const auto before = c.now();
    REQUIRE(function.c(c) == RMSNORM_OK);
    function.cpp(cpp);
    CHECK(cpp.now() == c.now());
    CHECK(cpp.now() != before);
  }
}

}  // namespace

TEST_CASE("each function of rmsnorm.hpp does what that of rmsnorm.h does") {
  NEEDS_GPU();
  check_functions<float>(Dtype::fp32);
  check_functions<__half>(Dtype::fp16);
  check_functions<__nv_bfloat16>(Dtype::bf16);
}

TEST_CASE("a function of rmsnorm.hpp throws the library's sentence") {
  float number = 0;
  const TensorView x(&number, {0, 64});
  const TensorView too_wide(&number, {0, 1 << 30, 1 << 30});
  CHECK_THROWS_WITH(forward(x, {}, x, -1), "eps is -1: it needs to be finite and not negative");
  try {
    forward(x, {}, too_wide, kEps);
    FAIL("no exception");
  } catch (const Error& error) {
    CHECK(error.status() == RMSNORM_BAD_SHAPE);
  }
  CHECK_THROWS_AS(TensorView(&number, {1, 1, 1, 1, 1}), std::invalid_argument);
  CHECK_THROWS_AS(TensorView(&number, {1, 1}, {1}), std::invalid_argument);
  std::int64_t integer = 0;
  const DLTensor integers = TensorView(&integer, {1}).dl_tensor();
  CHECK((integers.dtype.code == kDLInt && integers.dtype.bits == 64));
}
