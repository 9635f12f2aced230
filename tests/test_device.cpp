/// \file
/// The harness's own work on the GPU: the tensors, the verifier, the clock, the whole program.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/exit_code.hpp"
#include "common/measure/benchmark.hpp"
#include "common/measure/gpu.hpp"
#include "common/measure/roofline.hpp"
#include "common/records/csv.hpp"
#include "common/tensors/workload.hpp"
#include "common/verify/verifier.hpp"
#include "tests/bits.hpp"
#include "tests/command.hpp"
#include "tests/faults.hpp"
#include "tests/gpu_support.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using tests::contains;
using tests::operations;
using tests::run_all_lessons;
using tests::same_bits;

namespace {

constexpr WorkloadSpec kLarge = {.rows = 300, .hidden = 1021};
constexpr WorkloadSpec kSmall = {.rows = 5, .hidden = 130};

}  // namespace

TEST_CASE("the device fills tensors and their guards with the same bits as the host") {
  NEEDS_GPU();
  if (is_cpu_device()) SKIP_TEST("its tensors are the host's, which fills them");
  const auto whole = [](const GuardedTensor& tensor) {
    const std::size_t guard = GuardedTensor::kGuardBytes / bytes_of(tensor.dtype());
    return to_floats(tensor.guard(0), tensor.dtype(), tensor.size() + 2 * guard);
  };
  const auto second = [](const GuardedTensor& tensor) {
    return to_floats(tensor.data(1), tensor.dtype(), tensor.size());
  };
  for (const Operation* operation : operations()) {
    for (const int misalign : {0, 3}) {
      WorkloadSpec spec = {.rows = 101, .hidden = 770, .seed = 11, .sets = 2, .misalign = misalign};
      if (misalign != 0) spec.types = *types_named("bf16/fp32");
      const Workload device(*operation, spec);
      spec.memory = Memory::host;
      const Workload host(*operation, spec);
      for (const TensorSpec& tensor : operation->tensors) {
        CAPTURE(operation->name, misalign, tensor.name);
        // Sums are added up in another order there: what is derived is equal but for a rounding.
        if (tensor.role == Role::derived) continue;
        CHECK(same_bits(whole(device.tensor(tensor.name)), whole(host.tensor(tensor.name))));
        CHECK(same_bits(second(device.tensor(tensor.name)), second(host.tensor(tensor.name))));
      }
    }
  }
}

TEST_CASE("the verifier accepts what is right on the device", "[sanitizer]") {
  NEEDS_GPU();
  for (const Operation* operation : operations()) {
    const Implementation right = tests::right(*operation, Memory::device);
    for (WorkloadSpec spec : {kSmall, kLarge, WorkloadSpec{.rows = 0, .hidden = 5}}) {
      for (const Types& types : all_types()) {
        spec.types = types;
        CAPTURE(operation->name, spec.rows, to_string(types));
        const Verification found = verify(right, Workload(*operation, spec));
        CHECK(found.complaint == "");
        CHECK(found.max_error.value_or(0) <= std::max(0x1p-24, rounding_error(types.dtype)));
      }
    }
  }
}

TEST_CASE("the verifier rejects every fault on the device and says what is wrong") {
  NEEDS_GPU();
  for (const Operation* operation : operations()) {
    for (const WorkloadSpec& spec : {kSmall, kLarge}) {
      for (const tests::Fault& fault : tests::faults(*operation, Memory::device)) {
        CAPTURE(operation->name, fault.name, spec.rows);
        const Verification found = verify(fault.implementation, Workload(*operation, spec));
        CHECK_FALSE(found.ok());
        CHECK_THAT(found.complaint, contains(fault.complaint));
      }
    }
  }
}

TEST_CASE("an error that a kernel's launch forgot to return is noticed") {
  NEEDS_GPU();
  for (const Operation* operation : operations()) {
    Implementation forgetful = tests::right(*operation, Memory::device);
    forgetful.launch = [](const Problem&, cudaStream_t stream) {
      cudaMemsetAsync(nullptr, 0, 1, stream);
      return cudaSuccess;
    };
    const Verification found = verify(forgetful, Workload(*operation, kSmall));
    const std::string call = is_cpu_device() ? " (cudaMemsetAsync(): a null pointer)" : "";
    CHECK(found.complaint == "the launch failed: invalid argument" + call);
  }
}

