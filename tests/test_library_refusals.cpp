/// \file
/// librmsnorm refuses what it cannot do, with the right status and a sentence, and does nothing.

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "library/call.hpp"
#include "tests/dl_tensor.hpp"
#include "tests/gpu_support.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

constexpr std::int64_t kHidden = 64;

/// A tensor of the device that can be spoilt.
struct Argument : DeviceTensor {
  Argument(std::vector<std::int64_t> shape, Dtype dtype, std::uint64_t seed)
      : DeviceTensor(dtype, contiguous(std::move(shape), 8), seed) {}
  void lies(const Layout& at) {
    layout = at;
    view = view_of(array, layout);
  }
  void say_elements(int code, int bits) {
    view.dtype.code = static_cast<std::uint8_t>(code);
    view.dtype.bits = static_cast<std::uint8_t>(bits);
  }
  const DLTensor* pointer = &view;
};

/// Right arguments of all functions that write a y of this type.
struct Arguments {
  explicit Arguments(Dtype of_y = Dtype::bf16) : y({4, 3, kHidden}, of_y, 3) {}
  Argument x{{4, 3, kHidden}, Dtype::bf16, 1};
  Argument weight{{kHidden}, Dtype::bf16, 2};
  Argument y;  // of the backward pass: dx
  Argument k{{4, 2, kHidden}, Dtype::bf16, 4};
  Argument k_weight{{kHidden}, Dtype::bf16, 5};
  Argument k_out{{4, 2, kHidden}, Dtype::bf16, 6};
  Argument residual{{4, 3, kHidden}, Dtype::bf16, 7};
  Argument dy{{4, 3, kHidden}, Dtype::bf16, 8};
  Argument rstd{{12}, Dtype::fp32, 9};
  Argument dweight{{kHidden}, Dtype::bf16, 10};
  Argument norm{{4, 3, kHidden}, Dtype::bf16, 12};
  Argument scale{{4, 3, 1}, Dtype::fp32, 13};
  Argument limit{{1}, Dtype::fp32, 14};
  int scaling = RMSNORM_SCALE_GROUP;
  int rounding = RMSNORM_ROUND_ONCE;
  DeviceArray memory{Dtype::fp32, 1 << 16, 11};
  void* workspace = memory.data();
  std::size_t workspace_bytes = (1 << 16) * sizeof(float);
  float eps = 1e-6f;
  float weight_bias = 0;
  cudaStream_t stream = nullptr;

  void on_device(int device) {
    for (Argument* tensor :
         {&x, &weight, &y, &residual, &dy, &rstd, &dweight, &norm, &scale, &limit}) {
      tensor->view.device.device_id = device;
    }
  }
  /// Rows that have two scales each.
  void with_two_groups() {
    for (Argument* rows : {&x, &y, &residual, &norm}) rows->lies(contiguous({2, 2, 3 * kHidden}));
    scale.lies(contiguous({2, 2, 2}));
    weight.pointer = nullptr;
  }
  /// What the arrays that a call may write hold after all work has ended.
  std::vector<std::vector<float>> outputs() const {
    std::vector<std::vector<float>> numbers;
    for (const Argument* output : {&y, &k_out, &residual, &rstd, &dweight, &norm, &scale}) {
      numbers.push_back(output->array.now());
    }
    return numbers;
  }
};

/// A mistake, and what is said about it.
struct Mistake {
  rmsnorm_status status;                 ///< what the call returns
  std::string sentence;                  ///< what it says, or a part of it
  std::function<void(Arguments&)> make;  ///< spoils right arguments
};

