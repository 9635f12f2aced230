/// \file
/// librmsnorm refuses what it cannot do, with the right status and a sentence, and does nothing.

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "library/call.hpp"
#include "tests/dl_tensor.hpp"
#include "tests/gpu_support.hpp"
#include "tests/repository.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

using Numbers = std::vector<std::int64_t>;

/// A tensor of the device that can be spoilt.
struct Argument : DeviceTensor {
  Argument(const Numbers& shape, Dtype dtype, std::uint64_t seed)
      : DeviceTensor(dtype, contiguous(shape, 64), seed) {}
  void lies(const Layout& at) {
    layout = at;
    view = view_of(array, layout);
  }
  std::uintptr_t address() const {
    return reinterpret_cast<std::uintptr_t>(view.data) + view.byte_offset;
  }
  const DLTensor* pointer = &view;
};

/// Right arguments of all functions that write a y of this type.
struct Arguments {
  explicit Arguments(Dtype of_y = Dtype::bf16) {
    const auto add = [&](const std::vector<const char*>& names, const Numbers& shape, Dtype dtype) {
      for (const char* name : names) tensors.try_emplace(name, shape, dtype, tensors.size());
    };
    add({"x", "q", "q_out", "residual", "norm", "dy", "dx", "z", "dz"}, {4, 3, 64}, Dtype::bf16);
    add({"k", "k_out"}, {4, 2, 64}, Dtype::bf16);
    add({"weight", "q_weight", "k_weight", "dweight"}, {64}, Dtype::bf16);
    add({"y"}, {4, 3, 64}, of_y);
    add({"rstd"}, {12}, Dtype::fp32);
    add({"scale"}, {4, 3, 1}, Dtype::fp32);
    add({"limit"}, {1}, Dtype::fp32);
    add({"workspace"}, {1 << 16}, Dtype::fp32);
    add({"v"}, {4, 2, 64}, Dtype::bf16);
    add({"cos", "sin"}, {5, 32}, Dtype::fp32);
    add({"k_cache", "v_cache"}, {2, 3, 2, 64}, Dtype::bf16);
    add({"positions", "slots"}, {4}, Dtype::fp32);
    for (const char* name : {"positions", "slots"}) {  // integers from 0 on
      Argument& t = tensors.at(name);
      std::vector<std::byte> bytes(t.array.before().size() * 4);
      for (std::int32_t i = 0; i < 4; ++i) std::memcpy(&bytes[(64 + i) * 4], &i, 4);
      t.array.fill(bytes);
      t.view.dtype = {kDLInt, 32, 1};
    }
  }
  const DLTensor* operator()(const char* tensor) const { return tensors.at(tensor).pointer; }
  float operator[](const char* number) const { return numbers.at(number); }
  template <class Enum>
  Enum as(const char* number) const {
    return static_cast<Enum>(static_cast<int>(numbers.at(number)));
  }
  void* workspace() const {
    const bool has_one = tensors.at("workspace").pointer != nullptr;
    return has_one ? reinterpret_cast<void*>(tensors.at("workspace").address()) : nullptr;
  }
  /// What all arrays hold after all work has ended.
  std::vector<std::vector<float>> now() const {
    std::vector<std::vector<float>> elements;
    for (const auto& [name, tensor] : tensors) elements.push_back(tensor.array.now());
    return elements;
  }

  std::map<std::string, Argument> tensors;
  std::map<std::string, float> numbers{
      {"eps", 1e-6f},
      {"weight_bias", 0},
      {"workspace_bytes", 4 << 16},
      {"scaling", RMSNORM_SCALE_GROUP},
      {"rounding", RMSNORM_ROUND_ONCE},
      {"gate", RMSNORM_GATE_LAST},
      {"rotation", RMSNORM_ROTATE_HALVES}};
  cudaStream_t stream = nullptr;
};

