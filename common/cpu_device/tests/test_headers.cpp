/// \file
/// The headers of a program: what it includes is rewritten, wherever it lies, and nothing else.

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

using namespace tests;

namespace {

const std::string kKernel =
    "__global__ void add_up(int* x) {\n"
    "  __shared__ int sum;\n"
    "  if (threadIdx.x == 0) x[0] = sum;\n"
    "}\n"
    "inline void run(int* x) { add_up<<<1, 32>>>(x); }\n";

/// my/my.cu, which is given, and headers.
class Program {
 public:
  explicit Program(const std::string& source) { write("my/my.cu", source); }

  void write(const std::string& name, const std::string& text) const {
    rmsnorm::write_file(path(name), text);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// What a compiler says of the C++, or its preprocessor, with -E, without columns; "" if it says
  /// nothing.
  std::string compiler_says(const std::string& how = "-fsyntax-only") const {
    const Finished rewritten = run_without_gpu(
        {RMSNORM_CPU_DEVICE_REWRITE, "--headers", path("into"), path("my/my.cu"), path("my.cpp"),
         path("folder")});
    CHECK(rewritten.err == "");
    REQUIRE(rewritten.exit_code == 0);
    const std::string device = (top() / "common/cpu_device/language/include").string();
    const Finished compiled = run_without_gpu(
        {RMSNORM_CXX, "-std=c++20", how, "-I" + top().string(), "-I" + device, "-include",
         "cuda_runtime.h", path("my.cpp")});
    return std::regex_replace(compiled.err, std::regex("([0-9]:)[0-9]+: error: (#error )?"), "$1 ");
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("what a program includes may have kernels, wherever it lies, and is one header each") {
  const Program program(
      "#include \"a.cuh\"\n#include \"../up.cuh\"\n#include \"sub/b.cuh\"\n#include <c.cuh>\n"
      "int main() { in_a::run(nullptr), in_b::run(nullptr), in_c::run(nullptr); }\n");
  program.write("my/a.cuh", "#pragma once\nnamespace in_a {\n" + kKernel + "}\n");
  program.write(
      "my/sub/b.cuh", "#pragma once\n#include \"../a.cuh\"\nnamespace in_b {\n" + kKernel + "}\n");
  program.write("up.cuh", "#include \"my/sub/b.cuh\"\n");
  program.write("folder/c.cuh", "#include \"d.inc\"\n");
  program.write("folder/d.inc", "namespace in_c {\n" + kKernel + "}\n");
  CHECK(program.compiler_says() == "");
}

TEST_CASE("a header is named by its own path and line, with CUDA's words in it or without") {
  const Program program("#include \"a.cuh\"\n");
  for (const std::string& text :
       {std::string("\nint n = what;\n"), kKernel + "\nint n = what;\n"}) {
    program.write("my/a.cuh", text);
    const auto line = std::to_string(std::count(text.begin(), text.end(), '\n'));
    CHECK_THAT(program.compiler_says(), contains(program.path("my/a.cuh") + ":" + line + ":"));
  }
}

TEST_CASE("a header that is refused harms only who includes it, in one sentence with its line") {
  const Program program("");
  for (const auto& [text, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"\n\nf<<<1, 2>>(x);\n", "3: this <<< has no >>>\n"},
           {"\n{ __shared__ int n = 1; }\n",
            "2: CUDA does not allow an initialiser on a __shared__ variable\n"}}) {
    CAPTURE(text);
    program.write("my/a.cuh", text);
    program.write("my/my.cu", "#if 0\n#include \"a.cuh\"\n#endif\n");
    CHECK(program.compiler_says("-E") == "");
    program.write("my/my.cu", "#include \"a.cuh\"\n");
    CHECK_THAT(program.compiler_says("-E"), contains(program.path("my/a.cuh") + ":" + sentence));
  }
}

TEST_CASE("what the CPU device lacks harms only where the preprocessor does not leave it out") {
  const Program program("#include \"a.cuh\"\n");
  const std::string source =
      "#include \"mma.h\"\ninline void f() {\n asm(\"a.b;\"); }\n#define TIME clock64()\n";
  program.write("my/a.cuh", "#ifdef HAS_ALL\n" + source + "long t = TIME;\n#endif\n#error end\n");
  const std::string in_header = program.path("my/a.cuh") + ":";
  CHECK_THAT(program.compiler_says("-E"), contains(in_header + "8: end\n") && !contains("CPU"));
  program.write("my/my.cu", "#define HAS_ALL\n" + source + "#include \"a.cuh\"\n");
  const std::string says = program.compiler_says("-E");
  const std::string lacks = " the CPU device has no ";
  for (const std::string& file : {in_header, program.path("my/my.cu") + ":"}) {
    CHECK_THAT(says, contains(file + "2:" + lacks + "\"mma.h\" (tensor cores)\n"));
    CHECK_THAT(says, contains(file + "4:" + lacks + "PTX instruction a.b\n"));
  }
  CHECK_THAT(says, contains(in_header + "6:" + lacks + "clock64(): there is no clock\n"));
  CHECK_THAT(says, contains(in_header + "8: end\n"));
}

TEST_CASE("what becomes of a header after the first build is noticed by the next") {
  const Program program("#include \"a.cuh\"\nint main() {}\n");
  program.write("CMakeLists.txt", R"(
cmake_minimum_required(VERSION 3.24)
project(reader LANGUAGES CXX)
add_executable(cpu_device_rewrite IMPORTED)
set_target_properties(cpu_device_rewrite PROPERTIES IMPORTED_LOCATION "${REWRITE}")
add_library(cpu_device INTERFACE)
target_compile_features(cpu_device INTERFACE cxx_std_20)
set(device "${TOP}/common/cpu_device")
target_include_directories(cpu_device INTERFACE "${TOP}" "${device}/language/include")
include("${device}/Kernels.cmake")
add_library(my OBJECT)
cpu_device_add_kernels(my HEADERS my/my.cu)
target_compile_options(my PRIVATE -include cuda_runtime.h)
)");
  const std::string build = program.path("build");
  const Finished configured = run_without_gpu(
      {RMSNORM_CMAKE, "-S", program.path("."), "-B", build, "-G", "Ninja",
       std::string("-DCMAKE_CXX_COMPILER=") + RMSNORM_CXX,
       std::string("-DREWRITE=") + RMSNORM_CPU_DEVICE_REWRITE, "-DTOP=" + top().string()});
  REQUIRE(configured.exit_code == 0);
  const auto builds = [&] {
    const Finished finished = run_without_gpu({RMSNORM_CMAKE, "--build", build});
    UNSCOPED_INFO(finished.out);
    return finished.exit_code == 0;
  };
  program.write("my/a.cuh", "constexpr int n = 1;\n");
  CHECK(builds());
  program.write("my/a.cuh", kKernel);
  CHECK(builds());
  program.write("my/a.cuh", "#include \"new.cuh\"\n");
  CHECK_FALSE(builds());
  program.write("my/new.cuh", kKernel);
  CHECK(builds());
  std::filesystem::remove(program.path("my/new.cuh"));
  CHECK_FALSE(builds());
}