/// Of all functions but that of pairs.
const std::vector<Mistake> kOfInputs = {
    {RMSNORM_BAD_POINTER, "x is null: it needs to be a tensor",
     [](Arguments& a) { a.x.pointer = nullptr; }},
    {RMSNORM_BAD_POINTER, "x has no shape: the pointer to it is null",
     [](Arguments& a) { a.x.view.shape = nullptr; }},
    {RMSNORM_BAD_POINTER, "weight has 64 elements and no data: the pointer to them is null",
     [](Arguments& a) { a.weight.view.data = nullptr; }},
    {RMSNORM_BAD_SHAPE,
     "x has 1 dimension: it needs 2, (rows, hidden), 3, (batch, heads, head_dim), or 4, (batch, "
     "tokens, heads, head_dim)",
     [](Arguments& a) { a.x.view.ndim = 1; }},
    {RMSNORM_BAD_SHAPE,
     "x has 5 dimensions: it needs 2, (rows, hidden), 3, (batch, heads, head_dim), or 4, ",
     [](Arguments& a) { a.x.view.ndim = 5; }},
    {RMSNORM_BAD_SHAPE,
     "x has -2 dimensions: it needs 2, (rows, hidden), 3, (batch, heads, head_dim), or 4, ",
     [](Arguments& a) { a.x.view.ndim = -2; }},
    {RMSNORM_BAD_SHAPE, "weight has 3 dimensions: it needs 1, (head_dim), or 2, (heads, head_dim)",
     [](Arguments& a) { a.weight.view.ndim = 3; }},
    {RMSNORM_BAD_SHAPE, "weight has the shape (1, 64): it needs the last two sizes of x, (3, 64)",
     [](Arguments& a) {
       a.weight.lies(contiguous({1, kHidden}));
     }},
    {RMSNORM_BAD_SHAPE, "weight has the shape (3, 32): it needs the last two sizes of x, (3, 64)",
     [](Arguments& a) {
       a.weight.lies(contiguous({3, 32}));
     }},
    {RMSNORM_BAD_SHAPE, "x has the size -4 in dimension 0: it needs 0 or more",
     [](Arguments& a) { a.x.layout.shape[0] = -4; }},
    {RMSNORM_BAD_SHAPE, "x has 1073741825 columns: it needs 1073741824 at most",
     [](Arguments& a) { a.x.layout.shape[2] = (1 << 30) + 1; }},
    {RMSNORM_BAD_SHAPE, "weight has 63 elements: it needs one for each of the 64 columns of x",
     [](Arguments& a) { a.weight.layout.shape[0] = 63; }},
    {RMSNORM_BAD_DTYPE, "x has elements of int32: they need to be float32, float16 or bfloat16",
     [](Arguments& a) { a.x.say_elements(kDLInt, 32); }},
    {RMSNORM_BAD_DTYPE, "x has elements of float64: they need to be float32, float16 or bfloat16",
     [](Arguments& a) { a.x.say_elements(kDLFloat, 64); }},
    {RMSNORM_BAD_DTYPE, "x has elements of bfloat32: they need to be float32, float16 or bfloat16",
     [](Arguments& a) { a.x.say_elements(kDLBfloat, 32); }},
    {RMSNORM_BAD_DTYPE, "x has elements of 2 lanes: they need to be single numbers",
     [](Arguments& a) { a.x.view.dtype.lanes = 2; }},
    {RMSNORM_BAD_DTYPE,
     "weight has elements of float64: they need to be float32, float16 or bfloat16",
     [](Arguments& a) { a.weight.say_elements(kDLFloat, 64); }},
    {RMSNORM_BAD_DEVICE, "x is on the CPU: it needs to be on a CUDA device",
     [](Arguments& a) { a.x.view.device.device_type = kDLCPU; }},
    {RMSNORM_BAD_DEVICE,
     "weight is on the CPU (page-locked memory): it needs to be on a CUDA device",
     [](Arguments& a) { a.weight.view.device.device_type = kDLCUDAHost; }},
    {RMSNORM_BAD_DEVICE, "weight is on CUDA device 1, x on 0: they need to be on the same",
     [](Arguments& a) { a.weight.view.device.device_id = 1; }},
    {RMSNORM_BAD_DEVICE, "x is on CUDA device -1: ", [](Arguments& a) { a.on_device(-1); }},
    {RMSNORM_BAD_DEVICE, "x is on CUDA device 1000: ", [](Arguments& a) { a.on_device(1000); }},
    {RMSNORM_BAD_DEVICE, ": that is not in the memory of CUDA device 0",
     [](Arguments& a) {
       static float host[4 * 3 * kHidden + 16];
       a.x.view.data = host;
     }},
    {RMSNORM_BAD_DEVICE,
     "x begins at the address 0x7ffffffffffffffe: that is not in the memory of CUDA device 0",
     [](Arguments& a) {  // its end is no address
       a.x.view.byte_offset = 0x7ffffffffffffffe - reinterpret_cast<std::uintptr_t>(a.x.view.data);
     }},
    {RMSNORM_BAD_STRIDES,
     "x has the stride 2 in its last dimension: it needs 1, columns side by side",
     [](Arguments& a) { a.x.layout.strides[2] = 2; }},
    {RMSNORM_BAD_STRIDES,
     "weight has the stride -1 in its last dimension: it needs 1, columns side by side",
     [](Arguments& a) { a.weight.layout.strides[0] = -1; }},
    {RMSNORM_BAD_STRIDES, "x is larger than any memory: ",
     [](Arguments& a) { a.x.layout.strides[0] = std::numeric_limits<std::int64_t>::max(); }},
    {RMSNORM_BAD_STRIDES, "x is larger than any memory: ",
     [](Arguments& a) { a.x.layout.strides[0] = std::numeric_limits<std::int64_t>::min(); }},
    {RMSNORM_BAD_STRIDES, "x is larger than any memory: ",  // -2^63 bytes, which no int64 negates
     [](Arguments& a) { a.x.layout.strides[0] = std::numeric_limits<std::int64_t>::min() / 2; }},
    {RMSNORM_BAD_STRIDES, "x is larger than any memory: -1152921504606846976 times 2 bytes",
     [](Arguments& a) { a.x.layout.strides[0] = -(std::int64_t{1} << 60); }},
    {RMSNORM_BAD_STRIDES, "x is larger than any memory: 4 times ",
     [](Arguments& a) { a.x.layout.strides[0] = std::int64_t{1} << 58; }},
    {RMSNORM_BAD_SHAPE, "x is larger than any memory: ",
     [](Arguments& a) {
       a.x.layout.shape[0] = a.x.layout.shape[1] = std::int64_t{1} << 40;
       a.x.view.strides = nullptr;
     }},
    {RMSNORM_BAD_ALIGNMENT, ": bfloat16 needs a multiple of 2",
     [](Arguments& a) { a.x.view.byte_offset = 1; }},
    {RMSNORM_BAD_ALIGNMENT, ": float32 needs a multiple of 4",
     [](Arguments& a) {
       a.weight.view.dtype = dl_type(Dtype::fp32);
       a.weight.view.byte_offset = 2;
     }},
    {RMSNORM_BAD_VALUE, "weight_bias is -inf: it needs to be finite",
     [](Arguments& a) { a.weight_bias = -INFINITY; }},
    {RMSNORM_BAD_VALUE, "weight_bias is 1, and weight null: it needs to be 0",
     [](Arguments& a) {
       a.weight.pointer = nullptr;
       a.weight_bias = 1;
     }},
};

