/// \file
/// The shapes of the library's forward pass: the formula's, those that ./rmsnorm tune tries, and
/// the table that it writes.

#include <cmath>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/files.hpp"
#include "common/operations/rms_norm.hpp"
#include "common/verify/verifier.hpp"
#include "library/forward_in_shape.hpp"
#include "library/kernels/residual_add_plan.hpp"
#include "library/kernels/tuned.hpp"
#include "library/tune/tuning.hpp"
#include "tests/command.hpp"
#include "tests/gpu_support.hpp"
#include "tests/plan_of_row.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using namespace rmsnorm::kernels;
using namespace tests;

namespace fs = std::filesystem;

namespace {

/// Every shape with a kernel for rows of so many vectors.
std::vector<ForwardShape> shapes_for(int vectors) {
  std::vector<ForwardShape> shapes;
  for (const Kind kind : {Kind::aligned, Kind::cluster, Kind::long_rows, Kind::unaligned}) {
    for (int threads = 1; threads <= 1056; ++threads) {
      for (int each = 1; each <= 9; ++each) {
        for (int blocks = 1; blocks <= 9; ++blocks) {
          const ForwardShape shape = {kind, threads, each, blocks};
          if (is_for(shape, vectors)) shapes.push_back(shape);
        }
      }
    }
  }
  return shapes;
}

tune::Plan plan_of(const std::string& device, int element_bytes, int vectors) {
  tune::Plan plan{.device = device, .element_bytes = element_bytes, .vectors = vectors};
  plan.kind = "aligned", plan.threads = 96, plan.thread_vectors = 2, plan.gain = 1.023;
  plan.driver = "580.1", plan.version = "abc", plan.date = "2026-11-23";
  return plan;
}

/// A table, and what the build makes of it.
class Table {
 public:
  explicit Table(const std::string& lines) {
    write_file(csv, lines_of(top() / "library/plans.csv").front() + "\n" + lines);
  }
  Finished configured() const {
    return run(
        {RMSNORM_CMAKE, "-DCSV=" + csv, "-DHEADER=" + header, "-P", top() / "library/plans.cmake"});
  }
  Finished compiled() const {
    return run({RMSNORM_CXX, "-std=c++20", "-fsyntax-only", "-x", "c++", "-I", top(), header});
  }

  const TemporaryFolder folder;
  const std::string csv = folder / "plans.csv";
  const std::string header = folder / "plans.hpp";
};

/// CMake breaks lines between words.
std::string in_one_line(const std::string& text) {
  return std::regex_replace(text, std::regex("\\s+"), " ");
}

Finished run_tune(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), RMSNORM_TUNE);
  return run_without_gpu(arguments);
}

const std::string kGood = "NVIDIA H200,rms_norm,2,96,aligned,96,2,1,1.02,580.1,abc,2026-11-23\n";

}  // namespace

TEST_CASE("the formula and the candidates of tune have kernels for rows of every length") {
  for (int vectors = 1; vectors <= 40000; vectors += vectors < 3000 ? 1 : 7) {
    CAPTURE(vectors);
    for (const bool has_clusters : {false, true}) {
      const std::vector<ForwardShape> shapes = tune::candidates(vectors, has_clusters);
      REQUIRE(shapes[0] == shape_by_formula(vectors, has_clusters));
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        CAPTURE(tune::text_of(shapes[i]));
        REQUIRE(is_for(shapes[i], vectors));
        REQUIRE((has_clusters || shapes[i].cluster == 1));
        for (std::size_t j = 0; j < i; ++j) REQUIRE(shapes[i] != shapes[j]);
      }
    }
  }
  for (int vectors = kMostVectorsOfBlock + 1; vectors <= kMostVectorsOfCluster; ++vectors) {
    CAPTURE(vectors);  // of a row with a residual
    REQUIRE(is_for(cluster_for(vectors, kSummingVectors), vectors));
  }
  CHECK(shape_by_formula(2048, true).cluster == 1);
  CHECK(shape_by_formula(2049, true).cluster == 3);
  CHECK(shape_by_formula(32768, true).cluster == 8);
  CHECK(shape_by_formula(32769, true).cluster == 1);
  CHECK(tune::candidates(512, true).size() > 3);
  CHECK(tune::candidates(8192, true).size() > 8);
}

