/// \file
/// What every kernel that runs on a GPU has to do, variants and the library's too: which problems
/// it supports, special values, its stream, its bits. Of the lessons, `check` demands more
/// (test_mutants.cpp).

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/base/own_stream.hpp"
#include "common/contract/expected.hpp"
#include "common/contract/regime.hpp"
#include "common/operations/backward.hpp"
#include "common/records/result.hpp"
#include "common/verify/verifier.hpp"
#include "tests/bits.hpp"
#include "tests/gpu_support.hpp"

using namespace rmsnorm;
using tests::fits_on_gpu;
using tests::for_gpu_implementations;
using tests::gpu_implementations;
using tests::in_time;
using tests::solves_or_says_why;

namespace {

/// A shape that no kernel has a reason not to support.
constexpr Shape kPlain = {33, 4096};

Types typed(const char* name, float bias = 0) {
  Types types = *types_named(name);
  types.weight_bias = bias;
  return types;
}

/// Checks every kernel, which need not support it.
void check_or_unsupported(const WorkloadSpec& spec) {
  for_gpu_implementations(spec, [](const Implementation& implementation, const Workload& workload) {
    solves_or_says_why(implementation, workload);
  });
}

/// Checks every kernel, each of which has to support it, after prepare(workload).
void check_all(const WorkloadSpec& spec, const std::function<void(const Workload&)>& prepare = {}) {
  for_gpu_implementations(
      spec,
      [](const Implementation& implementation, const Workload& workload) {
        const bool is_solved = solves_or_says_why(implementation, workload);
        CHECK((is_solved || is_variant(implementation.slug)));  // which need not support all
      },
      prepare);
}

/// Checks every kernel after `change` was made to the rows of x, and then to those of any other
/// matrix that is read, which are handed over one by one. Each has to support it.
template <class Change>
void check_with_rows(int rows, int hidden, float eps, Change&& change) {
  for (const bool only_x : {true, false}) {
    check_all({.rows = rows, .hidden = hidden, .eps = eps}, [&](const Workload& workload) {
      for (const TensorSpec& tensor : workload.operation().tensors) {
        if (!is_input_matrix(tensor) || only_x != (tensor.name == std::string("x"))) continue;
        std::vector<float> values = workload.tensor(tensor.name).values();
        for (int row = 0; row < rows; ++row) change(row, values.data() + std::size_t(row) * hidden);
        workload.set(tensor.name, values);
      }
    });
  }
}

/// The bits of everything that a launch has written.
std::vector<std::vector<float>> results_of(const Workload& workload) {
  std::vector<std::vector<float>> results;
  for (const TensorSpec& tensor : workload.operation().tensors) {
    if (is_written(tensor)) results.push_back(workload.tensor(tensor.name).values());
  }
  return results;
}

/// Holds up a stream until it is opened, or for a few seconds: a kernel that waits for the stream
/// must fail a test, not hang it.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    cuda_check(cudaLaunchHostFunc(stream, wait, &open_), "holding up a stream");
  }
  void open() { open_ = true; }

 private:
  static void wait(void* open) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!*static_cast<std::atomic<bool>*>(open) && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
  }
  std::atomic<bool> open_ = false;
};

}  // namespace

// The small shapes have tails behind the last full warp and the block's last full round, and rows
// that do not fill the last block of a kernel that gives each block several.
TEST_CASE("every kernel is right on few rows and on many of every kind", "[sanitizer]") {
  NEEDS_GPU();
  for (const Shape wanted :
       {Shape{3, 257}, Shape{17, 100}, Shape{33, 32}, Shape{5, 128}, Shape{5, 1000}, Shape{2, 4100},
        Shape{2, 20000}, Shape{1000, 128}, Shape{777, 256}, Shape{70000, 8}, Shape{3000, 520},
        Shape{16384, 4096}, Shape{2000, 16384}, Shape{300, 40000}}) {
    const Shape shape = in_time(wanted.rows, wanted.hidden);
    if (!is_cpu_device() && !fits_on_gpu(shape.rows, shape.hidden)) continue;
    for (const Types& types : {typed("fp32"), typed("bf16", 1)}) {
      check_or_unsupported({.rows = shape.rows, .hidden = shape.hidden, .types = types});
      if (shape.rows > 20) continue;
      check_or_unsupported(
          {.rows = shape.rows, .hidden = shape.hidden, .misalign = 1, .types = types});
    }
  }
}