/// Of all those that have a y.
const std::vector<Mistake> kOfY = {
    {RMSNORM_BAD_POINTER, "y is null: it needs to be a tensor",
     [](Arguments& a) { a.y.pointer = nullptr; }},
    {RMSNORM_BAD_POINTER, "y has 768 elements and no data: the pointer to them is null",
     [](Arguments& a) { a.y.view.data = nullptr; }},
    {RMSNORM_BAD_SHAPE,
     "y has 0 dimensions: it needs 2, (rows, hidden), 3, (batch, heads, head_dim), or 4, ",
     [](Arguments& a) { a.y.view.ndim = 0; }},
    {RMSNORM_BAD_SHAPE, "y has the shape (4, 2, 64): it needs that of x, (4, 3, 64)",
     [](Arguments& a) { a.y.layout.shape[1] = 2; }},
    {RMSNORM_BAD_SHAPE, "y has the shape (12, 64): it needs that of x, (4, 3, 64)",
     [](Arguments& a) {
       a.y.lies(contiguous({12, kHidden}));
     }},
    {RMSNORM_BAD_DEVICE, "y is on a device of DLPack's type 7: it needs to be on a CUDA device",
     [](Arguments& a) { a.y.view.device.device_type = kDLVulkan; }},
    {RMSNORM_BAD_DEVICE, "y is on CUDA device 1, x on 0: they need to be on the same",
     [](Arguments& a) { a.y.view.device.device_id = 1; }},
    {RMSNORM_BAD_DEVICE,
     "y begins at the address 0xfffffffffffffffe: that is not in the memory of CUDA device 0",
     [](Arguments& a) {
       a.y.view.byte_offset = 0xfffffffffffffffe - reinterpret_cast<std::uintptr_t>(a.y.view.data);
     }},
    {RMSNORM_BAD_STRIDES,
     "y has the stride 0 in its last dimension: it needs 1, columns side by side",
     [](Arguments& a) { a.y.layout.strides[2] = 0; }},
    {RMSNORM_BAD_STRIDES, "y has the strides 192 and 63, with which its rows overlap",
     [](Arguments& a) { a.y.layout.strides[1] = 63; }},
    {RMSNORM_BAD_STRIDES, "y has the strides 191 and 64, with which its rows overlap",
     [](Arguments& a) { a.y.layout.strides[0] = 191; }},
    {RMSNORM_BAD_STRIDES, "y has the strides 0 and 64, with which its rows overlap",
     [](Arguments& a) { a.y.layout.strides[0] = 0; }},
    {RMSNORM_BAD_STRIDES,
     "y has the stride 63, with which its rows of 64 columns overlap: each needs its own memory",
     [](Arguments& a) {
       for (Argument* part : {&a.x, &a.y}) part->lies({{4, kHidden}, {63, 1}, 0});
     }},
    {RMSNORM_BAD_SHAPE, "weight has 2 dimensions: it needs 1, (hidden)",
     [](Arguments& a) {  // whose rows are no heads
       for (Argument* part : {&a.x, &a.y, &a.residual}) part->lies(contiguous({12, kHidden}));
       a.weight.lies(contiguous({12, kHidden}));
     }},
    {RMSNORM_BAD_SHAPE, "y has the shape (4, 3, 1, 64): it needs that of x, (4, 1, 3, 64)",
     [](Arguments& a) {
       a.x.lies(contiguous({4, 1, 3, kHidden}));
       a.y.lies(contiguous({4, 3, 1, kHidden}));
     }},
    {RMSNORM_BAD_STRIDES,
     "y has the strides 192, 96 and 64, with which its rows overlap or interleave: the dimensions "
     "need to lie one within the other",
     [](Arguments& a) {
       a.x.lies(contiguous({4, 1, 3, kHidden}));
       a.y.lies({{2, 2, 3, kHidden}, {192, 96, kHidden, 1}});
       a.x.lies(contiguous({2, 2, 3, kHidden}));
     }},
    {RMSNORM_BAD_OVERLAP, "y shares memory with x: an output needs memory of its own",
     [](Arguments& a) {
       a.y.view.data = a.x.view.data;
       a.y.view.byte_offset += 2;
     }},
    {RMSNORM_BAD_OVERLAP, "y shares memory with x: an output needs memory of its own",
     [](Arguments& a) {  // the same memory, with its rows in another order
       a.y.view.data = a.x.view.data;
       a.y.layout.strides = {kHidden, 4 * kHidden, 1};
     }},
    {RMSNORM_BAD_OVERLAP, "y shares memory with weight: an output needs memory of its own",
     [](Arguments& a) { a.weight.view.data = a.y.view.data; }},
    {RMSNORM_BAD_VALUE, "eps is -1: it needs to be finite and not negative",
     [](Arguments& a) { a.eps = -1; }},
    {RMSNORM_BAD_VALUE, "eps is nan: it needs to be finite and not negative",
     [](Arguments& a) { a.eps = NAN; }},
    {RMSNORM_BAD_VALUE, "eps is inf: it needs to be finite and not negative",
     [](Arguments& a) { a.eps = INFINITY; }},
};

