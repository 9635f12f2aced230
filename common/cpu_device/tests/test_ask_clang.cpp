/// \file
/// What clang is asked about a CUDA file: ask_clang.sh and cuda_words.hpp of the CPU device.

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/files.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace tests;

namespace {

const fs::path kDevice = top() / "common/cpu_device";

Finished ask_about(const fs::path& file, const std::string& clang = "clang++") {
  const std::string script = kDevice / "compiler/ask_clang.sh";
  return run_without_gpu({"env", "CLANG=" + clang, script, file, "-I" + top().string()});
}

/// What is said of a source, whose file is k.cu.
std::string said_of(const std::string& source) {
  const TemporaryFolder folder;
  rmsnorm::write_file(folder / "k.cu", "#include <cuda_runtime.h>\n" + source);
  const Finished finished = ask_about(folder / "k.cu");
  std::string text = finished.out;
  for (std::size_t at = 0; (at = text.find(folder / "")) != text.npos;) {
    text.erase(at, (folder / "").string().size());
  }
  CHECK(finished.exit_code == (text.empty() ? 0 : 1));
  return text;
}

}  // namespace

#define NEEDS_CLANG \
  if (run_without_gpu({"clang++", "--version"}).exit_code != 0) SKIP_TEST("there is no clang++")

TEST_CASE("clang says what a kernel cannot call") {
  NEEDS_CLANG;
  CHECK(
      said_of(R"(#include <algorithm>
#include <limits>
#include <vector>
float f(float x) { return x; }
constexpr int twice(int n) { return 2 * n; }
template <class T> T of_any(T x) { return x; }
namespace own { float g(float x) { return x; } }
struct Square { float operator()(float x) const { return x * x; } };
struct Sum {
  void add(float x);
  Sum operator+(const Sum& other) const;
};
struct Of { Of(float x) : value(x) {} float value; };
float scale = 2;
#define CALL(x) f(x)
__global__ void functions(float* y) {
  *y = of_any<float>(*y);
  *y = own::g(*y) + CALL(1);
  *y = std::max(*y, 1.0f);
  *y = -std::numeric_limits<float>::infinity();
  std::vector<float> all;
  __shared__ float row[twice(2)];
  *y = scale;
  const Square square{};
  *y = square(*y);
  Sum sum;
  sum.add(*y);
  sum = sum + sum;
  Of of = *y;
}
template <class Op> __global__ void apply(float* y) { *y = Op()(*y); }
void host() { apply<Square><<<1, 2>>>(nullptr); }
)") ==
      R"(k.cu:18: a kernel cannot call of_any: it has no __device__
k.cu:19: a kernel cannot call f: it has no __device__
k.cu:19: a kernel cannot call own::g: it has no __device__
k.cu:20: a kernel cannot call std::max: it has no __device__ (max() without std:: has one)
k.cu:21: a kernel cannot call std::numeric_limits<float>::infinity: it has no __device__
k.cu:22: a kernel cannot call std::vector: it has no __device__
k.cu:23: a kernel cannot call twice: it has no __device__
k.cu:24: a kernel cannot use scale: it is the host's
k.cu:26: a kernel cannot call Square's operator(): it has no __device__
k.cu:28: a kernel cannot call add: it has no __device__
k.cu:29: a kernel cannot call operator+: it has no __device__
k.cu:30: a kernel cannot call Of: it has no __device__
k.cu:32: a kernel cannot call Square's operator(): it has no __device__
)");
}

TEST_CASE("clang says what the host cannot call, and what is no kernel") {
  NEEDS_CLANG;
  CHECK(
      said_of(R"(__device__ int of_device() { return 1; }
namespace own { __device__ int g() { return 1; } }
struct Value { __device__ int get() const { return 1; } };
__global__ void kernel(float* y) {}
void plain(int n) {}
int host_number();
void host() {
  of_device();
  own::g();
  Value().get();
  kernel(nullptr);
  plain<<<1, 2>>>(3);
}
__global__ int number() { return 1; }
__device__ int start = host_number();
)") ==
      R"(k.cu:9: the host's code cannot call of_device: it has no __host__
k.cu:10: the host's code cannot call own::g: it has no __host__
k.cu:11: the host's code cannot call get: it has no __host__
k.cu:12: kernel is a kernel: call it as kernel<<<blocks, threads>>>(arguments), from the host's code
k.cu:13: plain has no __global__
k.cu:15: a kernel returns nothing: it has to be __global__ void
k.cu:16: of the device's variables, an initialiser has to be a constant
)");
}

