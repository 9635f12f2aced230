/// \file
/// The registered lessons against the folders and the pages, and how they are found by name.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/base/files.hpp"
#include "common/contract/regime.hpp"
#include "common/contract/registry.hpp"
#include "tests/gpu_support.hpp"
#include "tests/operations.hpp"
#include "tests/repository.hpp"

using namespace rmsnorm;
using tests::contains;

namespace fs = std::filesystem;

namespace {

std::vector<std::string> slugs_of(const std::vector<Implementation>& lessons) {
  std::vector<std::string> slugs;
  for (const Implementation& lesson : lessons) slugs.emplace_back(lesson.slug);
  return slugs;
}

std::vector<std::string> found(const std::string& name) {
  return slugs_of(find_implementations(all_implementations(), name));
}

}  // namespace

TEST_CASE(
    "every lesson has a numbered folder with a kernel and a page, is registered, and on the front "
    "page") {
  const std::vector<std::string> slugs = slugs_of(all_implementations());
  const std::string front_page = read_file(tests::top() / "README.md");
  std::set<std::string> folders = {"librmsnorm"};
  int number = 0;
  for (const fs::path& folder : tests::lesson_folders()) {
    const std::string name = folder.filename().string();
    CAPTURE(name);
    CHECK(fs::is_regular_file(folder / "rms_norm.cu"));
    CHECK(fs::is_regular_file(folder / "README.md"));
    CHECK(std::count(slugs.begin(), slugs.end(), name) == 1);
    CHECK(std::stoi(name.substr(0, 2)) == ++number);  // the numbers leave none out
    CHECK_THAT(front_page, contains(name));
    folders.insert(name);
  }
  REQUIRE(number >= 7);
  CHECK_THAT(front_page, contains(std::to_string(number) + " lessons"));
  for (const std::string& slug : slugs) CHECK(folders.count(slug.substr(0, slug.find('/'))) == 1);
}

TEST_CASE("every lesson has a title, an idea of one sentence without a full stop, and a regime") {
  std::set<std::string> regime_names = {""};
  for (const Regime& regime : regimes()) regime_names.insert(regime.name);
  for (const Implementation& lesson : all_implementations()) {
    CAPTURE(lesson.slug, lesson.regime);
    const std::string idea = lesson.idea;
    CHECK(lesson.title[0] != '\0');
    REQUIRE_FALSE(idea.empty());
    CHECK(idea.back() != '.');
    CHECK(idea.find(". ") == std::string::npos);
    CHECK(idea.find('\n') == std::string::npos);
    CHECK(regime_names.count(lesson.regime) == 1);
  }
}

TEST_CASE(
    "nobody claims additions beyond a tree's and a loop's, or less traffic than the tensors") {
  NEEDS_GPU();  // its shared memory decides what a kernel supports
  const int hidden = GENERATE(1, 2, 31, 32, 128, 1000, 1024, 4096, 49152);
  const int rows = GENERATE(1, 2, 100, 16384, 1 << 30);
  const std::string types = GENERATE("fp32", "bf16", "fp16/none");
  Problem p = tests::problem_of(rows, hidden, *types_named(types));
  for (const Implementation& implementation : all_implementations()) {
    static_cast<Sizes&>(p) = sizes_of(*implementation.operation, {.rows = rows, .hidden = hidden});
    if (!implementation.unsupported(p).empty()) continue;
    CAPTURE(implementation.slug, hidden, rows, types);
    const SumDepth depth = implementation.sum_depth(p);
    CHECK(depth.row >= std::ceil(std::log2(p.hidden)));
    CHECK(depth.row <= p.hidden + 20);
    if (implementation.operation->name == std::string("backward")) {
      CHECK(depth.column >= std::ceil(std::log2(p.rows)));
      CHECK(depth.column <= p.rows + 128);
    }
    double read = 0;
    double written = 0;
    for (const TensorSpec& tensor : implementation.operation->tensors) {
      if (!is_matrix(tensor)) continue;
      const double lines = double(size_of(tensor, p)) / p.hidden / p.rows;
      const double bytes = bytes_of(dtype_of(tensor, types_of(p))) * lines * p.hidden;
      read += is_read(tensor) * bytes;
      written += is_written(tensor) * bytes;
    }
    CHECK(implementation.traffic(p).read >= read);
    CHECK(implementation.traffic(p).written >= written);
  }
}

TEST_CASE("the bound of every kernel but to 8 bits notices a divisor that is off by one") {
  NEEDS_GPU();
  for (const Implementation& implementation : all_implementations()) {
    for (const int hidden : {1, 128, 1024}) {
      CAPTURE(implementation.slug, hidden);
      Problem p = tests::problem_of(1, hidden);
      static_cast<Sizes&>(p) = sizes_of(*implementation.operation, {.rows = 1, .hidden = hidden});
      if (!implementation.unsupported(p).empty()) continue;
      const std::vector<TensorSpec>& tensors = implementation.operation->tensors;
      const bool is_short = std::any_of(tensors.begin(), tensors.end(), [](const TensorSpec& t) {
        return bytes_of(dtype_of(t, {})) == 1;
      });
      if (is_short) continue;
      // x / sqrt(sum / (hidden + 1)) is too large by about 1 / (2 hidden).
      const double bound =
          implementation.operation->error_bound(p, implementation.sum_depth(p).row);
      CHECK(10 * bound < 0.5 / (hidden + 1));
    }
  }
}

TEST_CASE("a lesson is found by its number and slug with its variants, a variant by its own") {
  const std::vector<std::string> naive = {"02_naive", "02_naive/thread_per_row"};
  for (const char* const name : {"2", "02", "02_naive"}) CHECK(found(name) == naive);
  CHECK(found("02_naive/thread_per_row") == std::vector<std::string>{"02_naive/thread_per_row"});
  for (const std::string name : {"", "0", "99", "004", "04_warp", "02_naive/", "-4", "4 "}) {
    CAPTURE(name);
    CHECK(found(name).empty());
  }
}