/// Of those whose y has the type of x.
const std::vector<Mistake> kOfYLikeX = {
    {RMSNORM_BAD_DTYPE,
     "y has elements of DLPack's type code 7 with 8 bits: they need to be "
     "float32, float16 or bfloat16",
     [](Arguments& a) { a.y.say_elements(7, 8); }},
    {RMSNORM_BAD_DTYPE, "y has elements of float16: it needs those of x, bfloat16",
     [](Arguments& a) { a.y.view.dtype = dl_type(Dtype::fp16); }},
    {RMSNORM_BAD_ALIGNMENT, ": bfloat16 needs a multiple of 2",
     [](Arguments& a) { a.y.view.byte_offset = 17; }},
};

/// Of the norm in 8 bits.
const std::vector<Mistake> kOfFp8 = {
    {RMSNORM_BAD_VALUE, "scaling is 3: it needs to be a value of rmsnorm_scaling",
     [](Arguments& a) { a.scaling = 3; }},
    {RMSNORM_BAD_VALUE, "rounding is -1: it needs to be a value of rmsnorm_rounding",
     [](Arguments& a) { a.rounding = -1; }},
    {RMSNORM_BAD_POINTER, "scale is null: it needs to be a tensor",
     [](Arguments& a) { a.scale.pointer = nullptr; }},
    {RMSNORM_BAD_POINTER, "scale has no shape: the pointer to it is null",
     [](Arguments& a) { a.scale.view.shape = nullptr; }},
    {RMSNORM_BAD_DTYPE, "y has elements of bfloat16: they need to be float8_e4m3fn or float8_e5m2",
     [](Arguments& a) { a.y.view.dtype = dl_type(Dtype::bf16); }},
    {RMSNORM_BAD_DTYPE, "y has elements of uint8: they need to be float8_e4m3fn or float8_e5m2",
     [](Arguments& a) { a.y.say_elements(kDLUInt, 8); }},
    {RMSNORM_BAD_DTYPE,
     "x has elements of float8_e4m3fn: they need to be float32, float16 or bfloat16",
     [](Arguments& a) { a.x.view.dtype = dl_type(Dtype::e4m3); }},
    {RMSNORM_BAD_DTYPE, "residual has elements of float32: it needs those of x, bfloat16",
     [](Arguments& a) { a.residual.view.dtype = dl_type(Dtype::fp32); }},
    {RMSNORM_BAD_DTYPE, "norm has elements of float16: it needs those of x, bfloat16",
     [](Arguments& a) { a.norm.view.dtype = dl_type(Dtype::fp16); }},
    {RMSNORM_BAD_DTYPE, "scale has elements of bfloat16: it needs float32",
     [](Arguments& a) { a.scale.view.dtype = dl_type(Dtype::bf16); }},
    {RMSNORM_BAD_DTYPE, "limit has elements of float16: it needs float32",
     [](Arguments& a) { a.limit.view.dtype = dl_type(Dtype::fp16); }},
    {RMSNORM_BAD_SHAPE,
     "scale has the shape (2, 2): it needs (2, 2, 2), for x of the shape (2, 2, 192)",
     [](Arguments& a) {
       a.with_two_groups();
       a.scale.lies(contiguous({2, 2}));
     }},
    {RMSNORM_BAD_SHAPE,
     "scale has the shape (2, 2, 2): it needs (2, 2, 1), for x of the shape (2, 2, 192)",
     [](Arguments& a) {
       a.with_two_groups();
       a.scaling = RMSNORM_SCALE_ROW;
     }},
    {RMSNORM_BAD_SHAPE, "scale has 3 dimensions: it needs 1, (1)",
     [](Arguments& a) { a.scaling = RMSNORM_SCALE_GIVEN; }},
    {RMSNORM_BAD_SHAPE, "scale has 2 elements: it needs one",
     [](Arguments& a) {
       a.scaling = RMSNORM_SCALE_GIVEN;
       a.scale.lies(contiguous({2}));
     }},
    {RMSNORM_BAD_VALUE, "limit is a tensor, and the scale is given: it needs to be null",
     [](Arguments& a) {
       a.scaling = RMSNORM_SCALE_GIVEN;
       a.scale.lies(contiguous({1}));
     }},
    {RMSNORM_BAD_STRIDES,
     "scale has the strides (8, 4, 1): it needs those of a contiguous tensor, or rows side by "
     "side and the last stride 4 or more",
     [](Arguments& a) {
       a.with_two_groups();
       a.scale.lies({{2, 2, 2}, {8, 4, 1}});
     }},
    {RMSNORM_BAD_STRIDES, "scale has the strides (2, 1, 3): ",
     [](Arguments& a) {
       a.with_two_groups();
       a.scale.lies({{2, 2, 2}, {2, 1, 3}});
     }},
    {RMSNORM_BAD_STRIDES, "scale is larger than any memory: ",
     [](Arguments& a) {
       a.with_two_groups();
       a.scale.lies({{2, 2, 2}, {2, 1, std::int64_t{1} << 60}});
     }},
    {RMSNORM_BAD_DEVICE, "scale is on CUDA device 1, x on 0: they need to be on the same",
     [](Arguments& a) { a.scale.view.device.device_id = 1; }},
    {RMSNORM_BAD_ALIGNMENT, ": float32 needs a multiple of 4",
     [](Arguments& a) { a.scale.view.byte_offset = 2; }},
    {RMSNORM_BAD_OVERLAP, "residual shares memory with x: an output needs memory of its own",
     [](Arguments& a) { a.residual.view.data = a.x.view.data; }},
    {RMSNORM_BAD_OVERLAP, "y shares memory with scale: an output needs memory of its own",
     [](Arguments& a) { a.scale.view.data = a.y.view.data; }},
};