TEST_CASE("every shape that has a kernel for rows of a length gives the right result") {
  NEEDS_GPU();
  for (const char* const name : {"fp32", "bf16"}) {
    const Types types = *types_named(name);
    for (const int vectors : {1, 16, 63, 96, 128, 257, 512, 1030, 2049, 32768}) {
      const int hidden = vectors * 16 / bytes_of(types.dtype);
      const WorkloadSpec spec{.rows = vectors < 65 ? 33 : 2, .hidden = hidden, .types = types};
      const Workload workload(operation_of<RmsNorm>(), spec);
      const bool is_quick = vectors < 300;  // of longer rows, those that tune would try
      for (const ForwardShape& shape :
           is_quick ? shapes_for(vectors) : tune::candidates(vectors, true)) {
        CAPTURE(name, vectors, tune::text_of(shape));
        const Watch watch = is_quick ? Watch::yes : Watch::no;
        CHECK(verify(forward_in_shape(shape), workload, nullptr, watch).complaint == "");
      }
    }
  }
  CHECK(shapes_for(257).size() > 30);
}

TEST_CASE("the order of a row's additions depends on hidden and type alone") {
  NEEDS_GPU();
  for (const Dtype dtype : {Dtype::fp32, Dtype::fp16, Dtype::bf16}) {
    for (const int hidden : {8, 100, 128, 768, 769, 1024, 4096, 5120, 8192, 12289, 65536, 524288}) {
      const auto first = order_of_additions({hidden, dtype, 1, 1, 0x1000, false});
      for (const std::int64_t rows : {1, 2, 64, 4096, 1 << 30}) {
        for (const std::uintptr_t address : {0x1000, 0x1004, 0x2230}) {
          CAPTURE(hidden, static_cast<int>(dtype), rows, address);
          CHECK(order_of_additions({hidden, dtype, rows, rows, address, false}) == first);
          CHECK(order_of_additions({hidden, dtype, rows, 2, address, true}) == first);
        }
      }
    }
  }
  CHECK(
      order_of_additions({768, Dtype::bf16, 1, 1, 0x1000, false}) !=
      order_of_additions({4096, Dtype::bf16, 1, 1, 0x1000, false}));
}

TEST_CASE("the table's shape is for one GPU, one size of elements and one length of rows") {
  const ForwardShape shape = {Kind::aligned, 96, 2, 1};
  const std::vector<Tuned> table = {{"A", 4, 96, {Kind::aligned, 64, 2, 1}}, {"B", 2, 96, shape}};
  CHECK(find_tuned(table, "B", 2, 96) == shape);
  CHECK(find_tuned(table, "A", 4, 96) == table[0].shape);
  CHECK_FALSE(find_tuned(table, "A", 2, 96));
  CHECK_FALSE(find_tuned(table, "B", 2, 97));
  CHECK_FALSE(find_tuned(table, "B NVL", 2, 96));
  CHECK_FALSE(find_tuned({}, "B", 2, 96));
}

TEST_CASE("tune chooses what is fastest on average, and hardly slower than the formula anywhere") {
  CHECK(tune::choose({{10, 100}}).index == 0);
  CHECK(tune::choose({{10, 100}, {9.95, 99.5}}).index == 0);  // not worth it
  CHECK(tune::choose({{10, 100}, {5, 102}}).index == 0);      // slower with many rows
  const tune::Choice choice = tune::choose({{10, 100}, {9, 99}, {8, 100}, {10, 90}, {7, 110}});
  CHECK(choice.index == 2);
  CHECK(std::abs(choice.gain - std::sqrt(10 / 8.0)) < 1e-12);
}

TEST_CASE("tune replaces the plans of rows that were measured, and keeps the others in order") {
  std::vector<tune::Plan> plans;
  for (const int vectors : {1024, 96, 128}) tune::replace(plans, plan_of("B NVL", 2, vectors));
  for (const int bytes : {4, 2}) tune::replace(plans, plan_of("B", bytes, 512));
  tune::replace(plans, {.device = "B NVL", .vectors = 128});  // the formula's is good enough
  tune::Plan better = plan_of("B NVL", 2, 1024);
  better.threads = 512;
  tune::replace(plans, better);

  const Table table("");
  tune::write_plans(table.csv, plans);
  const std::string line = ",580.1,abc,2026-11-23\n";
  CHECK_THAT(
      read_file(table.csv), contains(
                                "\nB,rms_norm,2,512,aligned,96,2,1,1.023" + line +
                                "B,rms_norm,4,512,aligned,96,2,1,1.023" + line +
                                "B NVL,rms_norm,2,96,aligned,96,2,1,1.023" + line +
                                "B NVL,rms_norm,2,1024,aligned,512,2,1,1.023" + line));
  const std::vector<tune::Plan> again = tune::read_plans(table.csv);
  REQUIRE(again.size() == 4);
  CHECK(again[3].device == "B NVL");
  CHECK(again[3].threads == 512);
  CHECK(table.configured().exit_code == 0);  // the order that the build asks for
}