TEST_CASE("clang says nothing of what is right, nor of what is wrong in another way") {
  NEEDS_CLANG;
  CHECK(said_of(R"(#include <cuda/std/array>
#include <cub/cub.cuh>
#include <vector>
#define DEVICE __device__ __forceinline__
#if 0
This doesn't matter.
#endif
float of_host(float x);
DEVICE float f(float x) { return max(x, 1.0f) + std::sqrt(x) + fmaxf(x, rsqrtf(x)); }
__host__ __device__ constexpr int twice(int n) { return 2 * n; }
struct Square { __device__ float operator()(float x) const { return x * x; } };
__global__ void kernel(float* y) {
  extern __shared__ float row[];
  __shared__ cub::BlockReduce<float, 32>::TempStorage storage;
  __shared__ float two[twice(1)];
  cuda::std::array<float, 2> pair{1, 2};
  const auto add = [&](float value) { return value + pair[0]; };
  two[0] = cuda::std::max(1.0f, *y);
  row[threadIdx.x] = cub::BlockReduce<float, 32>(storage).Sum(add(f(*y)));
  if (threadIdx.x == 0) printf("%f %f\n", Square{}(row[0]), std::move(two[0]));
  assert(!isnan(*y));
  memset(row, 0, sizeof(of_host(1)));
  decltype(of_host(1)) sum = blockIdx.x;
  atomicAdd(y, __shfl_xor_sync(0xffffffffu, sum, 1));
}
template <int n> __global__ void of_count(int* y) { if constexpr (n > 1) *y = n; }
void host() {
  std::vector<int> all(twice(2));
  kernel<<<dim3(1, 2), 32, all.size()>>>(nullptr);
  of_count<3><<<1, 1>>>(nullptr);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 4);
  undeclared(1);
}
)") == "");
}

TEST_CASE("clang reads a file of whatever name, and the headers beside it") {
  NEEDS_CLANG;
  const TemporaryFolder folder;
  const std::string wrong = "\xef\xbb\xbf#include \"own.cuh\"\n__global__ void k() { f(); }\n";
  rmsnorm::write_file(folder / "own.cuh", "#include <cuda_runtime.h>\nvoid f();\n");
  for (const char* const name : {"k.cu", "it's.cu", "a b:4: c.cu", "-k.cu"}) {
    rmsnorm::write_file(folder / name, wrong);
    const Finished finished = ask_about(folder / name);
    CHECK(
        finished.out ==
        (folder / name).string() + ":2: a kernel cannot call f: it has no __device__\n");
  }
  rmsnorm::write_file(
      folder / "own.cuh",
      "#include <cuda_runtime.h>\nvoid g();\n__device__ void f() {\n  g();\n}\n");
  CHECK(
      ask_about(folder / "k.cu").out ==
      (folder / "own.cuh").string() + ":4: a kernel cannot call g: it has no __device__\n");
}

TEST_CASE("clang has nothing to say of the kernels of all lessons and projects", "[whole]") {
  NEEDS_CLANG;
  for (const fs::directory_entry& folder : fs::directory_iterator(top() / "lessons")) {
    if (!fs::exists(folder.path() / "goals.cpp")) continue;
    const fs::path lesson = folder.path() / "rms_norm.cu";
    const Finished finished =
        ask_about(fs::exists(lesson) ? lesson : folder.path() / "exercise.cu");
    CAPTURE(folder.path());
    CHECK(finished.out == "");
    CHECK(finished.exit_code == 0);
  }
}

TEST_CASE("where clang cannot be asked, it is said why") {
  const TemporaryFolder folder;
  rmsnorm::write_file(folder / "k.cu", "#include <no_such.h>\n");
  const Finished without = ask_about(folder / "k.cu", "no-clang");
  CHECK(without.exit_code == 2);
  CHECK(without.out == "there is no no-clang\n");
  NEEDS_CLANG;
  const Finished missing = ask_about(folder / "k.cu");
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.out, contains("'no_such.h' file not found\n"));
}

TEST_CASE("clang reads every header that a kernel can include") {
  const std::string words = rmsnorm::read_file(kDevice / "compiler/cuda_words.hpp");
  const fs::path headers = kDevice / "language/include";
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(headers)) {
    const std::string name = entry.path().lexically_relative(headers);
    // Those of CUB are in cub.cuh.
    if (entry.is_directory() || name.ends_with(".hpp") || name.starts_with("cub/")) continue;
    CAPTURE(name);
    CHECK_THAT(words, contains("#include <" + name + ">\n"));
  }
}