/// Mistakes that only two tensors make possible; x is q here.
const std::vector<Mistake> kOfPairs = {
    {RMSNORM_BAD_POINTER, "k is null: it needs to be a tensor",
     [](Arguments& a) { a.k.pointer = nullptr; }},
    {RMSNORM_BAD_SHAPE, "k has 32 columns: it needs those of q, 64",
     [](Arguments& a) {
       for (Argument* part : {&a.k, &a.k_weight, &a.k_out}) part->layout.shape.back() = 32;
     }},
    {RMSNORM_BAD_DTYPE, "k has elements of float16: it needs those of q, bfloat16",
     [](Arguments& a) {
       for (Argument* part : {&a.k, &a.k_weight, &a.k_out}) part->view.dtype = dl_type(Dtype::fp16);
     }},
    {RMSNORM_BAD_DTYPE, "k_weight has elements of float32: it needs those of q_weight, bfloat16",
     [](Arguments& a) { a.k_weight.view.dtype = dl_type(Dtype::fp32); }},
    {RMSNORM_BAD_DEVICE, "k is on CUDA device 1, q on 0: they need to be on the same",
     [](Arguments& a) {
       for (Argument* part : {&a.k, &a.k_weight, &a.k_out}) part->view.device.device_id = 1;
     }},
    {RMSNORM_BAD_STRIDES, "k_out has the strides 128 and 63, with which its rows overlap",
     [](Arguments& a) { a.k_out.layout.strides[1] = 63; }},
    {RMSNORM_BAD_VALUE, "weight_bias is -0.5, and q_weight null: it needs to be 0",
     [](Arguments& a) {
       a.weight.pointer = nullptr;
       a.weight_bias = -0.5f;
     }},
    {RMSNORM_BAD_VALUE, "weight_bias is -0.5, and k_weight null: it needs to be 0",
     [](Arguments& a) {
       a.k_weight.pointer = nullptr;
       a.weight_bias = -0.5f;
     }},
    {RMSNORM_BAD_OVERLAP, "q_out shares memory with k: an output needs memory of its own",
     [](Arguments& a) { a.k.view.data = a.y.view.data; }},
    {RMSNORM_BAD_OVERLAP, "k_out shares memory with q: an output needs memory of its own",
     [](Arguments& a) { a.k_out.view.data = a.x.view.data; }},
    {RMSNORM_BAD_OVERLAP, "q_out shares memory with k_out: an output needs memory of its own",
     [](Arguments& a) { a.k_out.view.data = a.y.view.data; }},
    {RMSNORM_BAD_OVERLAP, "q_out shares memory with k_weight: an output needs memory of its own",
     [](Arguments& a) { a.k_weight.view.data = a.y.view.data; }},
};

/// Mistakes that only a residual makes possible.
const std::vector<Mistake> kOfResiduals = {
    {RMSNORM_BAD_POINTER, "residual is null: it needs to be a tensor",
     [](Arguments& a) { a.residual.pointer = nullptr; }},
    {RMSNORM_BAD_SHAPE, "residual has the shape (4, 2, 64): it needs that of x, (4, 3, 64)",
     [](Arguments& a) { a.residual.layout.shape[1] = 2; }},
    {RMSNORM_BAD_DTYPE,
     "residual has elements of int16: they need to be float32, float16 or bfloat16",
     [](Arguments& a) { a.residual.say_elements(kDLInt, 16); }},
    {RMSNORM_BAD_DEVICE, "residual is on CUDA device 1, x on 0: they need to be on the same",
     [](Arguments& a) { a.residual.view.device.device_id = 1; }},
    {RMSNORM_BAD_DEVICE, ": that is not in the memory of CUDA device 0",
     [](Arguments& a) {
       static float host[4 * 3 * kHidden + 16];
       a.residual.view.data = host;
     }},
    {RMSNORM_BAD_STRIDES, "residual has the strides 192 and 63, with which its rows overlap",
     [](Arguments& a) { a.residual.layout.strides[1] = 63; }},
    {RMSNORM_BAD_OVERLAP, "residual shares memory with x: an output needs memory of its own",
     [](Arguments& a) { a.residual.view.data = a.x.view.data; }},
    {RMSNORM_BAD_OVERLAP, "y shares memory with residual: an output needs memory of its own",
     [](Arguments& a) { a.y.view.data = a.residual.view.data; }},
    {RMSNORM_BAD_OVERLAP, "residual shares memory with weight: an output needs memory of its own",
     [](Arguments& a) { a.weight.view.data = a.residual.view.data; }},
};

/// Of both passes for training.
const std::vector<Mistake> kOfTraining = {
    {RMSNORM_BAD_POINTER, "rstd is null: it needs to be a tensor",
     [](Arguments& a) { a.rstd.pointer = nullptr; }},
    {RMSNORM_BAD_SHAPE, "x needs 1073741824 rows at most, and has more",
     [](Arguments& a) { a.x.layout.shape[0] = 1 << 30; }},
    {RMSNORM_BAD_SHAPE, "rstd has 11 elements: it needs one for each of the 12 rows of x",
     [](Arguments& a) { a.rstd.layout.shape[0] = 11; }},
    {RMSNORM_BAD_SHAPE, "rstd has 2 dimensions: it needs 1, (rows)",
     [](Arguments& a) { a.rstd.view.ndim = 2; }},
    {RMSNORM_BAD_DTYPE, "rstd has elements of bfloat16: it needs float32",
     [](Arguments& a) { a.rstd.view.dtype = dl_type(Dtype::bf16); }},
    {RMSNORM_BAD_DEVICE, "rstd is on CUDA device 1, x on 0: they need to be on the same",
     [](Arguments& a) { a.rstd.view.device.device_id = 1; }},
    {RMSNORM_BAD_DEVICE, "rstd begins at the address ",
     [](Arguments& a) {
       static float host[12];
       a.rstd.view.data = host;
     }},
};