TEST_CASE("a move reads and writes every whole vector, and nothing else", "[sanitizer]") {
  NEEDS_GPU();
  const auto tensor = [](int elements, Content content) {
    GuardedTensor made(Memory::device, Dtype::bf16, elements, 1, 0);
    made.fill(content, 3, 1, Content::poison);
    return made;
  };
  for (const int size : {0, 1, 7, 8, 9, 1023, 1024, 2056, 4099, 40000}) {
    for (const int times : {1, 2, 5}) {  // as long as y is what is read
      CAPTURE(size, times);
      const GuardedTensor x = tensor(times * size, Content::x), y = tensor(size, Content::poison);
      const GuardedTensor both = tensor(size, Content::x), empty = tensor(size, Content::poison);
      const std::vector<float> x_before = x.values(), both_before = both.values();
      const std::int64_t bytes = 2 * std::int64_t{size};
      std::vector<Stream> streams = {
          {x.data(), times * bytes, true, false}, {y.data(), bytes, false, true}};
      if (times == 2) streams.push_back({both.data(), bytes, true, true});
      for (const Way& way : ways_to_move(streams, false))
        REQUIRE(move_streams(streams, way, nullptr) == cudaSuccess);
      const std::size_t whole = static_cast<std::size_t>(size) / 8 * 8;
      const std::vector<float> got = y.values(), none = empty.values();
      const auto part = [](const std::vector<float>& all, std::size_t from, std::size_t to) {
        return std::vector<float>(
            all.begin() + static_cast<std::ptrdiff_t>(from),
            all.begin() + static_cast<std::ptrdiff_t>(to));
      };
      CHECK(same_bits(part(got, whole, y.size()), part(none, whole, y.size())));
      if (times == 1) CHECK(same_bits(part(got, 0, whole), part(x_before, 0, whole)));
      CHECK(same_bits(x.values(), x_before));
      CHECK(same_bits(both.values(), both_before));
      for (const GuardedTensor* each : {&x, &y, &both})
        CHECK(complaint_about_guards(*each, "a tensor", "size") == "");
    }
  }
}

