/// \file
/// The exercises: as they are given they are right and miss their goals, and solved they reach
/// them.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/files.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/measure/gpu.hpp"
#include "common/programs/exercise.hpp"
#include "common/programs/options.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/edits.hpp"
#include "tests/repository.hpp"

namespace fs = std::filesystem;
using namespace rmsnorm;
using namespace tests;

namespace {

Finished run_program(const std::string& name, const std::vector<std::string>& options = {}) {
  std::vector<std::string> command = {std::string(RMSNORM_LESSONS_DIR) + "/" + name};
  command.insert(command.end(), options.begin(), options.end());
  return run(command);
}

/// How many lines of the output have this word as their second.
std::ptrdiff_t verdicts(const std::string& out, const std::string& slug, const std::string& word) {
  const std::vector<std::string> lines = lines_in(out);
  return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
    const std::size_t at = line.find_first_not_of(' ', slug.size());
    return line.starts_with(slug + " ") && line.compare(at, word.size() + 1, word + " ") == 0;
  });
}

bool is_tag(const std::string& line) {
  const std::size_t begin = line.find("// [");
  return begin != line.npos && line.find_first_not_of(' ') == begin && line.ends_with("]");
}

/// The lines of a kernel file without the comment at its top, its tags and its variants.
std::vector<std::string> body_of(const fs::path& file) {
  std::vector<std::string> body;
  bool in_head = true;
  bool in_variant = false;
  for (const std::string& line : lines_of(file)) {
    in_head = in_head && line.starts_with("//");
    const bool ends_variant = in_variant && line == "// [variant]";
    if (line == "// [variant]") in_variant = !in_variant;
    if (in_head || in_variant || ends_variant || is_tag(line)) continue;
    // A variant leaves the empty line after it.
    if (line.empty() && !body.empty() && body.back().empty()) continue;
    body.push_back(line);
  }
  return body;
}

std::ptrdiff_t count_of(const std::vector<std::string>& lines, const std::string& mark) {
  return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.find(mark) != line.npos;
  });
}

const char* const kBegin = "// >>> your turn";
const char* const kEnd = "// <<<";

fs::path folder_of(const std::string& slug) {
  return top() / "lessons" / slug;
}

bool is_project(const std::string& slug) {
  return !fs::exists(folder_of(slug) / "rms_norm.cu");
}

/// The file that solves it: the lesson's kernel, or ours for a project.
fs::path solution_of(const std::string& slug) {
  return is_project(slug) ? top() / "tests/operations" / slug / "solution.cu"
                          : folder_of(slug) / "rms_norm.cu";
}

/// What it is called behind ./rmsnorm exercise.
std::string name_of(const std::string& slug) {
  return is_project(slug) ? slug : std::to_string(std::stoi(slug));
}

/// The texts of all that is checked in an exercise's goals.cpp: {"at most 2 barriers per row", ...
std::vector<std::string> texts_of(const std::vector<std::string>& lines) {
  std::vector<std::string> texts;
  for (const std::string& line : lines) {
    const std::size_t begin = line.find("{\"");
    if (begin == line.npos || line.find(".regimes") != line.npos) continue;
    texts.push_back(line.substr(begin + 2, line.find('"', begin + 2) - begin - 2));
  }
  REQUIRE_FALSE(texts.empty());
  return texts;
}

/// Those of its goals, without what a solution has to stay within.
std::vector<std::string> goals_of(const std::string& slug) {
  std::vector<std::string> lines = lines_of(folder_of(slug) / "goals.cpp");
  const auto is_within = [](const std::string& line) { return line.find(".within") != line.npos; };
  lines.erase(std::find_if(lines.begin(), lines.end(), is_within), lines.end());
  return texts_of(lines);
}

LineCount global_load(const char* what, int lanes, int sectors) {
  LineCount count;
  count.kind = "global load";
  count.what = what;
  count.requests = 1;
  count.lanes = lanes;
  count.sectors = sectors;
  return count;
}

Watched launch_of(std::vector<LineCount> lines) {
  Watched launch{};
  launch.rows = 1;
  launch.hidden = 32;
  launch.counts.lines = std::move(lines);
  return launch;
}

}  // namespace