/// Of the forward pass for training alone.
const std::vector<Mistake> kOfForwardRstd = {
    {RMSNORM_BAD_OVERLAP, "y shares memory with x: an output needs memory of its own",
     [](Arguments& a) { a.y.pointer = a.x.pointer; }},
    {RMSNORM_BAD_OVERLAP, "rstd shares memory with x: an output needs memory of its own",
     [](Arguments& a) { a.rstd.view.data = a.x.view.data; }},
    {RMSNORM_BAD_OVERLAP, "rstd shares memory with y: an output needs memory of its own",
     [](Arguments& a) { a.rstd.view.data = a.y.view.data; }},
};

/// Of the backward pass alone.
const std::vector<Mistake> kOfBackward = {
    {RMSNORM_BAD_SHAPE, "dx has the shape (4, 3, 32): it needs that of x, (4, 3, 64)",
     [](Arguments& a) { a.y.layout.shape[2] = 32; }},
    {RMSNORM_BAD_DTYPE, "dy has elements of float16: it needs those of x, bfloat16",
     [](Arguments& a) { a.dy.view.dtype = dl_type(Dtype::fp16); }},
    {RMSNORM_BAD_STRIDES, "dx has the strides 192 and 63, with which its rows overlap",
     [](Arguments& a) { a.y.layout.strides[1] = 63; }},
    {RMSNORM_BAD_STRIDES,
     "dy has the stride 2 in its last dimension: it needs 1, columns side by side, or 0, one for "
     "all",
     [](Arguments& a) { a.dy.layout.strides[2] = 2; }},
    {RMSNORM_BAD_SHAPE, "dweight has 63 elements: it needs one for each of the 64 columns of x",
     [](Arguments& a) { a.dweight.layout.shape[0] = 63; }},
    {RMSNORM_BAD_SHAPE, "dweight has the shape (3, 64): it needs that of weight, (64)",
     [](Arguments& a) {
       a.dweight.lies(contiguous({3, kHidden}));
     }},
    {RMSNORM_BAD_STRIDES,
     "dweight has the stride 65 between heads: it needs 64, heads side by side",
     [](Arguments& a) {
       a.weight.lies(contiguous({3, kHidden}));
       a.dweight.lies({{3, kHidden}, {kHidden + 1, 1}});
     }},
    {RMSNORM_BAD_SHAPE, "weight has 65536 heads: the backward pass needs 65535 at most",
     [](Arguments& a) {
       constexpr std::int64_t kHeads = 65536;
       for (Argument* part : {&a.x, &a.y, &a.dy}) part->lies(contiguous({1, kHeads, kHidden}));
       for (Argument* part : {&a.weight, &a.dweight}) part->lies(contiguous({kHeads, kHidden}));
       a.rstd.lies(contiguous({kHeads}));
       a.workspace_bytes = std::size_t{1} << 40;
     }},
    {RMSNORM_BAD_DTYPE, "dweight has elements of float32: it needs those of weight, bfloat16",
     [](Arguments& a) { a.dweight.view.dtype = dl_type(Dtype::fp32); }},
    {RMSNORM_BAD_OVERLAP, "dx shares memory with dy: an output needs memory of its own",
     [](Arguments& a) { a.y.pointer = a.dy.pointer; }},
    {RMSNORM_BAD_OVERLAP, "dx shares memory with x: an output needs memory of its own",
     [](Arguments& a) { a.y.pointer = a.x.pointer; }},
    {RMSNORM_BAD_OVERLAP, "dweight shares memory with weight: an output needs memory of its own",
     [](Arguments& a) { a.dweight.pointer = a.weight.pointer; }},
    {RMSNORM_BAD_OVERLAP, "dweight shares memory with dx: an output needs memory of its own",
     [](Arguments& a) { a.dweight.view.data = a.y.view.data; }},
    {RMSNORM_BAD_OVERLAP, "workspace shares memory with rstd: an output needs memory of its own",
     [](Arguments& a) { a.rstd.view.data = a.workspace; }},
    {RMSNORM_BAD_POINTER, "workspace is null: it needs to be memory of ",
     [](Arguments& a) { a.workspace = nullptr; }},
    {RMSNORM_BAD_ALIGNMENT, ": it needs a multiple of 256",
     [](Arguments& a) { a.workspace = static_cast<char*>(a.workspace) + 128; }},
    {RMSNORM_BAD_DEVICE, "workspace begins at the address ",
     [](Arguments& a) {
       alignas(256) static char host[256];
       a.workspace = host;
     }},
    {RMSNORM_BAD_DEVICE,
     "workspace begins at the address 0x7fffffffffffff00: that is not in the memory of CUDA device "
     "0",
     [](Arguments& a) {  // its end is no address
       a.workspace = reinterpret_cast<void*>(std::uintptr_t{0x7fffffffffffff00});
     }},
    {RMSNORM_BAD_VALUE, "workspace_bytes is 3: x, with its shape and type, needs ",
     [](Arguments& a) { a.workspace_bytes = 3; }},
};