TEST_CASE("a roof moves as many bytes as the operation has to, in the same ratio") {
  NEEDS_GPU();
  struct Expected {
    std::string operation;
    const char* types;
    std::string ratio;
  };
  const std::vector<Expected> all = {
      {"rms_norm", "bf16", "1:1"},          {"residual_add", "fp32", "1:1"},
      {"backward", "bf16/fp32", "2:1"},     {"rms_norm_e4m3_row", "bf16", "2:1"},
      {"rms_norm_e4m3_row", "fp32", "4:1"}, {"all_reduce_residual_add", "fp32", "1:1"}};
  std::map<std::string, const Operation*> operations;
  for (const Implementation& one : tests::gpu_implementations())
    operations[one.operation->name] = one.operation;
  for (const auto& [name, types, ratio] : all) {
    CAPTURE(name, types);
    REQUIRE(operations.count(name) == 1);
    const Workload workload(
        *operations[name], {.rows = 48, .hidden = 256, .types = *types_named(types)});
    const std::vector<Stream> streams = streams_of(workload, 0);
    CHECK(ratio_of(streams) == ratio);
    CHECK(move_streams(streams, {}, nullptr) == cudaSuccess);
    std::int64_t bytes = 0;
    for (const Stream& one : streams) bytes += one.bytes * (one.is_read + one.is_written);
    const int ranks = ranks_of(*operations[name], workload.problem());
    CHECK(bytes * ranks == workload.bytes_to_move());
  }
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("twice the work takes about twice the time") {
  NEEDS_CLOCK();
  const Workload workload(*operations()[0], {.rows = 8192, .hidden = 4096});
  const std::vector<Stream> streams = streams_of(workload, 0);
  const auto once = [&](int, cudaStream_t stream) { return move_streams(streams, {}, stream); };
  const auto twice = [&](int set, cudaStream_t stream) {
    once(set, stream);
    return once(set, stream);
  };
  const double ratio = time_launch(twice, Cache::warm, 1, 0.02).median_us /
                       time_launch(once, Cache::warm, 1, 0.02).median_us;
  CHECK(ratio > 1.7);
  CHECK(ratio < 2.3);
}

TEST_CASE("the program verifies and times every kernel and writes what it measured") {
  NEEDS_CLOCK();
  const tests::TemporaryFolder folder;
  const std::string file = (folder / "results.csv").string();
  const tests::Finished finished =
      run_all_lessons({"--rows", "64", "--hidden", "4096", "--min-time", "0.002", "--csv", file});
  INFO(finished.out << finished.err);
  CHECK(finished.exit_code == kAllVerified);
  CHECK_THAT(finished.err, contains(find_gpu().name));
  const std::vector<Result> results = read_csv(file);
  const std::size_t on_gpu = tests::gpu_implementations().size();
  CHECK(results.size() == 2 * on_gpu + 1);  // cold and warm; lesson 01 once
  for (const Result& result : results) {
    CAPTURE(result.implementation, cache_text(result));
    const bool is_supported = !result.implementation.starts_with(tests::kOfLongRows) &&
                              !result.implementation.starts_with(tests::kOf16Bits);
    CHECK(result.verdict == (is_supported ? Verdict::pass : Verdict::unsupported));
    if (!is_supported) continue;
    const auto all = tests::gpu_implementations();
    const auto of_result = std::find_if(all.begin(), all.end(), [&](const Implementation& one) {
      return one.operation->name == result.operation;
    });
    REQUIRE(of_result != all.end());
    const Operation& operation = *of_result->operation;
    CHECK(
        result.bytes ==
        bytes_to_move(operation, sizes_of(operation, {.rows = 64, .hidden = 4096}), {}));
    if (result.device == "cpu") continue;
    REQUIRE(result.median_us.has_value());
    CHECK(result.roof_gbps.value_or(0) > 1);
    CHECK(result.roof_gbps.value_or(0) < 100'000);
    CHECK_THAT(
        *result.gbps,
        Catch::Matchers::WithinRel(double(result.bytes) / *result.median_us / 1e3, 1e-4));
    CHECK(result.samples >= 11);
    CHECK(result.peak_gbps > 10);
    CHECK_FALSE(result.driver.empty());
  }
}

TEST_CASE("an unsupported problem is no failure and one beyond the memory makes the exit code 3") {
  NEEDS_GPU();
  const tests::Finished unsupported =
      run_all_lessons({"--lesson", "6", "--rows", "3", "--hidden", "5", "--min-time", "0.001"});
  CHECK(unsupported.exit_code == kAllVerified);
  CHECK_THAT(
      unsupported.out,
      contains("UNSUPPORTED") && contains("unsupported: 06_float4 needs hidden % 4 == 0"));
  const tests::Finished large =
      run_all_lessons({"--lesson", "2", "--rows", "2000000000", "--hidden", "4096"});
  CHECK(large.exit_code == kNoDevice);
  CHECK_THAT(large.err, contains("2000000000 x 4096 needs ") && contains("GiB to spare"));
}

TEST_CASE("only the chosen state of the cache is timed, and nothing if it is to be verified only") {
  NEEDS_CLOCK();
  const auto decode = [](const char* option) {
    const tests::Finished finished =
        run_all_lessons({"--lesson", "4", "--regime", "decode", "--min-time", "0.001", option});
    CHECK(finished.exit_code == kAllVerified);
    return finished.out;
  };
  const std::string warm = decode("--warm");
  CHECK_THAT(warm, contains(" warm ") && contains("of roof") && !contains(" cold "));
  CHECK(tests::lines_in(decode("--verify-only")).size() == 2);
  CHECK_THAT(decode("--verify-only"), !contains("of roof") && contains("PASS"));
}

TEST_CASE(
    "what stays at the power cap says so on its line and in the file, and is not waited for "
    "without end") {
  NEEDS_CLOCK();
  const tests::TemporaryFolder folder;
  const std::string file = (folder / "results.csv").string();
  // Two copies and the first kernel wait, 14 seconds each.
  const tests::Finished finished = tests::run(
      {"env", "LD_PRELOAD=" RMSNORM_FAKE_NVML, RMSNORM_LESSONS_DIR "/all_lessons", "--lesson", "4",
       "--lesson", "6", "--regime", "decode", "--warm", "--min-time", "0.001", "--csv", file});
  INFO(finished.out << finished.err);
  CHECK(finished.exit_code == kAllVerified);
  CHECK_THAT(finished.err, contains("driver of a stand-in"));
  CHECK_THAT(finished.err, contains("the GPU is at the power cap: waiting"));
  CHECK_THAT(finished.out, contains("%  at the power cap\n"));
  for (const Result& result : read_csv(file)) CHECK(result.disturbed == Disturbance::power);
}