TEST_CASE("every kernel supports plain shapes, without eps and with a large one") {
  NEEDS_GPU();
  REQUIRE(gpu_implementations().size() >= 6);
  for (const int hidden : {4, 32, 100, 128, 1000, 1024, 2048, 4096, 8192}) {
    check_all({.rows = 3, .hidden = hidden});
  }
  for (const float eps : {0.0f, 1e-12f, 1.0f, 1e30f}) {
    check_all({.rows = 19, .hidden = 4096, .eps = eps});
  }
}

TEST_CASE("every kernel is right on the longest row that it supports") {
  NEEDS_GPU();
  const auto check = [](const Implementation& implementation, const Workload& aligned) {
    Problem p = aligned.problem();
    p.hidden = 1 << 20;
    while (p.hidden > 4 && !implementation.unsupported(p).empty()) p.hidden -= 4;
    CAPTURE(implementation.slug, p.hidden);
    CHECK(p.hidden >= (is_variant(implementation.slug) ? 4096 : 8192));
    const Workload longest(aligned.operation(), {.rows = 2, .hidden = p.hidden});
    CHECK(solves_or_says_why(implementation, longest));
  };
  for_gpu_implementations({.rows = 1, .hidden = 4}, check);
}

TEST_CASE("every kernel is right beyond 2^31 elements") {
  NEEDS_GPU();
  if (is_cpu_device()) SKIP_TEST("it would take the CPU device minutes");
  for (const Shape shape : {Shape{4194305, 513}, Shape{4194305, 512}, Shape{536870913, 4}}) {
    if (!fits_on_gpu(shape.rows, shape.hidden, 5)) continue;  // with a copy of what is in place
    check_or_unsupported({.rows = shape.rows, .hidden = shape.hidden});
    check_or_unsupported({.rows = shape.rows, .hidden = shape.hidden, .types = typed("bf16")});
  }
}

TEST_CASE("every kernel makes of NaN and Inf and zeros and large and tiny what IEEE 754 says") {
  NEEDS_GPU();
  for (const int hidden : {64, 1000, 4096}) {
    for (const int col : {0, hidden / 2, hidden - 1}) {
      check_with_rows(19, hidden, 1e-5f, [&](int row, float* x) {
        if (row == 7) x[col] = NAN;
        if (row == 11) std::fill(x, x + hidden, NAN);  // every element is to be written
      });
    }
  }
  for (const int hidden : {64, 4096}) {
    check_with_rows(19, hidden, 1e-5f, [&](int row, float* x) {
      if (row % 3 == 0) x[row % hidden] = INFINITY;
      if (row % 3 == 1) x[hidden - 1] = -INFINITY;
    });
  }
  check_with_rows(19, 4096, 1e-5f, [](int row, float* x) {
    if (row % 2 == 0) std::fill(x, x + 4096, row % 4 == 0 ? 0.0f : -0.0f);
  });
  for (const float factor : {1e15f, 1e-15f, 1e-30f}) {
    check_with_rows(19, 4096, 1e-5f, [&](int row, float* x) {
      if (row % 2 == 0) std::transform(x, x + 4096, x, [&](float v) { return v * factor; });
    });
  }
  check_with_rows(5, 4096, 1e-5f, [](int row, float* x) {  // the sum leaves fp32's range
    if (row == 2) std::fill(x, x + 4096, 1e30f);
  });
}

TEST_CASE("every kernel works on the stream that it was given and does not wait for it") {
  NEEDS_GPU();
  const OwnStream stream;
  const auto check = [&](const Implementation& implementation, const Workload& workload) {
    CAPTURE(implementation.slug);
    const bool solves = solves_or_says_why(implementation, workload, stream.get());
    CHECK(
        solves == !std::string_view(implementation.slug)
                       .starts_with(tests::kOfLongRows));  // and loads the kernel
    if (!solves) return;

    workload.reset();
    Problem p = workload.problem();
    const GuardedTensor workspace = make_workspace(implementation, workload);
    give(p, workspace);
    const auto before = results_of(workload);
    Gate gate(stream.get());
    CHECK(implementation.launch(p, stream.get()) == cudaSuccess);
    cuda_check(cudaStreamSynchronize(nullptr), "waiting for the default stream");
    const auto while_held = results_of(workload);
    for (std::size_t i = 0; i < before.size(); ++i) {
      CHECK(tests::same_bits(while_held[i], before[i]));
    }
    gate.open();
    cuda_check(cudaStreamSynchronize(stream.get()), "waiting for the stream");
    const Comparison found =
        workload.operation().compare_on_device(workload.before(), p, implementation.sum_depth(p));
    CHECK_FALSE(found.mismatch.has_value());
  };
  for_gpu_implementations({.rows = kPlain.rows, .hidden = kPlain.hidden}, check);
}

