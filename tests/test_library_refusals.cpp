/// \file
/// librmsnorm refuses what it cannot do, with the right status and a sentence, and does nothing.

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "library/call.hpp"
#include "tests/library_mistakes.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

constexpr std::int64_t kHidden = 64;

/// A tensor of the device that can be spoilt.
struct Argument {
  explicit Argument(std::vector<std::int64_t> shape, Dtype dtype, std::uint64_t seed)
      : layout(contiguous(std::move(shape), 8)), array(dtype, 4 * 3 * kHidden + 16, seed) {
    view = view_of(array, layout);
  }
  void say_elements(int code, int bits) {
    view.dtype.code = static_cast<std::uint8_t>(code);
    view.dtype.bits = static_cast<std::uint8_t>(bits);
  }
  Layout layout;
  DeviceArray array;
  DLTensor view;
};

/// Right arguments of all functions.
struct Arguments {
  Argument x{{4, 3, kHidden}, Dtype::bf16, 1};
  Argument weight{{kHidden}, Dtype::bf16, 2};
  Argument y{{4, 3, kHidden}, Dtype::bf16, 3};
  Argument k{{4, 2, kHidden}, Dtype::bf16, 4};
  Argument k_weight{{kHidden}, Dtype::bf16, 5};
  Argument k_out{{4, 2, kHidden}, Dtype::bf16, 6};
  Argument residual{{4, 3, kHidden}, Dtype::bf16, 7};
  float eps = 1e-6f;
  float weight_bias = 0;
  const DLTensor* x_pointer = &x.view;
  const DLTensor* weight_pointer = &weight.view;
  const DLTensor* y_pointer = &y.view;
  const DLTensor* k_pointer = &k.view;
  const DLTensor* k_weight_pointer = &k_weight.view;
  const DLTensor* residual_pointer = &residual.view;
  cudaStream_t stream = nullptr;

  std::vector<const DeviceArray*> outputs() const {
    return {&y.array, &k_out.array, &residual.array};
  }
};