using Call = rmsnorm_status (*)(const Arguments&);

rmsnorm_status forward(const Arguments& a) {
  return rmsnorm_forward(
      a.x.pointer, a.weight.pointer, a.y.pointer, a.eps, a.weight_bias, a.stream);
}

rmsnorm_status forward_pair(const Arguments& a) {
  return rmsnorm_forward_pair(
      a.x.pointer, a.weight.pointer, a.y.pointer, a.k.pointer, a.k_weight.pointer, a.k_out.pointer,
      a.eps, a.weight_bias, a.stream);
}

rmsnorm_status residual_add(const Arguments& a) {
  return rmsnorm_residual_add(
      a.x.pointer, a.residual.pointer, a.weight.pointer, a.y.pointer, a.eps, a.weight_bias,
      a.stream);
}

rmsnorm_status forward_fp8(const Arguments& a) {
  return rmsnorm_forward_fp8(
      a.x.pointer, a.residual.pointer, a.weight.pointer, a.y.pointer, a.scale.pointer,
      a.limit.pointer, a.norm.pointer, static_cast<rmsnorm_scaling>(a.scaling),
      static_cast<rmsnorm_rounding>(a.rounding), a.eps, a.weight_bias, a.stream);
}

rmsnorm_status forward_rstd(const Arguments& a) {
  return rmsnorm_forward_rstd(
      a.x.pointer, a.weight.pointer, a.y.pointer, a.rstd.pointer, a.eps, a.weight_bias, a.stream);
}

rmsnorm_status backward(const Arguments& a) {
  return rmsnorm_backward(
      a.dy.pointer, a.x.pointer, a.weight.pointer, a.rstd.pointer, a.y.pointer, a.dweight.pointer,
      a.workspace, a.workspace_bytes, a.weight_bias, a.stream);
}

/// Makes each mistake alone: each of the calls says so, and changes nothing.
void check_mistakes(
    const std::vector<Mistake>& mistakes, const std::vector<Call>& calls,
    Dtype of_y = Dtype::bf16) {
  for (const Mistake& mistake : mistakes) {
    for (const Call call : calls) {
      Arguments arguments(of_y);
      INFO(mistake.sentence);
      REQUIRE(call(arguments) == RMSNORM_OK);  // without the mistake
      const auto before = arguments.outputs();
      mistake.make(arguments);
      CHECK(call(arguments) == mistake.status);
      CHECK_THAT(rmsnorm_last_error(), contains(mistake.sentence));
      CHECK(arguments.outputs() == before);
      CHECK(cudaGetLastError() == cudaSuccess);
    }
  }
}

}  // namespace

TEST_CASE("each wrong argument is refused with its status and a sentence") {
  NEEDS_GPU();
  check_mistakes(kOfInputs, {forward, residual_add, forward_rstd, backward});
  check_mistakes(kOfY, {forward, residual_add, forward_rstd});
  check_mistakes(kOfYLikeX, {forward, residual_add, forward_rstd});
  for (const std::vector<Mistake>* mistakes : {&kOfInputs, &kOfY, &kOfFp8}) {
    check_mistakes(*mistakes, {forward_fp8}, Dtype::e4m3);
  }
  check_mistakes(kOfPairs, {forward_pair});
  check_mistakes(kOfResiduals, {residual_add});
  check_mistakes(kOfTraining, {forward_rstd, backward});
  check_mistakes(kOfForwardRstd, {forward_rstd});
  check_mistakes(kOfBackward, {backward});
}