/// A number, or what a word stands for.
std::int64_t number_of(const std::string& word, const Arguments& a) {
  alignas(256) static const char host[4096] = {};  // no memory of the GPU
  static const std::map<std::string, std::int64_t> kWords = {
      {"int", kDLInt},
      {"uint", kDLUInt},
      {"float", kDLFloat},
      {"bfloat", kDLBfloat},
      {"float8_e4m3fn", RMSNORM_FLOAT8_E4M3FN},
      {"CPU", kDLCPU},
      {"CUDA", kDLCUDA},
      {"CUDAHost", kDLCUDAHost},
      {"Vulkan", kDLVulkan},
      {"host", reinterpret_cast<std::intptr_t>(host)}};
  if (kWords.count(word) > 0) return kWords.at(word);
  const bool is_tensor = a.tensors.count(word) > 0;
  return static_cast<std::int64_t>(
      is_tensor ? a.tensors.at(word).address() : std::stoull(word, nullptr, 0));
}

/// What can be changed of a tensor, as test_library_refusals.txt has it.
const std::map<std::string, void (*)(Argument&, const Numbers&)> kChanges = {
    {"null", [](Argument& t, const Numbers&) { t.pointer = nullptr; }},
    {"tensor", [](Argument& t, const Numbers&) { t.pointer = &t.view; }},
    {"no_shape", [](Argument& t, const Numbers&) { t.view.shape = nullptr; }},
    {"no_strides", [](Argument& t, const Numbers&) { t.view.strides = nullptr; }},
    {"no_data", [](Argument& t, const Numbers&) { t.view.data = nullptr; }},
    {"ndim", [](Argument& t, const Numbers& n) { t.view.ndim = static_cast<int>(n.at(0)); }},
    {"shape", [](Argument& t, const Numbers& n) { t.lies(contiguous(n, t.layout.offset)); }},
    {"strides",
     [](Argument& t, const Numbers& n) {
       t.lies({t.layout.shape, n, t.layout.offset});
     }},
    {"dtype",
     [](Argument& t, const Numbers& n) {
       t.view.dtype = {
           static_cast<std::uint8_t>(n.at(0)), static_cast<std::uint8_t>(n.at(1)),
           static_cast<std::uint16_t>(n.at(2))};
     }},
    {"device",
     [](Argument& t, const Numbers& n) {
       t.view.device = {static_cast<DLDeviceType>(n.at(0)), static_cast<int>(n.at(1))};
     }},
    {"at", [](Argument& t, const Numbers& n) { t.view.byte_offset += n.at(0) - t.address(); }},
    {"further", [](Argument& t, const Numbers& n) { t.view.byte_offset += n.at(0); }}};

/// Makes changes as that file has them.
void change(Arguments& a, const std::string& text) {
  std::istringstream changes(text);
  for (std::string one; std::getline(changes, one, ',');) {
    std::istringstream words(one);
    std::vector<Argument*> tensors;
    std::string what, word;
    while (words >> what && a.tensors.count(what) > 0) tensors.push_back(&a.tensors.at(what));
    if (tensors.empty() && words >> word) a.numbers.at(what) = std::stof(word);
    Numbers numbers;
    while (words >> word) numbers.push_back(number_of(word, a));
    for (Argument* tensor : tensors) kChanges.at(what)(*tensor, numbers);
  }
}

rmsnorm_status forward(const Arguments& a) {
  return rmsnorm_forward(a("x"), a("weight"), a("y"), a["eps"], a["weight_bias"], a.stream);
}

rmsnorm_status forward_pair(const Arguments& a) {
  return rmsnorm_forward_pair(
      a("q"), a("q_weight"), a("q_out"), a("k"), a("k_weight"), a("k_out"), a["eps"],
      a["weight_bias"], a.stream);
}

rmsnorm_status residual_add(const Arguments& a) {
  return rmsnorm_residual_add(
      a("x"), a("residual"), a("weight"), a("y"), a["eps"], a["weight_bias"], a.stream);
}

rmsnorm_status forward_fp8(const Arguments& a) {
  return rmsnorm_forward_fp8(
      a("x"), a("residual"), a("weight"), a("y"), a("scale"), a("limit"), a("norm"),
      a.as<rmsnorm_scaling>("scaling"), a.as<rmsnorm_rounding>("rounding"), a["eps"],
      a["weight_bias"], a.stream);
}

rmsnorm_status forward_rstd(const Arguments& a) {
  return rmsnorm_forward_rstd(
      a("x"), a("weight"), a("y"), a("rstd"), a["eps"], a["weight_bias"], a.stream);
}

