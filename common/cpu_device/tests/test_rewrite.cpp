/// \file
/// The CPU device's rewriter: what it replaces, what it leaves alone, and what it refuses. That the
/// result does what CUDA's words say, kernels show: hazards/, tests/ordinary and the lessons.

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.hpp"
#include "common/cpu_device/compiler/rewrite.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

using rmsnorm::cpu_device::MissingFeature;
using rmsnorm::cpu_device::rewrite;
using namespace tests;

namespace fs = std::filesystem;

namespace {

/// The result without its first line. Shared variables are in a function.
std::string rewritten(const std::string& source) {
  const std::string brace = source.find("__shared__") != source.npos ? "{\n" : "";
  const std::string first = "#line 1 \"k.cu\"\n" + brace;
  const std::string text = rewrite(brace + source, "k.cu");
  REQUIRE(text.starts_with(first));
  CHECK(
      std::count(text.begin(), text.end(), '\n') ==
      1 + std::ssize(brace) / 2 + std::count(source.begin(), source.end(), '\n'));
  return text.substr(first.size());
}

/// What rewrite() says of a source that it refuses, or "".
std::string refusal(const std::string& source) {
  try {
    rewrite(source, "k.cu");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

using Cases = std::vector<std::pair<std::string, std::string>>;

/// Sources, and what becomes of them.
void check_rewritten(const Cases& cases) {
  for (const auto& [source, expected] : cases) {
    CAPTURE(source);
    CHECK(rewritten(source) == expected);
  }
}

/// Sources, and what is said of them.
void check_refused(const Cases& cases) {
  for (const auto& [source, expected] : cases) {
    CAPTURE(source);
    CHECK(refusal(source) == expected);
  }
}

using Sources = std::vector<std::string>;

/// Sources that all become the same.
void check_all_rewritten(const Sources& sources, const std::string& expected) {
  for (const std::string& source : sources) check_rewritten({{source, expected}});
}

/// Sources that stay as they are.
void check_left_alone(const Sources& sources) {
  for (const std::string& source : sources) check_rewritten({{source, source}});
}

/// "static constinit ..." for a variable `name` of the type `type`.
std::string variable(const std::string& name, const std::string& type) {
  const std::string record = "rmsnorm_shared_" + name;
  return "static constinit ::rmsnorm::cpu_device::SharedVariable " + record + "; auto& " + name +
         " = ::rmsnorm::cpu_device::shared<" + type + ">(" + record + ", \"" + name + "\");";
}

/// The same with this between the brackets of its alignas().
std::string aligned(const std::string& name, const std::string& type, const std::string& as) {
  return "struct alignas(" + as + ") rmsnorm_aligned_" + name + " {}; " +
         variable(name, type + ", alignof(rmsnorm_aligned_" + name + ")");
}

std::string dynamic(const std::string& name, const std::string& type) {
  return "auto* const " + name + " = ::rmsnorm::cpu_device::dynamic_shared<" + type + ">(\"" +
         name + "\");";
}

const std::string kLaunch = " ->*::rmsnorm::cpu_device::Launch(";

std::string launch_of(const std::string& name) {
  return "RMSNORM_KERNEL(" + name + ")" + kLaunch;
}
const std::string kNoInitialiser = "CUDA does not allow an initialiser on a __shared__ variable";
const std::string kUnreadable =
    "this is neither __shared__ TYPE NAME[BOUND]; nor extern __shared__ TYPE NAME[];";

}  // namespace

TEST_CASE("the first line names the source and plain C++ follows unchanged") {
  const std::string source = "int a;\r\n\tint b = a >> 2;\n\nstd::vector<A<B<C>>> c;  // end";
  CHECK(rewrite(source, "a/b.cu") == "#line 1 \"a/b.cu\"\n" + source);
  CHECK(rewrite("", "a/b.cu") == "#line 1 \"a/b.cu\"\n");
  CHECK(rewrite("", "a\\\"b.cu") == "#line 1 \"a\\\\\\\"b.cu\"\n");
}

TEST_CASE("a launch becomes the call of an operator") {
  check_rewritten(
      {{"f<<<1, 2>>>(x);", launch_of("f") + "1, 2)(x);"},
       {"n::f<T, 4><<<g, b, 0, s>>>();", launch_of("n::f<T, 4>") + "g, b, 0, s)();"},
       {"f <<<\n  1,  // blocks\n  2\n>>>\n(x);",
        launch_of("f ") + "\n  1,  // blocks\n  2\n)\n(x);"},
       {"f<<<1,1>>>(); g<<<2,2>>>();", launch_of("f") + "1,1)(); " + launch_of("g") + "2,2)();"},
       {"c[0]<<<1, 1>>>();", "c[0]" + kLaunch + "1, 1)();"},
       {"return ::a<(b > c)>::d<<<1, 1>>>();",
        "return " + launch_of("::a<(b > c)>::d") + "1, 1)();"},
       {"#define RUN(f) \\\n  f<<<1, 1>>>()\n",
        "#define RUN(f) \\\n  " + launch_of("f") + "1, 1)()\n"}});
}

TEST_CASE("a launch ends at its own >>> whatever its arguments hold") {
  for (const std::string arguments :
       {"foo<3>(), 1", "(a >> 2), a >> 3", "(a >>> b), 1", "{1, x[a >>> b]}, 1",
        "A<B<C<1>>()>(), 1", "[&] { return a<b>>>c; }(), 1", "p->x, 1", "\">>>\", '>', 1 /* >>> */",
        "a, sizeof(A<B<C>>)"}) {
    CAPTURE(arguments);
    CHECK(rewritten("f<<<" + arguments + ">>>(x);") == launch_of("f") + arguments + ")(x);");
  }
  CHECK(rewritten("f<<<1, A<B<2>>>>>(x);") == launch_of("f") + "1, A<B<2>>)(x);");
  CHECK(
      rewritten("f<<<[&] { g<<<1, 1>>>(); return 1; }(), 2>>>();") ==
      launch_of("f") + "[&] { " + launch_of("g") + "1, 1)(); return 1; }(), 2)();");
}

TEST_CASE("a launch without an end is refused") {
  check_refused(
      {{"\n\nf<<<1, 2>>(x);\n", "k.cu:3: this <<< has no >>>"},
       {"f<<<1, 2(x);\ng<<<1, 2>>>();", "k.cu:1: this <<< has no >>>"},
       {"f(<<<1, 2); a>>>b", "k.cu:1: this <<< has no >>>"},
       {"f<<<(1, 2>>>();", "k.cu:1: this <<< has no >>>"},
       {"f<<<1,\n g<<<1, 2>>>();", "k.cu:1: this <<< has no >>>"},
       {"#define A f<<<1\nint a>>>b", "k.cu:1: this <<< has no >>>"}});
}

TEST_CASE("a dynamic shared array becomes a pointer") {
  check_rewritten(
      {{"extern __shared__ float a[];  // row", dynamic("a", "float") + "  // row"},
       {"extern __shared__ typename X<A<T>, 2>::type a[];",
        dynamic("a", "typename X<A<T>, 2>::type")},
       {"extern __shared__ volatile float* a[][4];", dynamic("a", "volatile float* [4]")}});
  check_all_rewritten(
      {"__shared__ extern float a[];", "alignas(16) extern __shared__ float a[];",
       "extern __align__(sizeof(T)) __shared__ float a[];"},
      dynamic("a", "float"));
}

TEST_CASE("a shared variable becomes a reference") {
  check_rewritten(
      {{"  __shared__ float a[32];", "  " + variable("a", "float [32]")},
       {"static __shared__ float a [2][33];", variable("a", "float [2][33]")},
       {"volatile __shared__ float a[3];", variable("a", "volatile float [3]")},
       {"float __shared__ a;", variable("a", "float")},
       {"__shared__ typename cub::Warp<T, 3>::Temp a[n > 2 ? n : 2];",
        variable("a", "typename cub::Warp<T, 3>::Temp [(n > 2 ? n : 2)]")},
       {"__shared__ decltype(p->x) a;", variable("a", "decltype(p->x)")},
       {"[[maybe_unused]] __shared__ int a;", variable("a", "int")},
       {"__shared__ alignas(8) A<int, 4> *a, b[2];",
        aligned("a", "A<int, 4> *", "8") + " " + aligned("b", "A<int, 4> [2]", "8")}});
}

TEST_CASE("the alignment of a shared variable is kept") {
  check_all_rewritten(
      {"__shared__ alignas(16) float a[2][33];", "static __align__(16) __shared__ float a[2][33];",
       "__shared__ float __align__(16) a[2][33];", "__shared__ float a alignas(16)[2][33];"},
      aligned("a", "float [2][33]", "16"));
  CHECK(rewritten("__shared__ alignas(A<T>) char a[8];") == aligned("a", "char [8]", "A<T>"));
}

TEST_CASE("a shared variable is found wherever a statement can stand") {
  const std::string a = variable("a", "int");
  const std::string b = variable("b", "int");
  const std::string source = "__shared__ int a;";
  check_rewritten(
      {{source + source, a + a},
       {source + "\n" + "__shared__ int b;", a + "\n" + b},
       {"void f() {" + source + "}", "void f() {" + a + "}"},
       {"{ } " + source, "{ } " + a},
       {"case 1: " + source, "case 1: " + a},
       {"#if 1  // one\n" + source + "\n#endif\n", "#if 1  // one\n" + a + "\n#endif\n"},
       {"#define X \\\n  1\n" + source, "#define X \\\n  1\n" + a},
       {"/* a */ " + source, "/* a */ " + a}});
}

TEST_CASE("a shared declaration of several lines keeps its lines and its comments") {
  const std::string text = rewritten("__shared__ float  // why\n    a[4],\n    b;\nint c;\n");
  const std::vector<std::string> lines = lines_in(text);
  REQUIRE(lines.size() == 4);
  const std::string both = variable("a", "float [4]") + " " + variable("b", "float");
  CHECK(lines[0] == both.substr(0, both.size() - 1) + "// why");
  CHECK(lines[1] == "");
  CHECK(lines[2] == ";");
  CHECK(lines[3] == "int c;");
}

TEST_CASE("an initialiser on a shared variable is refused") {
  check_refused(
      {{"\n__shared__ int a = 0;", "k.cu:2: " + kNoInitialiser},
       {"__shared__ int a{};", "k.cu:1: " + kNoInitialiser},
       {"__shared__ int a[2] = {1, 2};", "k.cu:1: " + kNoInitialiser},
       {"__shared__ int a, b = 1;", "k.cu:1: " + kNoInitialiser}});
}

TEST_CASE("a shared declaration that is not understood is refused") {
  for (const std::string source :
       {"__shared__ a;", "__shared__ ;", "__shared__ int a", "__shared__ int (*a)[2];",
        "__shared__ int a(0);", "__shared__ int a[2;", "__shared__ int;", "__shared__ int a[];",
        "extern __shared__ int a;", "extern __shared__ int a[2];", "__shared__ int a, ;",
        "__shared__ int a[\n#if 1\n2\n#endif\n];", "__shared__",
        "#define SHARED __shared__ int a;\n", "__shared__ , a;", "if (x) __shared__ int a;"}) {
    CAPTURE(source);
    CHECK(refusal("\n" + source) == "k.cu:2: " + kUnreadable);
  }
}

TEST_CASE("the pragma to unroll a loop becomes g++'s, and others for nvcc empty lines") {
  check_rewritten(
      {{"#pragma unroll\nfor (;;) {}\n", "#pragma GCC unroll 16\nfor (;;) {}\n"},
       {"  #pragma unroll 4\n", "  \n"},
       {"#  pragma unroll(4)", ""},
       {"#pragma unroll \\\n  4\na", "\n\na"},
       {"#pragma nv_diag_suppress 177\n", "\n"},
       {"#pragma unroll /* a\nb */\n", "#pragma GCC unroll 16/* a\nb */\n"}});
  check_left_alone({"#pragma once\n", "#pragma GCC unroll 4\n", "#pragma unrolled\n", "#pragma"});
}

TEST_CASE("comments, literals and directives are left alone") {
  check_left_alone(
      {"// f<<<1, 2>>>(); __shared__ int a = 0; asm(\n", "// joined \\\n f<<<\nint a;",
       "/* __shared__\n f<<< \" ' */", "\"f<<< __shared__ \\\" asm(\"", "'\"'", "'\\''",
       "R\"(f<<< \" \\ __shared__)\"", "R\"x(a)\" f<<< )x\"", "u8R\"(\n#pragma unroll\n)\"",
       "1'000'000 + 0xff'ffu + .5'0", "f(1'0, 'a', 'b')", "#error don't f<<<\n",
       "#include <vector>  // <<<\n", "#include <mm", "#if 0 /* don't\n f<<< */\n#endif\n",
       "a # b\n", "std::cout << a<b>() << b >> c;", "asm_ + __shared"});
}

TEST_CASE("a comment or a raw string without an end is refused") {
  for (const std::string text : {"/* a\n", "R\"(a)", "R\"a", "R\"x(a)\"\n"}) {
    CAPTURE(text);
    CHECK(refusal("int a;\n" + text) == "k.cu:2: this comment or raw string has no end");
  }
}

TEST_CASE("a quotation mark without another one is left to the compiler") {
  check_left_alone({"#if 0\nthis doesn't\n#endif\n", "\"a\nb\"", "'a", "'\\"});
}

TEST_CASE("a kernel that looks into an array of the host is refused") {
  const std::string message =
      "k.cu:2: a kernel cannot use all: it is the host's (__device__ const makes it one's own)";
  const std::string array = "constexpr int all[] = {1, 2};\n";
  const std::string other = "const float all[2] = {1, 2};\n";
  const std::string kernel = "__global__ void k(int* y) { *y = all[threadIdx.x]; }";
  check_refused(
      {{array + kernel, message},
       {other + kernel, message},
       {array + "__device__ int f(int i, int n = sizeof(all)) { return all[i]; }", message},
       {"struct S { " + array + "static __device__ int f(int i) { return all[i]; } };", message},
       {"__device__ " + array + kernel, ""},
       {array + "template <int n> __global__ void k(int* y) { *y = all[n] + all[1]; }", ""},
       {array + "__global__ void k() { constexpr int i = 1; constexpr int n = all[i]; }", ""},
       {array + "__global__ void k() {}\nint f(int i) { return all[i]; }", ""},
       {array + "__global__ void k(int* all) { all[threadIdx.x] = 0; }", ""},
       {"__device__ int* all;\n__global__ void k() { all[threadIdx.x] = 0; }\nint main() {" +
            array + "}",
        ""},
       {"__global__ void k(int* y) { const int all[] = {1, 2}; *y = all[threadIdx.x]; }", ""}});
}

TEST_CASE("variables in constant memory are added up, as far as they are seen") {
  CHECK_THAT(
      rewrite("__constant__ float a[2], b; __constant__ A<int> c = {1};", "k.cu"),
      contains(" static_assert(0 + sizeof(a) + sizeof(c) <= 65536, "));
}

TEST_CASE("a function of the device is taken into its callers unless it calls itself") {
  check_rewritten(
      {{"__device__ int f() { return 1; }", "__device__ RMSNORM_INLINED int f() { return 1; }"}});
  check_left_alone(
      {"__device__ int f(int a) { return a > 0 ? f(a - 1) : 0; }",
       "__device__ int f(int a);\n__device__ int g(int a) { return f(a); }\n"
       "__device__ int f(int a) { return g<1>(a); }"});
}

TEST_CASE("a missing brace is left to the compiler, which knows better where it is") {
  CHECK(refusal("__global__ void k() {\nint f() { return std::max(1, 2); }") == "");
}

TEST_CASE("a shared variable without its semicolon is refused in its own line") {
  const std::string message = "k.cu:2: there is no ; behind this __shared__ variable";
  for (const std::string next : {"const int lane = 3;", "__syncthreads();", "x[0] = 1;"}) {
    check_refused({{"{\n__shared__ float all[3]\n" + next + "\n}", message}});
  }
  CHECK(refusal("{ __shared__ float\n all[3]; }") == "");
}

TEST_CASE("dynamic shared arrays of one name and two types are refused") {
  const std::string first = "void f() { extern __shared__ float all[]; }\n";
  CHECK(
      refusal(first + "void g() {\nextern __shared__ double all[]; }") ==
      "k.cu:3: all is an array of float in line 1: give this one another name, or one type to "
      "both");
  CHECK(refusal(first + "void g() { extern __shared__ float all[]; }") == "");
  CHECK(refusal(first + "void g() { extern __shared__ double other[]; }") == "");
}

TEST_CASE("printf becomes the device's, which does not show all of it") {
  check_all_rewritten(
      {"printf(\"a\");", "std::printf(\"a\");", "::printf(\"a\");"},
      "::rmsnorm::cpu_device::print(\"a\");");
  check_left_alone({"printf;", "fmt::printf(1);", "log.printf(1);"});
}

TEST_CASE("a byte order mark in front of a file is no part of it") {
  CHECK(rewrite("\xef\xbb\xbfint a;", "k.cu") == "#line 1 \"k.cu\"\nint a;");
}

TEST_CASE("inline PTX that is not known is refused as a missing feature") {
  for (const std::string text :
       {"asm(\"x.y %0;\" : \"=r\"(a));", "asm volatile(\"mov.u32 %0, %%clock; x.y;\" : : );",
        "__asm__ __volatile__(\"ld.acquire.gpu.global.v8.u32 %0, [%1];\" : \"=r\"(a) : \"l\"(p));",
        "#define X asm(\"x.y;\")\n"}) {
    CAPTURE(text);
    CHECK(refusal("\n\n" + text).starts_with("k.cu:3: the CPU device has no PTX instruction "));
    CHECK_THROWS_AS(rewrite(text, "k.cu"), MissingFeature);
  }
  CHECK(refusal("asm(\"mov.u32 %0, 1; x.y %0;\" : \"=r\"(a));").ends_with("instruction x.y"));
}

TEST_CASE("a header that the CPU device lacks is refused as a missing feature") {
  for (const std::string header :
       {"<cuda/std/atomic>", "<cub/device/x.cuh>", "<cublas_v2.h>", "\"mma.h\""}) {
    CAPTURE(header);
    const std::string include = "/* 1\n */ #  include " + header + "  // why\n";
    CHECK(refusal(include).starts_with("k.cu:2: the CPU device has no " + header));
    CHECK_THROWS_AS(rewrite(include, "k.cu"), MissingFeature);
  }
  for (const std::string header :
       {"<cuda_bf16.h>", "<cub/cub.cuh>", "<cuda/std/array>", "\"my/mma.h\"", "<comma.h>"}) {
    CAPTURE(header);
    CHECK(refusal("#include " + header) == "");
  }
}

TEST_CASE("the rewriter's exit code tells a missing feature from a malformed file") {
  const TemporaryFolder folder;
  const auto run_on = [&](const std::string& source) {
    rmsnorm::write_file(folder / "k.cu", source);
    const std::string input = (folder / "k.cu").string();
    return run_without_gpu({RMSNORM_CPU_DEVICE_REWRITE, input, (folder / "k.cpp").string()});
  };
  for (const auto& [source, code] :
       {std::pair{"f<<<", 1}, std::pair{"__shared__ int a = 0;", 1},
        std::pair{"#include <mma.h>", 3}, std::pair{"asm(\"x\");", 3}}) {
    CAPTURE(source);
    const Finished finished = run_on(source);
    CHECK(finished.exit_code == code);
    CHECK(finished.out == "");
    CHECK_THAT(finished.err, contains("k.cu:1: "));
    CHECK(lines_in(finished.err).size() == 1);
    CHECK_FALSE(fs::exists(folder / "k.cpp"));
  }
  CHECK(run_on("f<<<1, 2>>>();").exit_code == 0);
  CHECK(run_without_gpu({RMSNORM_CPU_DEVICE_REWRITE}).exit_code == 2);
  CHECK(run_without_gpu({RMSNORM_CPU_DEVICE_REWRITE, "/no/file", "/dev/null"}).exit_code == 1);
}
