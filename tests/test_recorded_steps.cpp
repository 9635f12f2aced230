/// \file
/// What the threads of the first block do in lessons 02 to 08, on short rows, is what is recorded
/// in docs/interactive/ladder_steps.js, from which docs/interactive/ladder.js draws.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/contract/registry.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "tests/gpu_support.hpp"
#include "tests/repository.hpp"
#include "tests/watch.hpp"

namespace fs = std::filesystem;
using namespace rmsnorm;
using namespace tests;

namespace {

constexpr const char* kSlugs[] = {"02_naive",           "03_shared_memory", "04_warp_reduce",
                                  "05_cub_warp_reduce", "06_float4",        "07_multi_row",
                                  "08_registers"};
constexpr int kColumns[] = {8, 16, 20, 32, 48, 64};
constexpr int kRows = 16;  // as many as lessons 07 and 08 give to a block
constexpr float kEps = 1e-5f;
constexpr int kWarp = 32;

/// Small whole numbers: their squares add up to numbers that a reader can add up, too.
std::vector<float> numbers(int size) {
  std::vector<float> all;
  for (int i = 0; i < size; ++i) all.push_back(static_cast<float>((5 * i + i / 7) % 7 - 3));
  return all;
}

/// Neighbouring steps of a warp, or of several warps at the same time, that are of one line.
using StepGroup = std::vector<Step>;

bool is_alike(const Step& a, const Step& b) {
  return a.file == b.file && a.line == b.line && a.kind == b.kind && a.what == b.what;
}

/// Takes the next moment from the front of a warp's steps: those of one line, up to a shuffle or to
/// the loop's next turn. Two loads from shared memory may be the terms of a sum.
StepGroup next_group(std::vector<Step>& steps) {
  auto end = steps.begin() + 1;
  const auto is_next = [&](const Step& step) {
    const bool is_again =
        step.kind != "shared load" &&
        std::any_of(steps.begin(), end, [&](const Step& before) { return is_alike(before, step); });
    return step.kind == "shuffle" || step.line != steps[0].line || is_again;
  };
  if (steps[0].kind != "shuffle") {
    while (end != steps.end() && !is_next(*end)) ++end;
  }
  StepGroup group(steps.begin(), end);
  steps.erase(steps.begin(), end);
  return group;
}

/// The moments between two barriers, of each warp in its order; those that are alike are one.
std::vector<StepGroup> merged(const std::vector<Step>& steps) {
  std::map<int, std::vector<Step>> of_warps;
  for (const Step& step : steps) of_warps[step.threads.at(0).number / kWarp].push_back(step);
  std::map<int, std::vector<StepGroup>> groups;
  for (auto& [warp, left] : of_warps) {
    while (!left.empty()) groups[warp].push_back(next_group(left));
  }
  std::vector<StepGroup> all;
  for (auto first = groups.begin(); first != groups.end(); ++first) {
    for (StepGroup& group : first->second) {
      for (auto other = std::next(first); other != groups.end(); ++other) {
        std::vector<StepGroup>& left = other->second;
        const bool is_same =
            !left.empty() &&
            std::equal(group.begin(), group.end(), left[0].begin(), left[0].end(), is_alike);
        if (!is_same) continue;
        for (std::size_t i = 0; i < group.size(); ++i) {
          const auto& more = left[0][i].threads;
          group[i].threads.insert(group[i].threads.end(), more.begin(), more.end());
        }
        left.erase(left.begin());
      }
      all.push_back(std::move(group));
    }
  }
  return all;
}

std::vector<StepGroup> groups_of(const std::vector<Step>& steps) {
  std::vector<StepGroup> all;
  std::vector<Step> before_barrier;
  const auto flush = [&] {
    for (StepGroup& group : merged(before_barrier)) all.push_back(std::move(group));
    before_barrier.clear();
  };
  for (const Step& step : steps) {
    if (step.kind != "barrier") {
      before_barrier.push_back(step);
    } else {
      flush();
      all.push_back({step});
    }
  }
  flush();
  return all;
}

/// The lane from which each lane of a warp gets a value in a shuffle of a block's first threads.
std::vector<std::int64_t> sources_of(const Step& shuffle) {
  std::vector<std::int64_t> lanes;
  for (std::size_t i = 0; i < shuffle.threads.size(); ++i) {
    const Step::Thread& thread = shuffle.threads[i];
    REQUIRE(thread.number == static_cast<int>(i));
    REQUIRE(thread.at / kWarp == thread.number / kWarp);
    if (i < kWarp) lanes.push_back(thread.at % kWarp);
    REQUIRE(lanes[i % kWarp] == thread.at % kWarp);  // alike in all warps
  }
  return lanes;
}

/// The threads of a load or store, as runs of neighbours: [first, how many, the float that the
/// first one begins at, by how many floats each other one is further].
std::vector<std::string> runs_of(const std::vector<Step::Thread>& threads) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < threads.size();) {
    const auto distance_to = [&](std::size_t k) { return (threads[k].at - threads[k - 1].at) / 4; };
    const auto follows = [&](std::size_t k) {
      return k < threads.size() && threads[k].number == threads[k - 1].number + 1;
    };
    std::size_t end = i + 1;
    const auto apart = follows(end) ? distance_to(end) : 0;
    while (follows(end) && distance_to(end) == apart) ++end;
    runs.push_back(
        fmt::format("[{},{},{},{}]", threads[i].number, end - i, threads[i].at / 4, apart));
    i = end;
  }
  return runs;
}