TEST_CASE("every kernel gives the same bits at every launch") {
  NEEDS_GPU();
  for (const int hidden : {128, 4096, 12288}) {
    const auto check = [&](const Implementation& implementation, const Workload& workload) {
      if (!solves_or_says_why(implementation, workload)) return;
      const GuardedTensor workspace = make_workspace(implementation, workload);
      Problem p = workload.problem();
      give(p, workspace);
      std::vector<std::vector<float>> first;
      for (int launch = 0; launch < 5; ++launch) {
        workload.reset();
        workspace.fill(Content::poison);
        cuda_check(implementation.launch(p, nullptr), implementation.slug);
        cuda_check(cudaDeviceSynchronize(), implementation.slug);
        const auto results = results_of(workload);
        if (launch == 0) first = results;
        CAPTURE(implementation.slug, hidden, launch);
        for (std::size_t i = 0; i < results.size(); ++i) {
          CHECK(tests::same_bits(results[i], first[i]));
        }
      }
    };
    for_gpu_implementations({.rows = in_time(37, hidden).rows, .hidden = hidden}, check);
  }
}

TEST_CASE("equal rows have equal bits in lesson 11 and in elements wherever they begin") {
  NEEDS_GPU();
  const int rows = 8;
  std::map<std::string, int> compared, different;
  for (const int hidden : {37, 769, 4097}) {
    const auto check = [&](const Implementation& implementation, const Workload& workload) {
      const std::string slug = implementation.slug;
      if (!slug.starts_with("11_unaligned_rows")) return;
      CAPTURE(slug, hidden);
      workload.reset();
      cuda_check(implementation.launch(workload.problem(), nullptr), "launching");
      const std::vector<float> y = workload.tensor("y").values();
      const std::vector<float> first(y.begin(), y.begin() + hidden);
      REQUIRE(std::none_of(y.begin(), y.end(), is_poison));
      for (auto row = y.begin() + hidden; row != y.end(); row += hidden) {
        ++compared[slug];
        if (!tests::same_bits({row, row + hidden}, first)) ++different[slug];
      }
    };
    for_gpu_implementations({.rows = rows, .hidden = hidden}, check, [&](const Workload& workload) {
      if (workload.operation().name != std::string("rms_norm")) return;
      std::vector<float> x = workload.tensor("x").values();
      for (auto row = x.begin() + hidden; row != x.end(); row += hidden) {
        std::copy_n(x.begin(), hidden, row);
      }
      workload.set("x", x);
    });
  }
  for (const char* slug : {"11_unaligned_rows", "11_unaligned_rows/elements"}) {
    CHECK(compared[slug] > 0);
    CHECK(different[slug] == 0);
  }
  for (const char* slug : {"11_unaligned_rows/plain", "11_unaligned_rows/early"})
    CHECK(different[slug] > 0);  // so the rows are such that it shows
}

TEST_CASE("a dweight that is unwanted is not written") {
  NEEDS_GPU();
  const Operation& backward = operation_of<Backward>();
  for (const int hidden : {128, 4096, 20000}) {
    const Workload workload(backward, {.rows = 9, .hidden = hidden});
    for (const Implementation& implementation : gpu_implementations()) {
      if (implementation.operation != &backward || is_variant(implementation.slug)) continue;
      CAPTURE(implementation.slug, hidden);
      workload.reset();
      Problem p = workload.problem();
      const GuardedTensor workspace =
          make_workspace(Memory::device, implementation.workspace_bytes(p));
      p.workspace = workspace.data();
      p.tensors[backward.index_of("dweight")] = nullptr;
      if (!implementation.unsupported(p).empty()) continue;
      cuda_check(implementation.launch(p, nullptr), "launching");
      const Mismatch first =
          backward
              .compare_on_device(workload.before(), workload.problem(), implementation.sum_depth(p))
              .mismatch.value();
      CHECK(to_sentence(first).starts_with("dweight's column 0 was not written"));  // and dx right
      const std::vector<float> dweight = workload.tensor("dweight").values();
      CHECK(std::all_of(dweight.begin(), dweight.end(), is_poison));
    }
  }
  CHECK(backward.name == std::string("backward"));  // an assertion where there is no such kernel
}