rmsnorm_status backward(const Arguments& a) {
  return rmsnorm_backward(
      a("dy"), a("x"), a("weight"), a("rstd"), a("dx"), a("dweight"), a.workspace(),
      static_cast<std::size_t>(a["workspace_bytes"]), a["weight_bias"], a.stream);
}

rmsnorm_status forward_gated(const Arguments& a) {
  return rmsnorm_forward_gated(
      a("x"), a("z"), a("weight"), a("y"), a.as<rmsnorm_gate>("gate"),
      a.as<rmsnorm_rounding>("rounding"), a["eps"], a["weight_bias"], a.stream);
}

rmsnorm_status backward_gated(const Arguments& a) {
  return rmsnorm_backward_gated(
      a("dy"), a("x"), a("z"), a("weight"), a("dx"), a("dz"), a("dweight"), a.workspace(),
      static_cast<std::size_t>(a["workspace_bytes"]), a.as<rmsnorm_gate>("gate"), a["eps"],
      a["weight_bias"], a.stream);
}

rmsnorm_status forward_rotated(const Arguments& a) {
  return rmsnorm_forward_rotated(
      a("q"), a("q_weight"), a("q_out"), a("k"), a("k_weight"), a("k_out"), a("cos"), a("sin"),
      a("positions"), a("v"), a("k_cache"), a("v_cache"), a("slots"),
      a.as<rmsnorm_rotation>("rotation"), a.as<rmsnorm_rounding>("rounding"), a["eps"],
      a["weight_bias"], a.stream);
}

/// Each of these functions says what is wrong, and does nothing.
/// \param other  changes that make other right arguments first
void check_mistake(
    const std::string& functions, const std::string& other, rmsnorm_status status,
    const std::string& mistake, const std::string& sentence) {
  static const std::map<std::string, rmsnorm_status (*)(const Arguments&)> kFunctions = {
      {"forward", forward},
      {"forward_pair", forward_pair},
      {"residual_add", residual_add},
      {"forward_fp8", forward_fp8},
      {"forward_rstd", forward_rstd},
      {"backward", backward},
      {"forward_gated", forward_gated},
      {"backward_gated", backward_gated},
      {"forward_rotated", forward_rotated}};
  std::istringstream names(functions);
  for (std::string name; names >> name;) {
    CAPTURE(name, mistake);
    Arguments arguments(name == "forward_fp8" ? Dtype::e4m3 : Dtype::bf16);
    change(arguments, other);
    REQUIRE(kFunctions.at(name)(arguments) == RMSNORM_OK);  // without the mistake
    const auto before = arguments.now();
    change(arguments, mistake);
    CHECK(kFunctions.at(name)(arguments) == status);
    CHECK_THAT(rmsnorm_last_error(), contains(sentence));
    CHECK(arguments.now() == before);
    CHECK(cudaGetLastError() == cudaSuccess);
  }
}

}  // namespace

TEST_CASE("each wrong argument is refused with its status and a sentence") {
  NEEDS_GPU();
  const std::map<std::string, rmsnorm_status> statuses = {
      {"POINTER", RMSNORM_BAD_POINTER}, {"SHAPE", RMSNORM_BAD_SHAPE},
      {"DTYPE", RMSNORM_BAD_DTYPE},     {"DEVICE", RMSNORM_BAD_DEVICE},
      {"STRIDES", RMSNORM_BAD_STRIDES}, {"ALIGNMENT", RMSNORM_BAD_ALIGNMENT},
      {"OVERLAP", RMSNORM_BAD_OVERLAP}, {"VALUE", RMSNORM_BAD_VALUE}};
  const std::regex heading("\\[(.+)\\](.*)"), row("(\\w+) *\\| (.+?) *\\| (.+)");
  std::string functions, other;
  std::set<std::string> seen;  // statuses, and the functions of headings
  for (const std::string& line : lines_of(top() / "tests/test_library_refusals.txt")) {
    INFO(line);
    std::smatch part;
    if (line.empty() || line.starts_with("#")) continue;
    if (std::regex_match(line, part, heading)) {
      functions = part[1];
      seen.insert(functions);
      other = part[2];
      continue;
    }
    REQUIRE(std::regex_match(line, part, row));
    seen.insert(part[1]);
    check_mistake(functions, other, statuses.at(part[1]), part[2], part[3]);
  }
  for (const auto& [status, value] : statuses) CHECK(seen.count(status) == 1);
  CHECK(seen.size() > statuses.size() + 3);
}