/// A step as JSON: [kind, what, floats of a thread, runs_of, values], or of a shuffle: [kind, "",
/// how many threads, sources_of, values]. The values are sums; zeros at their end are left out.
std::string json_of(const Step& step) {
  const bool is_shuffle = step.kind == "shuffle";
  std::vector<std::string> values;
  for (const Step::Thread& thread : step.threads) {
    if (is_shuffle || step.kind == "shared store")
      values.push_back(fmt::format("{}", thread.value));
  }
  while (!values.empty() && values.back() == "0") values.pop_back();
  const std::string places = is_shuffle ? fmt::format("{}", fmt::join(sources_of(step), ","))
                                        : fmt::format("{}", fmt::join(runs_of(step.threads), ","));
  const auto size = is_shuffle ? step.threads.size() : static_cast<std::size_t>(step.bytes / 4);
  return fmt::format(
      "[\"{}\",\"{}\",{},[{}],[{}]]", step.kind, step.what, size, places, fmt::join(values, ","));
}

/// A source line without its indent, as JSON.
std::string code_of(const Step& step) {
  const std::string line = lines_of(top() / step.file).at(static_cast<std::size_t>(step.line) - 1);
  return fmt::format("\"{}\"", line.substr(line.find_first_not_of(' ')));
}

/// What a lesson's kernel does with rows of so many columns, as JSON.
std::string json_of(const Implementation& lesson, int columns) {
  const Floats x(numbers(kRows * columns));
  const Floats weight(numbers(columns));
  const Floats y(kRows * columns);
  Problem problem;
  problem.tensors[0] = x.data;
  problem.tensors[1] = weight.data;
  problem.tensors[2] = y.data;
  problem.rows = kRows;
  problem.hidden = columns;
  problem.eps = kEps;
  if (const std::string reason = lesson.unsupported(problem); !reason.empty()) FAIL(reason);
  const Outcome outcome = watch(
      {x.named("x"), weight.named("weight"), y.named("y")},
      [&] { REQUIRE(lesson.launch(problem, nullptr) == cudaSuccess); }, true);
  REQUIRE(outcome.at_synchronise == cudaSuccess);
  REQUIRE(outcome.hazards.empty());

  int threads = 0;  // of the block: each does something
  std::vector<std::string> groups;
  for (const StepGroup& group : groups_of(outcome.seen.steps)) {
    std::vector<std::string> steps;
    for (const Step& step : group) {
      steps.push_back(json_of(step));
      if (!step.threads.empty()) threads = std::max(threads, step.threads.back().number + 1);
    }
    groups.push_back(fmt::format("[{},{}]", code_of(group[0]), fmt::join(steps, ",")));
  }
  return fmt::format(
      "{{\"slug\":\"{}\",\"title\":\"{}\",\"columns\":{},\"blocks\":{},\"threads\":{},"
      "\"steps\":[{}]}}",
      lesson.slug, lesson.title, columns, outcome.seen.blocks, threads, fmt::join(groups, ","));
}

}  // namespace

TEST_CASE("what threads do in the lessons on short rows is what the figure of them draws") {
  NEEDS_COUNTS();
  std::vector<std::string> runs;
  for (const char* slug : kSlugs) {
    const std::vector<Implementation> all = all_implementations();
    const auto lesson = std::find_if(all.begin(), all.end(), [&](const Implementation& one) {
      return one.slug == fs::path(slug);
    });
    REQUIRE(lesson != all.end());
    for (const int columns : kColumns) {
      CAPTURE(slug, columns);
      runs.push_back(json_of(*lesson, columns));
    }
  }
  const fs::path recorded = top() / "docs/interactive/ladder_steps.js";
  const fs::path written = fs::path(RMSNORM_LESSONS_DIR).parent_path() / "tests/ladder_steps.js";
  const std::vector<float> x = numbers(kRows * *std::prev(std::end(kColumns)));
  std::ofstream(written) << fmt::format(
      "/* What the CPU device recorded of the lessons (tests/test_recorded_steps.cpp). */\n"
      "figures.ladderSteps = {{\"rows\":{},\"eps\":{},\n\"x\":[{}],\n\"runs\":[\n{}]}};\n",
      kRows, kEps, fmt::join(x, ","), fmt::join(runs, ",\n"));
  INFO("If the lessons changed on purpose: cp " << written << " " << recorded);
  CHECK(lines_of(written) == lines_of(recorded));
}
