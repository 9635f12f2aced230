/// \file
/// librmsnorm's passes for training: they are right for every layout that they take, and refuse all
/// else.

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/contract/registry.hpp"
#include "common/operations/backward.hpp"
#include "common/verify/verifier.hpp"
#include "tests/library_mistakes.hpp"

using namespace rmsnorm;
using tests::check_mistakes;
using tests::contains;
using tests::contiguous;
using tests::DeviceArray;
using tests::dl_type;
using tests::Layout;
using tests::Mistake;

namespace {

/// Lengths for one thread a row and many, one vector a thread and several, rows in parts, tails.
constexpr int kHidden[] = {1, 8, 33, 64, 128, 264, 520, 1000, 2056, 4096, 8200, 12288, 20000};

/// A contiguous tensor of the device, as DLPack has it. No copies: the view points into it.
struct Contiguous {
  Contiguous(const void* data, Dtype dtype, std::vector<std::int64_t> sizes)
      : layout(contiguous(std::move(sizes))) {
    view.data = const_cast<void*>(data);
    view.device = {kDLCUDA, 0};
    view.ndim = static_cast<int>(layout.shape.size());
    view.dtype = dl_type(dtype);
    view.shape = layout.shape.data();
    view.strides = layout.strides.data();
  }
  Contiguous(const Contiguous&) = delete;
  const DLTensor* or_null() const { return view.data == nullptr ? nullptr : &view; }
  Layout layout;
  DLTensor view{};
};

std::size_t workspace_bytes_of_library(const Backward& p) {
  const Contiguous x(p.x, p.dtype, {p.rows, p.hidden});
  std::size_t bytes = 0;
  REQUIRE(rmsnorm_backward_workspace_bytes(&x.view, &bytes) == RMSNORM_OK);
  return bytes;
}

/// The library's backward pass in a lesson's place.
cudaError_t launch_library(const Backward& p, cudaStream_t stream) {
  const Contiguous x(p.x, p.dtype, {p.rows, p.hidden}), dy(p.dy, p.dtype, {p.rows, p.hidden}),
      weight(p.weight, p.weight_dtype, {p.hidden}), rstd(p.rstd, Dtype::fp32, {p.rows}),
      dx(p.dx, p.dtype, {p.rows, p.hidden}), dweight(p.dweight, p.weight_dtype, {p.hidden});
  const rmsnorm_status status = rmsnorm_backward(
      &dy.view, &x.view, weight.or_null(), &rstd.view, &dx.view, dweight.or_null(), p.workspace,
      workspace_bytes_of_library(p), p.weight_bias, stream);
  UNSCOPED_INFO(rmsnorm_last_error());
  return status == RMSNORM_OK ? cudaSuccess : cudaErrorInvalidValue;
}

/// librmsnorm as it is registered for an operation.
Implementation registered_library(const std::string& operation) {
  for (const Implementation& library : find_implementations(all_implementations(), "librmsnorm")) {
    if (library.operation->name == operation) return library;
  }
  throw std::logic_error("librmsnorm does no " + operation);
}

/// Its backward pass, through the C interface.
Implementation library_backward() {
  Implementation library = registered_library("backward");
  library.launch = [](const Problem& p, cudaStream_t stream) {
    return launch_library(Description<Backward>::view(p), stream);
  };
  library.workspace_bytes = [](const Problem& p) {
    return workspace_bytes_of_library(Description<Backward>::view(p));
  };
  return library;
}

/// A tensor that can be spoilt.
struct Argument {
  Argument(std::vector<std::int64_t> shape, Dtype dtype, std::uint64_t seed)
      : array(dtype, 1024, seed), tensor(array.data(), dtype, std::move(shape)) {}
  DeviceArray array;
  Contiguous tensor;
  const DLTensor* pointer = &tensor.view;
};

/// Right arguments of all three functions: y is dx's place in the forward pass.
struct Arguments {
  Argument x{{4, 3, 64}, Dtype::bf16, 1};
  Argument dy{{4, 3, 64}, Dtype::bf16, 2};
  Argument weight{{64}, Dtype::bf16, 3};
  Argument rstd{{12}, Dtype::fp32, 4};
  Argument output{{4, 3, 64}, Dtype::bf16, 5};
  Argument dweight{{64}, Dtype::bf16, 6};
  DeviceArray memory{Dtype::fp32, 1 << 16, 7};
  void* workspace = memory.data();
  std::size_t workspace_bytes = (1 << 16) * sizeof(float);
  float eps = 1e-6f;
  float weight_bias = 0;
  cudaStream_t stream = nullptr;