TEST_CASE("a stream that does not exist is CUDA's error") {
  NEEDS_GPU();
  if (!is_cpu_device()) SKIP_TEST("CUDA need not survive it");
  Arguments arguments;
  REQUIRE(cudaStreamCreate(&arguments.stream) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(arguments.stream) == cudaSuccess);
  const auto before = arguments.outputs();
  for (const Call call : {forward, forward_pair, residual_add, forward_rstd, backward}) {
    CHECK(call(arguments) == RMSNORM_CUDA_ERROR);
    CHECK_THAT(rmsnorm_last_error(), contains("CUDA could not launch the kernel: "));
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  CHECK(arguments.outputs() == before);
}

TEST_CASE("without rows the library makes dweight zeros, and needs no workspace") {
  NEEDS_GPU();
  // Another dimension may be of any size then.
  const auto [batch, heads] = GENERATE(
      std::pair<std::int64_t, std::int64_t>{0, 3},
      std::pair{std::int64_t{0}, std::int64_t{1} << 32},
      std::pair{std::int64_t{1} << 40, std::int64_t{0}});
  Arguments a;
  for (Argument* rows : {&a.x, &a.dy, &a.y}) {
    rows->layout.shape[0] = batch;
    rows->layout.shape[1] = heads;
    rows->view.data = nullptr;
  }
  a.rstd.layout.shape[0] = 0;
  std::size_t bytes = 1;
  CHECK(rmsnorm_backward_workspace_bytes(a.x.pointer, &bytes) == RMSNORM_OK);
  CHECK(bytes == 0);
  a.workspace = nullptr;
  a.workspace_bytes = 0;
  CHECK(forward_rstd(a) == RMSNORM_OK);
  REQUIRE(backward(a) == RMSNORM_OK);
  check_elements(a.dweight, [](std::int64_t, std::int64_t) { return Allowed{0, 0}; });
}

TEST_CASE("without columns the library's passes for training do nothing") {
  NEEDS_GPU();
  Arguments a;
  for (Argument* tensor : {&a.x, &a.dy, &a.y, &a.weight, &a.dweight}) {
    tensor->layout.shape.back() = 0;
  }
  CHECK(forward_rstd(a) == RMSNORM_OK);
  CHECK(backward(a) == RMSNORM_OK);
  CHECK(a.rstd.array.now() == a.rstd.array.before());
}

TEST_CASE("the size of a workspace needs a tensor, and a place to be written to") {
  CHECK(rmsnorm_backward_workspace_bytes(nullptr, nullptr) == RMSNORM_BAD_POINTER);
  CHECK(
      std::string(rmsnorm_last_error()) == "bytes is null: it needs to be where to write a number");
  std::size_t bytes = 0;
  CHECK(rmsnorm_backward_workspace_bytes(nullptr, &bytes) == RMSNORM_BAD_POINTER);
  CHECK(std::string(rmsnorm_last_error()) == "x is null: it needs to be a tensor");
}

TEST_CASE("no exception leaves the library") {
  using rmsnorm::library::status_of;
  CHECK(status_of([] { throw std::bad_alloc(); }) == RMSNORM_OUT_OF_MEMORY);
  CHECK(std::string(rmsnorm_last_error()) == "the computer is out of memory");
  CHECK(status_of([] { throw std::out_of_range("a row too far"); }) == RMSNORM_INTERNAL_ERROR);
  CHECK(std::string(rmsnorm_last_error()) == "a row too far");
  const std::string long_sentence(2000, '.');
  CHECK(status_of([&] { throw std::out_of_range(long_sentence); }) == RMSNORM_INTERNAL_ERROR);
  CHECK(std::string(rmsnorm_last_error()) == std::string(511, '.'));
}

TEST_CASE("threads may call the library at the same time, each on a stream of its own") {
  NEEDS_GPU();
  if (is_cpu_device()) SKIP_TEST("the CPU device has one thread");
  // Rows for each kernel, and some that one kernel keeps in blocks with shared memory of different
  // sizes.
  constexpr std::array<std::int64_t, 8> kColumns{64, 769, 4096, 20000, 40000, 131072, 300000, 4096};
  constexpr int kCalls = 1000, kRounds = 20;
  std::array<int, kColumns.size()> refused{}, wrong{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    threads.emplace_back([&, i] {
      constexpr std::int64_t kRows = 3;
      const bool is_sum = i % 4 == 3;
      Layout at = contiguous({kRows, kColumns[i]}, i % 2 == 0 ? 0 : 1);
      const DeviceTensor x(Dtype::bf16, at, 8), y(Dtype::bf16, at, 9);
      const DeviceTensor residual(Dtype::bf16, at, 10);
      const std::vector<std::byte> y_before = y.array.bytes(), sum_before = residual.array.bytes();
      cudaStream_t stream = nullptr;
      refused[i] += cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess;
      const auto call = [&](cudaStream_t on) {
        const rmsnorm_status status =
            is_sum ? rmsnorm_residual_add(&x.view, &residual.view, nullptr, &y.view, 0, 0, on)
                   : rmsnorm_forward(&x.view, nullptr, &y.view, 0, 0, on);
        refused[i] += status != RMSNORM_OK;
      };
      std::vector<std::byte> y_expected, sum_expected;
      for (int round = 0; round <= kRounds; ++round) {  // the first on the default stream
        y.array.fill(y_before);
        residual.array.fill(sum_before);
        refused[i] += cudaDeviceSynchronize() != cudaSuccess;
        for (int k = 0; k < kCalls / kRounds; ++k) call(round == 0 ? nullptr : stream);
        refused[i] += cudaStreamSynchronize(stream) != cudaSuccess;
        const std::vector<std::byte> got = y.array.bytes(), sum = residual.array.bytes();
        if (round == 0) y_expected = got, sum_expected = sum;
        wrong[i] += got != y_expected || sum != sum_expected || got == y_before;
      }
      cudaStreamDestroy(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(refused == std::array<int, kColumns.size()>{});
  CHECK(wrong == std::array<int, kColumns.size()>{});
}

TEST_CASE("every thread has its own last error, which a success leaves alone") {
  NEEDS_GPU();
  Arguments arguments;
  arguments.eps = -1;
  REQUIRE(forward(arguments) == RMSNORM_BAD_VALUE);
  const std::string sentence = rmsnorm_last_error();
  std::string of_other = "?";
  std::thread([&] { of_other = rmsnorm_last_error(); }).join();
  CHECK(of_other.empty());
  arguments.eps = 0;
  REQUIRE(forward(arguments) == RMSNORM_OK);
  CHECK(rmsnorm_last_error() == sentence);
}

TEST_CASE("a wrong tensor is refused without a GPU, too") {
  CHECK(rmsnorm_forward(nullptr, nullptr, nullptr, 0, 0, nullptr) == RMSNORM_BAD_POINTER);
  CHECK(std::string(rmsnorm_last_error()) == "x is null: it needs to be a tensor");
}

TEST_CASE("the version is that of the header") {
  CHECK(
      rmsnorm_version() ==
      RMSNORM_VERSION_MAJOR * 10000 + RMSNORM_VERSION_MINOR * 100 + RMSNORM_VERSION_PATCH);
}
