/// \file
/// The registered lessons against the folders and the pages, and how they are found by name.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/base/files.hpp"
#include "common/contract/regime.hpp"
#include "common/contract/registry.hpp"
#include "common/verify/verifier.hpp"
#include "tests/catch.hpp"
#include "tests/repository.hpp"

using namespace rmsnorm;
using tests::contains;

namespace fs = std::filesystem;

namespace {

/// "02_naive" of "02_naive/thread_per_row".
std::string folder_of(const std::string& slug) {
  return slug.substr(0, slug.find('/'));
}

std::vector<std::string> slugs_of(const std::vector<Lesson>& lessons) {
  std::vector<std::string> slugs;
  for (const Lesson& lesson : lessons) slugs.emplace_back(lesson.slug);
  return slugs;
}

std::vector<std::string> found(const std::string& name) {
  return slugs_of(find_lessons(all_lessons(), name));
}

}  // namespace

TEST_CASE("every lesson's folder has a kernel and a page and is registered under its name") {
  const std::vector<std::string> slugs = slugs_of(all_lessons());
  REQUIRE(tests::lesson_folders().size() >= 7);
  for (const fs::path& folder : tests::lesson_folders()) {
    const std::string name = folder.filename().string();
    CAPTURE(name);
    CHECK(fs::is_regular_file(folder / "rms_norm.cu"));
    CHECK(fs::is_regular_file(folder / "README.md"));
    CHECK(std::count(slugs.begin(), slugs.end(), name) == 1);
  }
}

TEST_CASE("the folders' numbers begin with 1 and leave none out") {
  int number = 0;
  for (const fs::path& folder : tests::lesson_folders())
    CHECK(std::stoi(folder.filename().string().substr(0, 2)) == ++number);
}

TEST_CASE("every lesson is named on the front page") {
  const std::string page = read_file(tests::top() / "README.md");
  for (const fs::path& folder : tests::lesson_folders())
    CHECK_THAT(page, contains(folder.filename().string()));
}

TEST_CASE("every registered lesson has a folder") {
  for (const Lesson& lesson : all_lessons()) {
    if (folder_of(lesson.slug) == "librmsnorm") continue;
    CAPTURE(lesson.slug);
    CHECK(fs::is_directory(tests::top() / "lessons" / folder_of(lesson.slug)));
  }
}

TEST_CASE("lessons are sorted by their slugs and each slug is there once") {
  const std::vector<std::string> slugs = slugs_of(all_lessons());
  CHECK(std::is_sorted(slugs.begin(), slugs.end()));
  CHECK(std::set<std::string>(slugs.begin(), slugs.end()).size() == slugs.size());
}

TEST_CASE("every lesson has a title and an idea of one sentence without a full stop") {
  for (const Lesson& lesson : all_lessons()) {
    CAPTURE(lesson.slug);
    const std::string title = lesson.title;
    const std::string idea = lesson.idea;
    CHECK_FALSE(title.empty());
    REQUIRE_FALSE(idea.empty());
    CHECK(idea.back() != '.');
    CHECK(idea.find(". ") == std::string::npos);
    CHECK(idea.find('\n') == std::string::npos);
  }
}

TEST_CASE("every lesson names a regime that there is or none") {
  std::set<std::string> names = {""};
  for (const Regime& regime : regimes()) names.insert(regime.name);
  for (const Lesson& lesson : all_lessons()) {
    CAPTURE(lesson.slug, lesson.regime);
    CHECK(names.count(lesson.regime) == 1);
  }
}

TEST_CASE("no lesson claims fewer additions than a tree needs or more than a loop") {
  for (const Lesson& lesson : all_lessons()) {
    if (lesson.is_backward()) continue;
    for (const int hidden : {1, 2, 31, 32, 128, 1000, 1024, 4096, 49152}) {
      CAPTURE(lesson.slug, hidden);
      CHECK(lesson.sum_depth(hidden) >= std::ceil(std::log2(hidden)));
      CHECK(lesson.sum_depth(hidden) <= hidden + 16);
    }
  }
}

TEST_CASE("the bound of every lesson notices a divisor that is off by one") {
  for (const Lesson& lesson : all_lessons()) {
    if (lesson.is_backward()) continue;
    for (const int hidden : {1, 128, 1024}) {
      CAPTURE(lesson.slug, hidden);
      // x / sqrt(sum / (hidden + 1)) is too large by about 1 / (2 hidden).
      CHECK(10 * relative_error_bound(lesson.sum_depth(hidden)) < 0.5 / (hidden + 1));
    }
  }
}

TEST_CASE("no backward pass claims fewer additions than a tree needs or more than a loop") {
  for (const Lesson& lesson : all_lessons()) {
    if (!lesson.is_backward()) continue;
    for (const int hidden : {1, 2, 31, 32, 128, 1000, 1024, 4096, 49152}) {
      for (const int rows : {1, 2, 100, 16384, 1 << 30}) {
        BackwardProblem p;
        p.hidden = hidden;
        p.rows = rows;
        CAPTURE(lesson.slug, hidden, rows);
        CHECK(lesson.backward.row_depth(p) >= std::ceil(std::log2(hidden)));
        CHECK(lesson.backward.row_depth(p) <= hidden + 20);
        CHECK(lesson.backward.column_depth(p) >= std::ceil(std::log2(rows)));
        CHECK(lesson.backward.column_depth(p) <= rows + 128);
      }
    }
  }
}

TEST_CASE("no backward pass predicts less traffic than x, dy and dx once") {
  for (const Lesson& lesson : all_lessons()) {
    if (!lesson.is_backward()) continue;
    for (const int hidden : {1, 128, 4096, 49152}) {
      BackwardProblem p;
      p.hidden = hidden;
      p.rows = 1000;
      CAPTURE(lesson.slug, hidden);
      CHECK(lesson.backward.traffic(p).read >= 8.0 * hidden);
      CHECK(lesson.backward.traffic(p).written >= 4.0 * hidden);
    }
  }
}

TEST_CASE("no lesson predicts less traffic than x once and y once") {
  for (const Lesson& lesson : all_lessons()) {
    if (lesson.is_backward()) continue;
    for (const int hidden : {1, 128, 4096, 49152}) {
      CAPTURE(lesson.slug, hidden);
      CHECK(lesson.traffic(hidden).read >= 4.0 * hidden);
      CHECK(lesson.traffic(hidden).written >= 4.0 * hidden);
    }
  }
}

TEST_CASE("a lesson is found by its number") {
  CHECK(found("4") == std::vector<std::string>{"04_warp_reduce"});
  CHECK(found("04") == std::vector<std::string>{"04_warp_reduce"});
  CHECK(found("2") == std::vector<std::string>{"02_naive", "02_naive/thread_per_row"});
}

TEST_CASE("a lesson is found by its slug together with its foils") {
  CHECK(found("04_warp_reduce") == std::vector<std::string>{"04_warp_reduce"});
  CHECK(found("02_naive") == std::vector<std::string>{"02_naive", "02_naive/thread_per_row"});
}

TEST_CASE("a foil is found by its own slug alone") {
  CHECK(found("02_naive/thread_per_row") == std::vector<std::string>{"02_naive/thread_per_row"});
}

TEST_CASE("a name that no lesson has finds nothing") {
  for (const std::string name :
       {"", "0", "00", "99", "004", "4_", "04_", "04_warp", "warp_reduce", "02_naive/",
        "02_naive/thread", "-4", "4 "}) {
    CAPTURE(name);
    CHECK(found(name).empty());
  }
}