  std::vector<const DeviceArray*> outputs() const {
    return {&output.array, &rstd.array, &dweight.array};
  }
};

rmsnorm_status forward(const Arguments& a) {
  return rmsnorm_forward_rstd(
      a.x.pointer, a.weight.pointer, a.output.pointer, a.rstd.pointer, a.eps, a.weight_bias,
      a.stream);
}

rmsnorm_status backward_of(const Arguments& a) {
  return rmsnorm_backward(
      a.dy.pointer, a.x.pointer, a.weight.pointer, a.rstd.pointer, a.output.pointer,
      a.dweight.pointer, a.workspace, a.workspace_bytes, a.weight_bias, a.stream);
}

const std::vector<Mistake<Arguments>> kMistakes = {
    {RMSNORM_BAD_POINTER, "x is null: it needs to be a tensor",
     [](Arguments& a) { a.x.pointer = nullptr; }},
    {RMSNORM_BAD_POINTER, "rstd is null: it needs to be a tensor",
     [](Arguments& a) { a.rstd.pointer = nullptr; }},
    {RMSNORM_BAD_SHAPE, "x needs 1073741824 rows at most, and has more",
     [](Arguments& a) { a.x.tensor.layout.shape[0] = 1 << 30; }},
    {RMSNORM_BAD_SHAPE, "rstd has 11 elements: it needs one for each of the 12 rows of x",
     [](Arguments& a) { a.rstd.tensor.layout.shape[0] = 11; }},
    {RMSNORM_BAD_SHAPE, "rstd has 2 dimensions: it needs 1, (rows)",
     [](Arguments& a) { a.rstd.tensor.view.ndim = 2; }},
    {RMSNORM_BAD_SHAPE, "weight has 63 elements: it needs one for each of the 64 columns of x",
     [](Arguments& a) { a.weight.tensor.layout.shape[0] = 63; }},
    {RMSNORM_BAD_DTYPE, "rstd has elements of bfloat16: it needs float32",
     [](Arguments& a) { a.rstd.tensor.view.dtype = dl_type(Dtype::bf16); }},
    {RMSNORM_BAD_DEVICE, "rstd is on CUDA device 1, x on 0: they need to be on the same",
     [](Arguments& a) { a.rstd.tensor.view.device.device_id = 1; }},
    {RMSNORM_BAD_DEVICE, "rstd begins at the address ",
     [](Arguments& a) {
       static float host[12];
       a.rstd.tensor.view.data = host;
     }},
    {RMSNORM_BAD_VALUE, "weight_bias is nan: it needs to be finite",
     [](Arguments& a) { a.weight_bias = NAN; }},
    {RMSNORM_BAD_VALUE, "weight_bias is 1, and weight null: it needs to be 0",
     [](Arguments& a) {
       a.weight.pointer = nullptr;
       a.weight_bias = 1;
     }},
};

/// Those of the forward pass alone.
const std::vector<Mistake<Arguments>> kMistakesOfForward = {
    {RMSNORM_BAD_SHAPE, "y has the shape (4, 3, 32): it needs that of x, (4, 3, 64)",
     [](Arguments& a) { a.output.tensor.layout.shape[2] = 32; }},
    {RMSNORM_BAD_STRIDES, "y has the strides 0 and 64, with which its rows overlap",
     [](Arguments& a) { a.output.tensor.layout.strides[0] = 0; }},
    {RMSNORM_BAD_OVERLAP, "y shares memory with x: an output needs memory of its own",
     [](Arguments& a) { a.output.pointer = a.x.pointer; }},
    {RMSNORM_BAD_OVERLAP, "y shares memory with weight: an output needs memory of its own",
     [](Arguments& a) { a.weight.tensor.view.data = a.output.tensor.view.data; }},
    {RMSNORM_BAD_OVERLAP, "rstd shares memory with x: an output needs memory of its own",
     [](Arguments& a) { a.rstd.tensor.view.data = a.x.tensor.view.data; }},
    {RMSNORM_BAD_OVERLAP, "rstd shares memory with y: an output needs memory of its own",
     [](Arguments& a) { a.rstd.tensor.view.data = a.output.tensor.view.data; }},
    {RMSNORM_BAD_VALUE, "eps is -1: it needs to be finite and not negative",
     [](Arguments& a) { a.eps = -1; }},
};

/// Those of the backward pass alone.
const std::vector<Mistake<Arguments>> kMistakesOfBackward = {
    {RMSNORM_BAD_SHAPE, "dx has the shape (4, 3, 32): it needs that of x, (4, 3, 64)",
     [](Arguments& a) { a.output.tensor.layout.shape[2] = 32; }},
    {RMSNORM_BAD_DTYPE, "dy has elements of float16: it needs those of x, bfloat16",
     [](Arguments& a) { a.dy.tensor.view.dtype = dl_type(Dtype::fp16); }},
    {RMSNORM_BAD_STRIDES, "dx has the strides 192 and 63, with which its rows overlap",
     [](Arguments& a) { a.output.tensor.layout.strides[1] = 63; }},
    {RMSNORM_BAD_SHAPE, "dweight has 63 elements: it needs one for each of the 64 columns of x",
     [](Arguments& a) { a.dweight.tensor.layout.shape[0] = 63; }},
    {RMSNORM_BAD_DTYPE, "dweight has elements of float32: it needs those of weight, bfloat16",
     [](Arguments& a) { a.dweight.tensor.view.dtype = dl_type(Dtype::fp32); }},
    {RMSNORM_BAD_OVERLAP, "dx shares memory with dy: an output needs memory of its own",
     [](Arguments& a) { a.output.pointer = a.dy.pointer; }},
    {RMSNORM_BAD_OVERLAP, "dx shares memory with x: an output needs memory of its own",
     [](Arguments& a) { a.output.pointer = a.x.pointer; }},
    {RMSNORM_BAD_OVERLAP, "dweight shares memory with weight: an output needs memory of its own",
     [](Arguments& a) { a.dweight.pointer = a.weight.pointer; }},
    {RMSNORM_BAD_OVERLAP, "dweight shares memory with dx: an output needs memory of its own",
     [](Arguments& a) { a.dweight.tensor.view.data = a.output.tensor.view.data; }},
    {RMSNORM_BAD_OVERLAP, "workspace shares memory with rstd: an output needs memory of its own",
     [](Arguments& a) { a.rstd.tensor.view.data = a.workspace; }},
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

/// An array with a layout in it, and the view of that.
struct Laid {
  Laid(Dtype dtype, Layout at, std::uint64_t seed)
      : layout(std::move(at)),
        array(dtype, tests::size_for(layout), seed),
        view(tests::view_of(array, layout)) {}
  Laid(const Laid&) = delete;
  float before(std::int64_t row, std::int64_t col) const {
    return array.before()[layout.row(row) + col];
  }
  Layout layout;
  DeviceArray array;
  DLTensor view;
};

/// A value, and how far a result may be from it.
struct Expected {
  double value, allowed;
};

/// Checks each element of the layout, and that no other has changed.
template <class Function>
void check_elements(const Laid& got, const Function& expected) {
  std::vector<float> now = got.array.now();
  int wrong = 0;
  for (std::int64_t row = 0; row < got.layout.rows(); ++row) {
    for (std::int64_t col = 0; col < got.layout.hidden(); ++col) {
      float& element = now[got.layout.row(row) + col];
      const Expected is = expected(row, col);
      if (!(std::abs(element - is.value) <= is.allowed) && wrong++ == 0) {
        UNSCOPED_INFO(row << ", " << col << ": " << element << " instead of " << is.value);
      }
      element = got.before(row, col);
    }
  }
  CHECK(wrong == 0);
  CHECK(now == got.array.before());
}

/// Both passes on tensors that lie like this.
void check_layouts(Types types, Layout x_at, Layout dy_at, Layout y_at, Layout dx_at) {
  constexpr float kEps = 0x1p-10f;
  const std::int64_t rows = x_at.rows(), hidden = x_at.hidden();
  const Dtype weight_dtype = types.weight.value_or(types.dtype);
  const Laid x(types.dtype, x_at, 1), dy(types.dtype, dy_at, 2), y(types.dtype, y_at, 3),
      dx(types.dtype, dx_at, 4), weight(weight_dtype, contiguous({hidden}), 5),
      dweight(weight_dtype, contiguous({hidden}), 6), rstd(Dtype::fp32, contiguous({rows}), 7);
  const DLTensor* const factors = types.weight ? &weight.view : nullptr;
  REQUIRE(
      rmsnorm_forward_rstd(&x.view, factors, &y.view, &rstd.view, kEps, 0, nullptr) == RMSNORM_OK);
  std::size_t bytes = 0;
  REQUIRE(rmsnorm_backward_workspace_bytes(&x.view, &bytes) == RMSNORM_OK);
  const DeviceArray workspace(Dtype::fp32, static_cast<std::int64_t>(bytes / sizeof(float)), 8);
  REQUIRE(
      rmsnorm_backward(
          &dy.view, &x.view, factors, &rstd.view, &dx.view, &dweight.view, workspace.data(), bytes,
          0, nullptr) == RMSNORM_OK);
  CHECK(take_hazards() == std::vector<std::string>());

  const double fp32 = 200 * 0x1p-24;  // no sum here has more additions
  const auto allowed = [&](double value, double size, Dtype dtype) {
    return fp32 * size + 1.01 * rounding_error(dtype) * std::abs(value) + 0x1p-24;
  };
  const std::vector<float> rstds = rstd.array.now();
  std::vector<double> means(rows), mean_sizes(rows), dweights(hidden), dweight_sizes(hidden);
  const auto factor = [&](std::int64_t col) { return types.weight ? weight.before(0, col) : 1.0f; };
  const auto n = [&](std::int64_t row, std::int64_t col) {
    return double{x.before(row, col)} * rstds[row];
  };
  const auto g = [&](std::int64_t row, std::int64_t col) {
    return double{dy.before(row, col)} * factor(col);
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (std::int64_t col = 0; col < hidden; ++col) {
      squares += double{x.before(row, col)} * x.before(row, col);
      const double product = g(row, col) * n(row, col);
      means[row] += product / hidden;
      mean_sizes[row] += std::abs(product) / hidden;
      const double of_weight = dy.before(row, col) * n(row, col);
      dweights[col] += of_weight;
      dweight_sizes[col] += std::abs(of_weight);
    }
    const double expected = reference_rstd(squares, static_cast<int>(hidden), kEps);
    CHECK(std::abs(rstds[row] - expected) <= fp32 * expected);
  }
  check_elements(y, [&](std::int64_t row, std::int64_t col) -> Expected {
    const double value = n(row, col) * factor(col);
    return {value, allowed(value, std::abs(value), types.dtype)};
  });
  check_elements(dx, [&](std::int64_t row, std::int64_t col) -> Expected {
    const double value = rstds[row] * (g(row, col) - n(row, col) * means[row]);
    const double size =
        rstds[row] * (std::abs(g(row, col)) + std::abs(n(row, col)) * mean_sizes[row]);
    return {value, allowed(value, size, types.dtype)};
  });
  check_elements(dweight, [&](std::int64_t, std::int64_t col) -> Expected {
    return {dweights[col], allowed(dweights[col], dweight_sizes[col], weight_dtype)};
  });
}

}  // namespace

TEST_CASE("the library's backward pass is right for rows of any length, in every type") {
  NEEDS_GPU();
  const Implementation library = library_backward();
  for (const int hidden : kHidden) {
    for (Types types : all_types()) {
      if (types.weight) types.weight_bias = 1;
      for (const int misalign : {0, 1}) {
        const int rows = hidden > 1000 ? 7 : 70;
        CAPTURE(to_string(types), rows, hidden, misalign);
        const Workload workload(
            *library.operation,
            {.rows = rows, .hidden = hidden, .misalign = misalign, .types = types});
        CHECK(verify(library, workload, nullptr, Watch::yes).complaint == "");
      }
    }
  }
}

TEST_CASE("the library's backward pass is right on many rows of every kind") {
  NEEDS_GPU();
  const Implementation library = library_backward();
  for (const Shape wanted :
       {Shape{1000, 128}, Shape{777, 256}, Shape{70000, 8}, Shape{3000, 520}, Shape{16384, 4096},
        Shape{2000, 16384}, Shape{300, 40000}}) {
    const Shape shape = tests::in_time(wanted.rows, wanted.hidden);
    if (!is_cpu_device() && !tests::fits_on_gpu(2 * shape.rows, shape.hidden)) continue;
    for (const char* const name : {"fp32", "bf16"}) {
      CAPTURE(name, shape.rows, shape.hidden);
      const Workload workload(
          *library.operation,
          {.rows = shape.rows, .hidden = shape.hidden, .types = *types_named(name)});
      CHECK(verify(library, workload).complaint == "");
    }
  }
}

TEST_CASE("the library's backward pass is right beyond 2^31 elements") {
  NEEDS_GPU();
  if (is_cpu_device()) SKIP_TEST("it would take the CPU device minutes");
  const Implementation library = library_backward();
  for (const Shape shape : {Shape{4194305, 513}, Shape{4194305, 512}}) {
    if (!tests::fits_on_gpu(2 * shape.rows, shape.hidden)) continue;
    const Workload workload(
        *library.operation,
        {.rows = shape.rows, .hidden = shape.hidden, .types = *types_named("bf16")});
    CHECK(verify(library, workload).complaint == "");
  }
}

TEST_CASE("without a dweight the library writes dx alone") {
  NEEDS_GPU();
  const Implementation library = library_backward();
  for (const int hidden : {128, 4096, 20000}) {
    const Workload workload(*library.operation, {.rows = 9, .hidden = hidden});
    const GuardedTensor workspace =
        make_workspace(Memory::device, library.workspace_bytes(workload.problem()));
    Problem p = workload.problem();
    const int dweight = library.operation->index_of("dweight");
    p.workspace = workspace.data();
    p.tensors[dweight] = nullptr;
    cuda_check(library.launch(p, nullptr), "launching");
    cuda_check(cudaDeviceSynchronize(), "running");
    // The comparison would look for a dweight where there is a weight.
    Problem compared = workload.problem();
    const Problem before = workload.before();
    const std::vector<float> unwritten = workload.tensor("dweight").values();
    CHECK(is_poison(unwritten.at(0)));
    const Mismatch first =
        library.operation->compare_on_device(before, compared, library.sum_depth(p))
            .mismatch.value();
    CHECK(first.tensor == std::string("dweight"));  // all of dx is right
  }
}

TEST_CASE("the library's forward pass of training gives y and rstd") {
  NEEDS_GPU();
  const Implementation library = registered_library("rms_norm");
  for (const int hidden : kHidden) {
    for (const Types& types : all_types()) {
      for (const int misalign : {0, 1}) {
        constexpr int kRows = 7;
        const Workload workload(
            *library.operation, {.rows = kRows,
                                 .hidden = hidden,
                                 .eps = misalign ? 1.0f : 1e-5f,
                                 .misalign = misalign,
                                 .types = types});
        const Problem problem = workload.problem();
        const TypedRmsNorm p = Description<TypedRmsNorm>::view(problem);
        const GuardedTensor rstd(Memory::device, Dtype::fp32, kRows, 1, 0);
        rstd.fill(Content::poison);
        const Contiguous x(p.x, p.dtype, {kRows, hidden}),
            weight(p.weight, p.weight_dtype, {hidden}), y(p.y, p.dtype, {kRows, hidden}),
            to(rstd.data(), Dtype::fp32, {kRows});
        CAPTURE(to_string(types), hidden, misalign);
        REQUIRE(
            rmsnorm_forward_rstd(
                &x.view, weight.or_null(), &y.view, &to.view, p.eps, p.weight_bias, nullptr) ==
            RMSNORM_OK);
        const SumDepth depth = library.sum_depth(problem);
        cuda_check(cudaDeviceSynchronize(), "running");
        CHECK(!library.operation->compare_on_device(workload.before(), problem, depth).mismatch);
        CHECK(complaint_about_guards(rstd, "rstd", "rows") == "");
        const std::vector<float> got = to_floats(rstd.data(), Dtype::fp32, kRows);
        const std::vector<float> values = to_floats(p.x, p.dtype, std::size_t{kRows} * hidden);
        for (int row = 0; row < kRows; ++row) {
          const float* const from = values.data() + std::size_t(row) * hidden;
          double squares = 0;
          for (int col = 0; col < hidden; ++col) squares += double{from[col]} * from[col];
          const double expected = reference_rstd(squares, hidden, p.eps);
          CHECK(std::abs(got[row] - expected) <= rms_norm_bound(depth.row, {}) * expected);
        }
      }
    }
  }
}

TEST_CASE("the library's passes for training take rows in any layout") {
  NEEDS_GPU();
  std::mt19937 random(20261123);
  const auto draw = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  const std::vector<Types> all = all_types();
  for (int i = 0; i < 120; ++i) {
    const int unit = draw(0, 2) == 0 ? 1 : 8;
    const int hidden = i % 40 == 0      ? 20000  // in parts
                       : draw(0, 3) > 0 ? unit * draw(1, 300 / unit)
                                        : unit * draw(1, 5000 / unit);
    const int outer = draw(1, 40), inner = draw(1, hidden > 300 ? 4 : 20);
    const Types& types = all[draw(0, static_cast<int>(all.size()) - 1)];
    const auto layout = [&](bool is_output) {
      return tests::random_layout(random, outer, inner, hidden, unit, is_output);
    };
    CAPTURE(to_string(types), outer, inner, hidden, unit);
    check_layouts(types, layout(false), layout(false), layout(true), layout(true));
  }
}

TEST_CASE("without rows the library makes dweight zeros, and needs no workspace") {
  NEEDS_GPU();
  Arguments a;
  for (Argument* rows : {&a.x, &a.dy, &a.output}) {
    rows->tensor.layout.shape[0] = 0;
    rows->tensor.view.data = nullptr;
  }
  a.rstd.tensor.layout.shape[0] = 0;
  std::size_t bytes = 1;
  CHECK(rmsnorm_backward_workspace_bytes(a.x.pointer, &bytes) == RMSNORM_OK);
  CHECK(bytes == 0);
  a.workspace = nullptr;
  a.workspace_bytes = 0;
  CHECK(forward(a) == RMSNORM_OK);
  REQUIRE(backward_of(a) == RMSNORM_OK);
  const std::vector<float> dweight = a.dweight.array.now();
  for (int col = 0; col < 64; ++col) CHECK(dweight[col] == 0);
}

TEST_CASE("without columns the library's passes for training do nothing") {
  NEEDS_GPU();
  Arguments a;
  for (Argument* tensor : {&a.x, &a.dy, &a.output, &a.weight, &a.dweight}) {
    tensor->tensor.layout.shape.back() = 0;
  }
  CHECK(forward(a) == RMSNORM_OK);
  CHECK(backward_of(a) == RMSNORM_OK);
  CHECK(a.rstd.array.now() == a.rstd.array.before());
}

TEST_CASE("each wrong argument of a pass for training is refused with its status and a sentence") {
  NEEDS_GPU();
  check_mistakes(kMistakes, forward);
  check_mistakes(kMistakes, backward_of);
  check_mistakes(kMistakesOfForward, forward);
  check_mistakes(kMistakesOfBackward, backward_of);
}

TEST_CASE("a pass for training on a stream that does not exist is CUDA's error") {
  NEEDS_GPU();
  if (!is_cpu_device()) SKIP_TEST("CUDA need not survive it");
  Arguments arguments;
  REQUIRE(cudaStreamCreate(&arguments.stream) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(arguments.stream) == cudaSuccess);
  for (const auto& call : {forward, backward_of}) {
    CHECK(call(arguments) == RMSNORM_CUDA_ERROR);
    CHECK_THAT(rmsnorm_last_error(), contains("CUDA could not launch the kernel: "));
    CHECK(cudaGetLastError() == cudaSuccess);
  }
}

TEST_CASE("the size of a workspace needs a tensor, and a place to be written to") {
  CHECK(rmsnorm_backward_workspace_bytes(nullptr, nullptr) == RMSNORM_BAD_POINTER);
  CHECK(
      std::string(rmsnorm_last_error()) == "bytes is null: it needs to be where to write a number");
  std::size_t bytes = 0;
  CHECK(rmsnorm_backward_workspace_bytes(nullptr, &bytes) == RMSNORM_BAD_POINTER);
  CHECK(std::string(rmsnorm_last_error()) == "x is null: it needs to be a tensor");
}