TEST_CASE("a stream that does not exist is CUDA's error") {
  NEEDS_GPU();
  if (!is_cpu_device()) SKIP_TEST("CUDA need not survive it");
  Arguments arguments;
  REQUIRE(cudaStreamCreate(&arguments.stream) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(arguments.stream) == cudaSuccess);
  const auto before = arguments.now();
  for (const auto call :
       {forward, forward_pair, residual_add, forward_rstd, backward, forward_gated, backward_gated,
        forward_rotated}) {
    CHECK(call(arguments) == RMSNORM_CUDA_ERROR);
    CHECK_THAT(rmsnorm_last_error(), contains("CUDA could not launch the kernel: "));
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  CHECK(arguments.now() == before);
}

TEST_CASE("without rows the library makes dweight zeros") {
  NEEDS_GPU();
  // Another dimension may be of any size then.
  const auto [batch, heads] = GENERATE(
      std::pair<std::int64_t, std::int64_t>{0, 3},
      std::pair{std::int64_t{0}, std::int64_t{1} << 32},
      std::pair{std::int64_t{1} << 40, std::int64_t{0}});
  Arguments a;
  change(a, fmt::format("x dy y dx shape {} {} 64, x dy y dx no_data", batch, heads));
  change(a, "rstd shape 0, workspace null, workspace_bytes 0");
  std::size_t bytes = 1;
  CHECK(rmsnorm_backward_workspace_bytes(a("x"), &bytes) == RMSNORM_OK);
  CHECK(bytes == 0);
  CHECK(forward_rstd(a) == RMSNORM_OK);
  REQUIRE(backward(a) == RMSNORM_OK);
  const auto zeros = [](std::int64_t, std::int64_t) { return Allowed{0, 0}; };
  check_elements(a.tensors.at("dweight"), zeros);
  Arguments gated;
  change(gated, fmt::format("x z dy y dx dz shape {} {} 64", batch, heads));
  change(gated, "x z dy y dx dz no_data");
  CHECK(forward_gated(gated) == RMSNORM_OK);
  REQUIRE(backward_gated(gated) == RMSNORM_OK);
  check_elements(gated.tensors.at("dweight"), zeros);
}

TEST_CASE("without columns the library's passes for training do nothing") {
  NEEDS_GPU();
  Arguments a;
  change(a, "x dy y dx z dz shape 4 3 0, weight dweight shape 0");
  CHECK(forward_rstd(a) == RMSNORM_OK);
  CHECK(backward(a) == RMSNORM_OK);
  CHECK(forward_gated(a) == RMSNORM_OK);
  CHECK(backward_gated(a) == RMSNORM_OK);
  change(a, "q q_out shape 4 3 0, k k_out v shape 4 2 0, q_weight k_weight shape 0");
  change(a, "cos sin shape 5 0, k_cache v_cache shape 2 3 2 0");
  CHECK(forward_rotated(a) == RMSNORM_OK);
  const DeviceArray& rstd = a.tensors.at("rstd").array;
  CHECK(rstd.now() == rstd.before());
}

TEST_CASE("without tokens, heads or slots a norm with a rotation does nothing, or less") {
  NEEDS_GPU();
  Arguments a;
  change(a, "q q_out shape 0 3 64, k k_out v shape 0 2 64, positions slots shape 0");
  change(a, "positions slots dtype int 32 1, cos sin shape 0 32, k_cache v_cache shape 0 3 2 64");
  const auto before = a.now();
  CHECK(forward_rotated(a) == RMSNORM_OK);
  CHECK(a.now() == before);
  Arguments b;
  change(b, "q q_out shape 4 0 64, q no_data, q_out no_data");
  CHECK(forward_rotated(b) == RMSNORM_OK);
  CHECK(b.tensors.at("k_out").array.now() != b.tensors.at("k_out").array.before());
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
  change(arguments, "eps -1");
  REQUIRE(forward(arguments) == RMSNORM_BAD_VALUE);
  const std::string sentence = rmsnorm_last_error();
  std::string of_other = "?";
  std::thread([&] { of_other = rmsnorm_last_error(); }).join();
  CHECK(of_other.empty());
  change(arguments, "eps 0");
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