TEST_CASE(
    "an exercise that nobody has touched is right where it is counted, misses its goals and keeps "
    "the rest, as the pages show",
    "[whole]") {
  const std::string front_page = read_file(top() / "README.md");
  for (const std::string& slug : exercises()) {
    CAPTURE(slug);
    // On all problems where a page quotes that, and on a GPU, where it takes less time.
    const bool is_whole = !can_watch() || is_project(slug) || slug == "04_warp_reduce";
    const Finished finished = run_program(
        "exercise_" + slug,
        is_whole ? std::vector<std::string>{} : std::vector<std::string>{"--goals"});
    if (finished.exit_code == kNoDevice) SKIP_TEST("there is no GPU");
    CAPTURE(finished.out);
    CHECK(verdicts(finished.out, slug, "RIGHT") == 1);
    if (!can_watch()) {
      CHECK(finished.exit_code == kAllVerified);  // nothing is counted on a GPU
      continue;
    }
    CHECK(finished.exit_code == kGoalMissed);
    CHECK(verdicts(finished.out, slug, "NOT") == std::ssize(goals_of(slug)));
    CHECK(verdicts(finished.out, slug, "GOAL") == 0);
    CHECK(verdicts(finished.out, slug, "BUT") == 0);
    for (const std::string& goal : goals_of(slug)) {
      CHECK_THAT(finished.out, contains("NOT YET  " + goal + ":"));
    }
    if (slug == "04_warp_reduce") {
      CHECK_THAT(front_page, contains("```text\n" + finished.out + "```\n"));
    }
    if (!is_project(slug)) continue;
    std::string verdicts_on_page = "```text\n";
    for (const std::string& line : lines_in(finished.out)) {
      const bool goes_on = line.starts_with("  ") && line.find(" counted in ") != line.npos;
      if (line.starts_with(slug) || goes_on) verdicts_on_page += line + "\n";
    }
    CHECK_THAT(read_file(folder_of(slug) / "README.md"), contains(verdicts_on_page + "```\n"));
  }
}

TEST_CASE(
    "the lesson's kernel in the place of the exercise's, or ours, reaches every goal", "[whole]") {
  for (const std::string& slug : exercises()) {
    CAPTURE(slug);
    // That a lesson's kernel is right on all problems, test_mutants.cpp shows.
    std::vector<std::string> options;
    if (!is_project(slug)) options = {"--goals"};
    const Finished finished = run_program("solution_" + slug, options);
    if (finished.exit_code == kNoDevice) SKIP_TEST("there is no GPU");
    CAPTURE(finished.out);
    CHECK(finished.exit_code == kAllVerified);
    CHECK(verdicts(finished.out, slug, "RIGHT") == 1);
    if (!can_watch()) continue;
    CHECK(verdicts(finished.out, slug, "GOAL") == std::ssize(goals_of(slug)));
    bool is_reason = false;  // why it does not support some problems
    for (const std::string& line : lines_in(finished.out)) {
      CHECK(columns(line) <= 100);
      if (line.starts_with(slug)) is_reason = false;
      if (line.starts_with("  does not support ")) is_reason = true;
      CHECK((line.starts_with(slug) || is_reason || line.find(" counted in ") != line.npos));
    }
  }
}

TEST_CASE("on a GPU our kernels of the projects are as fast as the roof", "[whole]") {
  for (const std::string& slug : exercises()) {
    if (!is_project(slug)) continue;
    CAPTURE(slug);
    const Finished finished = run({RMSNORM_LESSONS_DIR "/solution_" + slug, "--time"});
    if (finished.exit_code == kNoDevice) SKIP_TEST("there is no GPU");
    CAPTURE(finished.out, finished.err);
    CHECK(finished.exit_code == kAllVerified);
    for (const char* regime : {"prefill", "heads"}) CHECK_THAT(finished.out, contains(regime));
    CHECK(verdicts(finished.out, slug, "GOAL") == (is_cpu_device() ? 0 : 2));
  }
}

TEST_CASE("the time of a project's kernel is graded against the roof's") {
  const auto judged = [](double gbps) {
    Result result{.regime = "heads", .gbps = gbps, .roof_gbps = 1000.0};
    return std::pair(is_as_fast_as_roof(result), share_text(result));
  };
  CHECK(judged(950).first);
  CHECK_FALSE(judged(949).first);
  CHECK(judged(1010).second == "at least 95 % of the roof's bandwidth: 101.0 % measured in heads");
  CHECK(judged(949).second == "at least 95 % of the roof's bandwidth: 94.9 % measured in heads");
}