TEST_CASE("the build takes the table of the repository and any that is right") {
  CHECK_NOTHROW(tune::read_plans(top() / "library/plans.csv"));
  const Table table(
      kGood +
      "NVIDIA H200,rms_norm,2,1024,long_rows,256,4,1,1.02,580.1,abc,2026-11-23\n"
      "NVIDIA H200,rms_norm,4,8192,cluster,512,8,2,1.5,580.1,abc,2026-11-23\n");
  CHECK(table.configured().err == "");
  CHECK(table.compiled().err == "");
  CHECK_THAT(
      read_file(table.header), contains(R"({"NVIDIA H200", 2, 96, {Kind::aligned, 96, 2, 1}},)"));
}

TEST_CASE("a broken table ends the build with a sentence that names the file and the line") {
  const auto with = [&](const std::string& old_text, const std::string& new_text) {
    std::string line = kGood;
    return kGood + line.replace(line.find(old_text), old_text.size(), new_text);
  };
  for (const auto& [lines, sentence] : std::vector<std::pair<std::string, std::string>>{
           {kGood + kGood, "each to be for other rows"},
           {with(",96,al", ",64,al"), "does not come after the one above it"},
           {with(",96,al", ",0,al"), "a line needs to be like"},
           {with("aligned", "unaligned"), "a line needs to be like"},
           {with(",1.02", ""), "a line needs to be like"}}) {
    CAPTURE(lines);
    const Table table(lines);
    const Finished finished = table.configured();
    CHECK(finished.exit_code != 0);
    CHECK_THAT(in_one_line(finished.err), contains(table.csv + ":3: ") && contains(sentence));
    CHECK_FALSE(fs::exists(table.header));
  }
  const Table other_columns("");
  write_file(other_columns.csv, "device,threads\n");
  CHECK_THAT(
      in_one_line(other_columns.configured().err), contains("plans.csv:1: the columns need to be"));
  for (const std::string shape : {",aligned,64,3,1", ",aligned,96,2,2", ",cluster,128,4,9"}) {
    CAPTURE(shape);
    const Table table(kGood + "NVIDIA H200,rms_norm,2,128" + shape + ",1.02,580.1,abc,date\n");
    CHECK(table.configured().err == "");
    const Finished finished = table.compiled();
    CHECK(finished.exit_code != 0);
    CHECK_THAT(
        finished.err,
        contains(table.csv + ":3:") && contains("the library has no kernel of this shape"));
  }
}

TEST_CASE("tune says in one sentence what it was asked and cannot do") {
  const Table table(kGood);
  const auto refusal = [&](std::vector<std::string> arguments, int exit_code) {
    arguments.insert(arguments.begin(), {"--table", table.csv});
    const Finished finished = run_tune(arguments);
    CAPTURE(arguments);
    CHECK(finished.exit_code == exit_code);
    CHECK(finished.out == "");
    CHECK(lines_in(finished.err).size() == 1);
    return finished.err;
  };
  CHECK_THAT(refusal({"--dtype", "fp8"}, kBadUsage), contains("there are no tensors of 'fp8'"));
  CHECK_THAT(
      refusal({"--hidden", "769"}, kBadUsage),
      contains("rows of 769 columns of bf16 are no whole vectors"));
  CHECK_THAT(refusal({"--table", table.folder / "none.csv"}, kBadUsage), contains("none.csv"));
  const std::string no_gpu = refusal({}, kNoDevice);
  if (is_cpu_device()) CHECK_THAT(no_gpu, contains("tune needs a GPU"));
  fs::create_directory(table.csv + ".partial");
  CHECK_THAT(refusal({}, kBadUsage), contains("cannot write " + table.csv));
}
