/// \file
/// Every lesson that runs on a GPU, on every problem that it does not refuse.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/contract/regime.hpp"
#include "common/verify/element_check.hpp"
#include "common/verify/verifier.hpp"
#include "tests/bits.hpp"
#include "tests/gpu_support.hpp"
#include "tests/random_problems.hpp"

using namespace rmsnorm;
using tests::fits_on_gpu;
using tests::for_gpu_lessons;
using tests::gpu_lessons;
using tests::in_time;
using tests::solves_or_refuses;

namespace {

/// A shape that no lesson has a reason to refuse.
constexpr Shape kPlain = {33, 4096};

/// Checks every lesson, which may refuse.
void check_or_refused(const WorkloadSpec& spec) {
  for_gpu_lessons(spec, [](const Lesson& lesson, const Workload& workload) {
    solves_or_refuses(lesson, workload);
  });
}

/// Checks every lesson, none of which may refuse, after prepare(workload).
void check_all(const WorkloadSpec& spec, const std::function<void(const Workload&)>& prepare = {}) {
  for_gpu_lessons(
      spec,
      [](const Lesson& lesson, const Workload& workload) {
        CHECK(solves_or_refuses(lesson, workload));
      },
      prepare);
}

/// Checks every lesson after `change` was made to the rows of x, and of the residual, which are
/// handed over one vector a row. No lesson may refuse.
template <class Change>
void check_with_x(int rows, int hidden, float eps, Change&& change) {
  const auto changed = [&](const void* data) {
    std::vector<float> values = to_floats(data, Dtype::fp32, std::size_t(rows) * hidden);
    for (int row = 0; row < rows; ++row) change(row, values.data() + std::size_t(row) * hidden);
    return values;
  };
  check_all({.rows = rows, .hidden = hidden, .eps = eps}, [&](const Workload& workload) {
    workload.set_x(changed(workload.x().data()));
    if (!workload.spec().residual) return;
    workload.set_residual(changed(workload.residual_before()));
  });
}

/// A stream that does not wait for the default stream, nor makes it wait.
class Stream {
 public:
  Stream() {
    cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Holds up a stream until it is opened, or for a few seconds: a lesson that waits for the stream
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

TEST_CASE("every lesson is right on every shape or refuses it") {
  NEEDS_GPU();
  const int rows = GENERATE(0, 1, 2, 31, 1000, 70000);
  for (const int hidden :
       {1, 2, 31, 32, 33, 127, 128, 257, 769, 1000, 1023, 1024, 4095, 4096, 8192, 12289, 49152}) {
    const Shape shape = in_time(rows, hidden);
    if (!fits_on_gpu(shape.rows, hidden)) continue;
    check_or_refused({.rows = shape.rows, .hidden = hidden});
  }
}

TEST_CASE("no mistake is seen in any lesson on any shape") {
  NEEDS_GPU();
  if (!can_observe()) SKIP_TEST("this build cannot watch kernels");
  const int rows = GENERATE(1, 2, 31, 100);
  for (const int hidden :
       {1, 2, 31, 32, 33, 127, 128, 257, 769, 1000, 1023, 1024, 4095, 4096, 8192, 12289, 49152}) {
    for (const int misalign : {0, 1}) {
      const int most = std::min(rows, 1 + 20000 / hidden);
      const auto watch = [&](const Lesson& lesson, const Workload& workload) {
        CAPTURE(lesson.slug, most, hidden, misalign);
        if (!why_refused(lesson, workload.typed_problem()).empty()) return;
        const Verification found = verify(lesson, workload, nullptr, Watch::yes);
        CHECK(found.complaint == "");
        CHECK(!found.observation.lines.empty());
      };
      for_gpu_lessons({.rows = most, .hidden = hidden, .misalign = misalign}, watch);
    }
  }
}

TEST_CASE("every lesson is right on random problems") {
  NEEDS_GPU();
  const int most = is_cpu_device() ? 1 << 14 : 1 << 20;
  const std::uint64_t seed = tests::test_seed();
  CHECK(tests::try_random_problems(gpu_lessons(), seed, most, std::chrono::seconds(4)) == "");
}

TEST_CASE("no lesson refuses a plain shape") {
  NEEDS_GPU();
  REQUIRE(gpu_lessons().size() >= 6);
  for (const int hidden : {4, 32, 100, 128, 1000, 1024, 2048, 4096, 8192}) {
    check_all({.rows = 5, .hidden = hidden});
  }
}

TEST_CASE("no lesson refuses the regime in which its idea shows") {
  NEEDS_GPU();
  for (const Regime& regime : regimes()) {
    const Shape shape = in_time(1000, regime.shapes.at(0).hidden);
    const auto check_own = [&](const Lesson& lesson, const Workload& workload) {
      if (regime.name == lesson.regime) CHECK(solves_or_refuses(lesson, workload));
    };
    for_gpu_lessons({.rows = shape.rows, .hidden = shape.hidden}, check_own);
  }
}

TEST_CASE("every lesson is right or refuses where tensors begin between 16-byte boundaries") {
  NEEDS_GPU();
  const int misalign = GENERATE(1, 2, 3);
  for (const int hidden : {128, 1000, 4095, 4096}) {
    check_or_refused({.rows = 19, .hidden = hidden, .misalign = misalign});
  }
}

TEST_CASE("every lesson is right on the longest row that it accepts") {
  NEEDS_GPU();
  for_gpu_lessons({.rows = 1, .hidden = 4}, [](const Lesson& lesson, const Workload& aligned) {
    TypedProblem p = aligned.typed_problem();
    p.hidden = 1 << 20;
    while (p.hidden > 4 && !lesson.refuses(p).empty()) p.hidden -= 4;
    CAPTURE(p.hidden);
    CHECK(p.hidden >= 8192);
    const Workload longest({.rows = 3, .hidden = p.hidden, .residual = lesson.residual});
    CHECK(solves_or_refuses(lesson, longest));
  });
}

TEST_CASE("every lesson is right beyond 2^31 elements") {
  NEEDS_GPU();
  if (is_cpu_device()) SKIP_TEST("it would take the CPU device minutes");
  for (const Shape shape : {Shape{4194305, 513}, Shape{4194305, 512}, Shape{536870913, 4}}) {
    if (fits_on_gpu(shape.rows, shape.hidden, 4)) {  // with a residual, and a copy of it
      check_or_refused({.rows = shape.rows, .hidden = shape.hidden});
    }
  }
}

TEST_CASE("every lesson keeps a NaN within its row") {
  NEEDS_GPU();
  for (const int hidden : {64, 1000, 4096}) {
    for (const int col : {0, hidden / 2, hidden - 1}) {
      check_with_x(19, hidden, 1e-5f, [&](int row, float* x) {
        if (row == 7) x[col] = NAN;
      });
    }
  }
}

TEST_CASE("every lesson writes every element of a row of NaN") {
  NEEDS_GPU();
  const auto check = [](const Lesson& lesson, const Workload& workload) {
    workload.set_x(std::vector<float>(3 * 4096, NAN));
    CHECK(solves_or_refuses(lesson, workload));
    const std::vector<float> y = to_host(workload.problem().y, 3 * 4096);
    CHECK(std::none_of(y.begin(), y.end(), is_poison));
  };
  for_gpu_lessons({.rows = 3, .hidden = 4096}, check);
}

TEST_CASE("every lesson makes of an Inf what IEEE 754 says") {
  NEEDS_GPU();
  for (const int hidden : {64, 4096}) {
    check_with_x(19, hidden, 1e-5f, [&](int row, float* x) {
      if (row % 3 == 0) x[row % hidden] = INFINITY;
      if (row % 3 == 1) x[hidden - 1] = -INFINITY;
    });
  }
}

TEST_CASE("every lesson makes zeros of a row of zeros") {
  NEEDS_GPU();
  check_with_x(19, 4096, 1e-5f, [](int row, float* x) {
    if (row % 2 == 0) std::fill(x, x + 4096, row % 4 == 0 ? 0.0f : -0.0f);
  });
}

TEST_CASE("every lesson is right for large values and for tiny ones") {
  NEEDS_GPU();
  for (const float factor : {1e15f, 1e-15f, 1e-30f}) {
    check_with_x(19, 4096, 1e-5f, [&](int row, float* x) {
      if (row % 2 == 0) std::transform(x, x + 4096, x, [&](float v) { return v * factor; });
    });
  }
}

TEST_CASE("every lesson makes zeros of a row whose sum leaves the range of fp32") {
  NEEDS_GPU();
  check_with_x(5, 4096, 1e-5f, [](int row, float* x) {
    if (row == 2) std::fill(x, x + 4096, 1e30f);
  });
}

TEST_CASE("every lesson is right without eps and with a large one") {
  NEEDS_GPU();
  const auto unchanged = [](int, float*) {};
  for (const float eps : {0.0f, 1e-12f, 1.0f, 1e30f}) check_with_x(19, 4096, eps, unchanged);
}

TEST_CASE("every lesson works on the stream that it was given and does not wait for it") {
  NEEDS_GPU();
  const Stream stream;
  const std::size_t size = std::size_t(kPlain.rows) * kPlain.hidden;
  const auto check = [&](const Lesson& lesson, const Workload& workload) {
    CAPTURE(lesson.slug);
    CHECK(solves_or_refuses(lesson, workload, stream.get()));  // and loads the kernel

    workload.poison_y();
    workload.restore_residual();
    const TypedProblem p = workload.typed_problem();
    Gate gate(stream.get());
    CHECK(lesson.launch(p, stream.get()) == cudaSuccess);
    cuda_check(cudaStreamSynchronize(nullptr), "waiting for the default stream");
    const std::vector<float> before = to_host(workload.problem().y, size);
    CHECK(std::all_of(before.begin(), before.end(), is_poison));
    gate.open();
    cuda_check(cudaStreamSynchronize(stream.get()), "waiting for the stream");
    CHECK(compare_on_host(p, lesson.sum_depth(p), workload.residual_before()).ok());
  };
  for_gpu_lessons({.rows = kPlain.rows, .hidden = kPlain.hidden}, check);
}

TEST_CASE("every lesson gives the same bits at every launch") {
  NEEDS_GPU();
  for (const int hidden : {128, 4096, 12288}) {
    const Shape shape = in_time(37, hidden);
    const auto check = [&](const Lesson& lesson, const Workload& workload) {
      std::vector<float> first;
      for (int launch = 0; launch < 5; ++launch) {
        CHECK(solves_or_refuses(lesson, workload));
        const std::vector<float> y =
            to_host(workload.problem().y, std::size_t(shape.rows) * hidden);
        if (launch == 0) first = y;
        CAPTURE(lesson.slug, hidden, launch);
        CHECK(tests::same_bits(y, first));
      }
    };
    for_gpu_lessons({.rows = shape.rows, .hidden = hidden}, check);
  }
}

// The shapes have tails behind the last full warp and the block's last full round, and rows that do
// not fill the last block of a kernel that gives each block several.
TEST_CASE(
    "every lesson is right on the small shapes that compute-sanitizer watches", "[sanitizer]") {
  NEEDS_GPU();
  for (const Shape shape :
       {Shape{3, 257}, Shape{17, 100}, Shape{33, 32}, Shape{5, 128}, Shape{5, 1000}, Shape{2, 4100},
        Shape{2, 20000}}) {
    check_or_refused({.rows = shape.rows, .hidden = shape.hidden});
  }
}