TEST_CASE("outside of its marks an exercise is its lesson's kernel file, or our solution's") {
  for (const std::string& slug : exercises()) {
    CAPTURE(slug);
    const std::vector<std::string> exercise = body_of(given_file(slug));
    const std::vector<std::string> lesson = body_of(solution_of(slug));
    // Its parts in turn: outside of the marks, inside, and so on.
    std::vector<std::vector<std::string>> parts(1);
    for (const std::string& line : exercise) {
      const bool is_inside = parts.size() % 2 == 0;
      if (line.find(is_inside ? kEnd : kBegin) == line.npos) {
        parts.back().push_back(line);
      } else {
        parts.emplace_back();
      }
    }
    REQUIRE(parts.size() > 2);
    REQUIRE(parts.size() % 2 == 1);  // each that begins has an end
    auto at = lesson.begin();
    for (std::size_t i = 0; i < parts.size(); i += 2) {
      const std::vector<std::string>& part = parts[i];
      REQUIRE(std::ssize(part) <= lesson.end() - at);
      const auto found = i + 1 == parts.size()
                             ? lesson.end() - std::ssize(part)
                             : std::search(at, lesson.end(), part.begin(), part.end());
      REQUIRE_FALSE(part.empty());
      CAPTURE(part.front());
      REQUIRE(found != lesson.end());
      CHECK(std::equal(part.begin(), part.end(), found));
      // And inside they differ: there is something to do.
      if (i == 0) CHECK(found == lesson.begin());
      if (i > 0) CHECK_FALSE(std::equal(parts[i - 1].begin(), parts[i - 1].end(), at, found));
      at = found + std::ssize(part);
    }
  }
}

TEST_CASE("every lesson on the device and every project has goals, three hints and a title") {
  std::vector<std::string> slugs;
  for (const fs::path& folder : lesson_folders()) {
    const std::vector<std::string> lesson = lines_of(folder / "rms_norm.cu");
    if (count_of(lesson, ".memory = rmsnorm::Memory::host") == 0)
      slugs.push_back(folder.filename());
  }
  for (const fs::path& folder : project_folders()) slugs.push_back(folder.filename());
  CHECK(exercises() == slugs);

  for (const std::string& slug : exercises()) {
    CAPTURE(slug);
    const std::string name = name_of(slug);
    const std::vector<std::string> lines = lines_of(given_file(slug));
    REQUIRE(lines.size() > 4);
    const std::string page = read_file(folder_of(slug) / "README.md");
    if (is_project(slug)) {
      REQUIRE(lines[0].starts_with("// Your turn - "));
      const std::string title = lines[0].substr(std::string("// Your turn - ").size());
      CHECK(page.starts_with("# Your turn: " + title + "\n"));
    } else {
      const std::string title = lines_of(folder_of(slug) / "rms_norm.cu").front();
      CHECK(lines[0] == "// Exercise" + title.substr(std::string("// Lesson").size()));
    }
    CHECK(lines[1].starts_with("// Given      "));
    CHECK(lines[2].starts_with("// Goal       "));
    const std::string last = "// Check it   ./rmsnorm exercise " + name;
    const auto end_of_head = std::find(lines.begin(), lines.end(), last);
    REQUIRE(end_of_head != lines.end());
    std::string head;
    int within = 0;
    for (auto line = lines.begin() + 2; line != end_of_head; ++line) {
      const bool is_within = line->starts_with("// Within     ");
      within += is_within;
      CHECK((line == lines.begin() + 2 || is_within || line->starts_with("//            ")));
      head += line->substr(std::string("//           ").size());
    }
    CHECK(within == 1);
    // It says all that is checked, in the same words.
    for (const std::string& text : texts_of(lines_of(folder_of(slug) / "goals.cpp"))) {
      CHECK_THAT(head, contains(text));
    }

    CHECK_THAT(page, contains("./rmsnorm exercise " + name + (is_project(slug) ? "\n" : "`")));
    for (const char* hint : {"Hint 1", "Hint 2", "Hint 3"}) {
      CHECK_THAT(page, contains("<details><summary>" + std::string(hint) + "</summary>"));
    }
  }
}

#ifdef RMSNORM_WAYS_ROUND_DIR
TEST_CASE("a way round the idea of an exercise is not taken for the idea", "[whole]") {
  if (!can_watch()) SKIP_TEST("this build cannot watch kernels");
  // The pages show what is said of these; of one that is right, without the number of problems.
  const std::vector<std::pair<std::string, const char*>> shown = {
      {"05_cub_warp_reduce.padded", "lessons/05_cub_warp_reduce/README.md"},
      {"gated_norm.fast_exponential", "lessons/gated_norm/README.md"},
      {"layer_norm.mean_of_squares", "lessons/layer_norm/README.md"},
      {"softmax.masked", "lessons/softmax/README.md"}};
  for (const Edit& way : edits_in("tests/exercises")) {
    CAPTURE(way.file);
    const Entry missed = entry_of(way, "Goal missed");
    std::vector<std::string> command = {RMSNORM_WAYS_ROUND_DIR "/" + way.name()};
    if (missed.is_there) command.push_back("--goals");
    const Finished finished = run(command);
    CAPTURE(finished.out);
    CHECK(finished.exit_code == (missed.is_there ? kGoalMissed : kLessonWrong));
    const Entry said = missed.is_there ? missed : entry_of(way, "Rejected");
    REQUIRE(!said.text.empty());
    CHECK_THAT(on_one_line(finished.out), contains(on_one_line(said.text)));
    for (const auto& [name, page] : shown) {
      if (name != way.name()) continue;
      std::string text = finished.out;
      if (missed.is_there) text.erase(0, text.find('\n') + 1);
      CHECK_THAT(read_file(top() / page), contains("```text\n" + text + "```\n"));
    }
  }
}
#endif