const std::vector<Mistake<Arguments>> kMistakes = {
    // Pointers.
    {RMSNORM_BAD_POINTER, "x is null: it needs to be a tensor",
     [](Arguments& a) { a.x_pointer = nullptr; }},
    {RMSNORM_BAD_POINTER, "y is null: it needs to be a tensor",
     [](Arguments& a) { a.y_pointer = nullptr; }},
    {RMSNORM_BAD_POINTER, "x has no shape: the pointer to it is null",
     [](Arguments& a) { a.x.view.shape = nullptr; }},
    {RMSNORM_BAD_POINTER, "y has 768 elements and no data: the pointer to them is null",
     [](Arguments& a) { a.y.view.data = nullptr; }},
    {RMSNORM_BAD_POINTER, "weight has 64 elements and no data: the pointer to them is null",
     [](Arguments& a) { a.weight.view.data = nullptr; }},

    // Shapes.
    {RMSNORM_BAD_SHAPE,
     "x has 1 dimension: it needs 2, (rows, hidden), or 3, (batch, heads, head_dim)",
     [](Arguments& a) { a.x.view.ndim = 1; }},
    {RMSNORM_BAD_SHAPE,
     "x has 4 dimensions: it needs 2, (rows, hidden), or 3, (batch, heads, head_dim)",
     [](Arguments& a) { a.x.view.ndim = 4; }},
    {RMSNORM_BAD_SHAPE,
     "y has 0 dimensions: it needs 2, (rows, hidden), or 3, (batch, heads, head_dim)",
     [](Arguments& a) { a.y.view.ndim = 0; }},
    {RMSNORM_BAD_SHAPE,
     "x has -2 dimensions: it needs 2, (rows, hidden), or 3, (batch, heads, head_dim)",
     [](Arguments& a) { a.x.view.ndim = -2; }},
    {RMSNORM_BAD_SHAPE, "weight has 2 dimensions: it needs 1, (hidden)",
     [](Arguments& a) {
       a.weight.layout = contiguous({1, kHidden});
       a.weight.view = view_of(a.weight.array, a.weight.layout);
     }},
    {RMSNORM_BAD_SHAPE, "x has the size -4 in dimension 0: it needs 0 or more",
     [](Arguments& a) { a.x.layout.shape[0] = -4; }},
    {RMSNORM_BAD_SHAPE, "x has 1073741825 columns: it needs 1073741824 at most",
     [](Arguments& a) { a.x.layout.shape[2] = (1 << 30) + 1; }},
    {RMSNORM_BAD_SHAPE, "y has the shape (4, 2, 64): it needs that of x, (4, 3, 64)",
     [](Arguments& a) { a.y.layout.shape[1] = 2; }},
    {RMSNORM_BAD_SHAPE, "y has the shape (12, 64): it needs that of x, (4, 3, 64)",
     [](Arguments& a) {
       a.y.layout = contiguous({12, kHidden});
       a.y.view = view_of(a.y.array, a.y.layout);
     }},
    {RMSNORM_BAD_SHAPE, "weight has 63 elements: it needs one for each of the 64 columns of x",
     [](Arguments& a) { a.weight.layout.shape[0] = 63; }},

    // Types.
    {RMSNORM_BAD_DTYPE, "x has elements of int32: they need to be float32, float16 or bfloat16",
     [](Arguments& a) { a.x.say_elements(kDLInt, 32); }},
    {RMSNORM_BAD_DTYPE, "x has elements of float64: they need to be float32, float16 or bfloat16",
     [](Arguments& a) { a.x.say_elements(kDLFloat, 64); }},
    {RMSNORM_BAD_DTYPE, "x has elements of bfloat32: they need to be float32, float16 or bfloat16",
     [](Arguments& a) { a.x.say_elements(kDLBfloat, 32); }},
    {RMSNORM_BAD_DTYPE,
     "y has elements of DLPack's type code 10 with 8 bits: they need to be "
     "float32, float16 or bfloat16",
     [](Arguments& a) { a.y.say_elements(10, 8); }},
    {RMSNORM_BAD_DTYPE, "x has elements of 2 lanes: they need to be single numbers",
     [](Arguments& a) { a.x.view.dtype.lanes = 2; }},
    {RMSNORM_BAD_DTYPE, "y has elements of float16: it needs those of x, bfloat16",
     [](Arguments& a) { a.y.view.dtype = dl_type(Dtype::fp16); }},
    {RMSNORM_BAD_DTYPE, "weight has elements of float16: it needs float32 or x's type, bfloat16",
     [](Arguments& a) { a.weight.view.dtype = dl_type(Dtype::fp16); }},

    // Devices.
    {RMSNORM_BAD_DEVICE, "x is on the CPU: it needs to be on a CUDA device",
     [](Arguments& a) { a.x.view.device.device_type = kDLCPU; }},
    {RMSNORM_BAD_DEVICE,
     "weight is on the CPU (page-locked memory): it needs to be on a CUDA device",
     [](Arguments& a) { a.weight.view.device.device_type = kDLCUDAHost; }},
    {RMSNORM_BAD_DEVICE, "y is on a device of DLPack's type 7: it needs to be on a CUDA device",
     [](Arguments& a) { a.y.view.device.device_type = kDLVulkan; }},
    {RMSNORM_BAD_DEVICE, "y is on CUDA device 1, x on 0: they need to be on the same",
     [](Arguments& a) { a.y.view.device.device_id = 1; }},
    {RMSNORM_BAD_DEVICE, "weight is on CUDA device 1, x on 0: they need to be on the same",
     [](Arguments& a) { a.weight.view.device.device_id = 1; }},
    {RMSNORM_BAD_DEVICE, "x is on CUDA device -1: ",
     [](Arguments& a) {
       for (DLTensor* view : {&a.x.view, &a.weight.view, &a.y.view, &a.residual.view}) {
         view->device.device_id = -1;
       }
     }},
    {RMSNORM_BAD_DEVICE, "x is on CUDA device 1000: ",
     [](Arguments& a) {
       for (DLTensor* view : {&a.x.view, &a.weight.view, &a.y.view, &a.residual.view}) {
         view->device.device_id = 1000;
       }
     }},
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
    {RMSNORM_BAD_DEVICE,
     "y begins at the address 0xfffffffffffffffe: that is not in the memory of CUDA device 0",
     [](Arguments& a) {
       a.y.view.byte_offset = 0xfffffffffffffffe - reinterpret_cast<std::uintptr_t>(a.y.view.data);
     }},

    // Strides.
    {RMSNORM_BAD_STRIDES,
     "x has the stride 2 in its last dimension: it needs 1, columns side by side",
     [](Arguments& a) { a.x.layout.strides[2] = 2; }},
    {RMSNORM_BAD_STRIDES,
     "y has the stride 0 in its last dimension: it needs 1, columns side by side",
     [](Arguments& a) { a.y.layout.strides[2] = 0; }},
    {RMSNORM_BAD_STRIDES,
     "weight has the stride -1 in its last dimension: it needs 1, columns side by side",
     [](Arguments& a) { a.weight.layout.strides[0] = -1; }},
    {RMSNORM_BAD_STRIDES, "y has the strides 192 and 63, with which its rows overlap",
     [](Arguments& a) { a.y.layout.strides[1] = 63; }},
    {RMSNORM_BAD_STRIDES, "y has the strides 191 and 64, with which its rows overlap",
     [](Arguments& a) { a.y.layout.strides[0] = 191; }},
    {RMSNORM_BAD_STRIDES, "y has the strides 0 and 64, with which its rows overlap",
     [](Arguments& a) { a.y.layout.strides[0] = 0; }},
    {RMSNORM_BAD_STRIDES,
     "y has the stride 63, with which its rows of 64 columns overlap: each needs its own memory",
     [](Arguments& a) {
       for (Argument* part : {&a.x, &a.y}) {
         part->layout = {{4, kHidden}, {63, 1}, 0};
         part->view = view_of(part->array, part->layout);
       }
     }},
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

    // Addresses.
    {RMSNORM_BAD_ALIGNMENT, ": bfloat16 needs a multiple of 2",
     [](Arguments& a) { a.x.view.byte_offset = 1; }},
    {RMSNORM_BAD_ALIGNMENT, ": bfloat16 needs a multiple of 2",
     [](Arguments& a) { a.y.view.byte_offset = 17; }},
    {RMSNORM_BAD_ALIGNMENT, ": float32 needs a multiple of 4",
     [](Arguments& a) {
       a.weight.view.dtype = dl_type(Dtype::fp32);
       a.weight.view.byte_offset = 2;
     }},

    // Overlaps.
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

    // Numbers.
    {RMSNORM_BAD_VALUE, "eps is -1: it needs to be finite and not negative",
     [](Arguments& a) { a.eps = -1; }},
    {RMSNORM_BAD_VALUE, "eps is nan: it needs to be finite and not negative",
     [](Arguments& a) { a.eps = NAN; }},
    {RMSNORM_BAD_VALUE, "eps is inf: it needs to be finite and not negative",
     [](Arguments& a) { a.eps = INFINITY; }},
    {RMSNORM_BAD_VALUE, "weight_bias is -inf: it needs to be finite",
     [](Arguments& a) { a.weight_bias = -INFINITY; }},
    {RMSNORM_BAD_VALUE, "weight_bias is 1, and weight null: it needs to be 0",
     [](Arguments& a) {
       a.weight_pointer = nullptr;
       a.weight_bias = 1;
     }},
};