TEST_CASE("a line that is not of the exercise's file is named with its file") {
  LineCount line;
  line.line = 39;
  for (const char* file :
       {"exercises/04_warp_reduce.cu", "build/cpu/exercises/04_warp_reduce.cu"}) {
    line.file = file;
    CHECK(place_of(line, "04_warp_reduce") == "line  39");
  }
  line.file = "library/kernels/row.cuh";
  CHECK(place_of(line, "04_warp_reduce") == "library/kernels/row.cuh:39");
}

TEST_CASE("a goal is judged by all lines, by the worst of them, or by the blocks") {
  const LineCount x = global_load("x", 32, 4), weight = global_load("weight", 16, 16);
  LineCount last = x, first = x, barrier, trigger, late;
  last.policy = "evict_last";
  first.policy = "evict_first";
  barrier.kind = "barrier";
  barrier.requests = 8;
  trigger.kind = "trigger";
  trigger.requests = 3;
  late.kind = "late trigger";
  late.requests = 1;
  const Goal barriers{"at most 9 barriers", Quantity::barriers, Goal::at_most, 9};
  const Goal sectors{"at most 20 sectors", Quantity::sectors, Goal::at_most, 20};
  const Goal most{"at most 4 sectors", Quantity::most_sectors, Goal::at_most, 4};
  const Goal fewest{"16 sectors", Quantity::fewest_sectors, Goal::at_least, 16};
  const Goal lanes{"32 lanes", Quantity::lanes_a_request, Goal::at_least, 32};
  const Goal kept{"all of x kept", Quantity::unkept_x, Goal::at_most, 0};
  const Goal once{"x once", Quantity::reads_of_x, Goal::at_most, 1};
  const Goal triggers{"each of 4 blocks", Quantity::triggers, Goal::at_least, 0.75};
  const Goal half{"half of the blocks", Quantity::overlaps, Goal::at_least, 0.5};
  const Goal all{"all blocks", Quantity::overlaps, Goal::at_least, 1};
  struct Case {
    Goal goal;
    std::vector<LineCount> lines;
    double counted;
    bool reached;
  };
  for (const auto& [goal, lines, counted, reached] : std::vector<Case>{
           {barriers, {x, barrier}, 8, true},
           {barriers, {barrier, x, barrier}, 16, false},
           {barriers, {}, 0, true},
           {sectors, {x, weight, barrier}, 20, true},
           {sectors, {x, weight, weight}, 36, false},
           {most, {x, weight}, 16, false},
           {fewest, {x, weight}, 4, false},
           {lanes, {x, weight}, 16, false},
           {kept, {last, weight}, 0, true},
           {kept, {last, first}, 1, false},
           {kept, {last, x}, 1, false},
           {once, {x, weight}, 1, true},
           {once, {global_load("x", 32, 32)}, 8, false},  // in whole sectors
           {triggers, {trigger, late}, 0.75, true},
           {triggers, {late}, 0, false},
           {half, {x}, 0.5, true},
           {all, {trigger}, 0.5, false}}) {
    Watched launch = launch_of(lines);
    launch.counts.blocks = 4;
    launch.counts.overlapping_blocks = 2;
    CAPTURE(goal.text, lines.size());
    CHECK(judge(goal, launch).counted == counted);
    CHECK(judge(goal, launch).reached == reached);
    if (reached) CHECK(judge(goal, launch).parts.empty());
  }
  for (const Goal& goal : {most, fewest, lanes}) CHECK_FALSE(judge(goal, launch_of({})).reached);
  LineCount one = barrier;
  one.requests = 1;
  CHECK(judge(barriers, launch_of({one, barrier, one})).parts.at(0).first == 8);  // worst first
  const Goal enough{"at least 20 barriers", Quantity::barriers, Goal::at_least, 20};
  const auto counting = judge(enough, launch_of({one, x, barrier})).parts;  // largest first
  REQUIRE(counting.size() == 2);
  CHECK((counting[0].first == 8 && counting[1].first == 1));
  REQUIRE(judge(lanes, launch_of({x, weight})).parts.size() == 1);
  CHECK(judge(lanes, launch_of({x, weight})).parts[0].second.what == "weight");
}