/// Mistakes that only two tensors make possible; x is q here.
const std::vector<Mistake<Arguments>> kMistakesOfPairs = {
    {RMSNORM_BAD_POINTER, "k is null: it needs to be a tensor",
     [](Arguments& a) { a.k_pointer = nullptr; }},
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
       a.weight_pointer = nullptr;
       a.weight_bias = -0.5f;
     }},
    {RMSNORM_BAD_VALUE, "weight_bias is -0.5, and k_weight null: it needs to be 0",
     [](Arguments& a) {
       a.k_weight_pointer = nullptr;
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
const std::vector<Mistake<Arguments>> kMistakesOfResiduals = {
    {RMSNORM_BAD_POINTER, "residual is null: it needs to be a tensor",
     [](Arguments& a) { a.residual_pointer = nullptr; }},
    {RMSNORM_BAD_SHAPE, "residual has the shape (4, 2, 64): it needs that of x, (4, 3, 64)",
     [](Arguments& a) { a.residual.layout.shape[1] = 2; }},
    {RMSNORM_BAD_SHAPE, "x has 49153 columns: with a residual it needs 49152 at most",
     [](Arguments& a) {
       for (Argument* part : {&a.x, &a.residual, &a.y}) {
         part->layout = contiguous({1, 49153});
         part->view = view_of(part->array, part->layout);
       }
       a.weight_pointer = nullptr;
     }},
    {RMSNORM_BAD_DTYPE, "residual has elements of float16: it needs those of x, bfloat16",
     [](Arguments& a) { a.residual.view.dtype = dl_type(Dtype::fp16); }},
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

rmsnorm_status forward(const Arguments& a) {
  return rmsnorm_forward(
      a.x_pointer, a.weight_pointer, a.y_pointer, a.eps, a.weight_bias, a.stream);
}

rmsnorm_status forward_pair(const Arguments& a) {
  return rmsnorm_forward_pair(
      a.x_pointer, a.weight_pointer, a.y_pointer, a.k_pointer, a.k_weight_pointer, &a.k_out.view,
      a.eps, a.weight_bias, a.stream);
}

rmsnorm_status residual_add(const Arguments& a) {
  return rmsnorm_residual_add(
      a.x_pointer, a.residual_pointer, a.weight_pointer, a.y_pointer, a.eps, a.weight_bias,
      a.stream);
}

}  // namespace

TEST_CASE("each wrong tensor or number is refused with its status and a sentence") {
  NEEDS_GPU();
  check_mistakes(kMistakes, forward);
}

TEST_CASE("each wrong pair is refused with its status and a sentence") {
  NEEDS_GPU();
  check_mistakes(kMistakesOfPairs, forward_pair);
}

TEST_CASE("each wrong residual is refused with its status and a sentence") {
  NEEDS_GPU();
  check_mistakes(kMistakes, residual_add);
  check_mistakes(kMistakesOfResiduals, residual_add);
}

TEST_CASE("a stream that does not exist is CUDA's error") {
  NEEDS_GPU();
  if (!is_cpu_device()) SKIP_TEST("CUDA need not survive it");
  Arguments arguments;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  arguments.stream = stream;
  const auto before = now(arguments.outputs());
  for (const auto& call : {forward, forward_pair, residual_add}) {
    CHECK(call(arguments) == RMSNORM_CUDA_ERROR);
    CHECK_THAT(rmsnorm_last_error(), contains("CUDA could not launch the kernel: "));
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  CHECK(now(arguments.outputs()) == before);
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

TEST_CASE("threads may call the library at the same time") {
  NEEDS_GPU();
  if (is_cpu_device()) SKIP_TEST("the CPU device has one thread");
  // Rows that one kernel keeps in shared memory, in blocks with different sizes of it.
  constexpr std::array<std::int64_t, 4> kColumns{70000, 80000, 100000, 131072};
  std::array<int, kColumns.size()> failed{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    threads.emplace_back([&, i] {
      Layout at = contiguous({2, kColumns[i]});
      const DeviceArray x(Dtype::bf16, 2 * kColumns[i], 8);
      const DeviceArray y(Dtype::bf16, 2 * kColumns[i], 9);
      const DLTensor from = view_of(x, at), to = view_of(y, at);
      for (int k = 0; k < 1000; ++k) {
        failed[i] += rmsnorm_forward(&from, nullptr, &to, 0, 0, nullptr) != RMSNORM_OK;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == std::array<int, kColumns.size()>{});
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
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
