/// \file
/// What the CPU device says of a lesson without one of its barriers, and what a lesson's page
/// quotes of that and of what its lines cost.

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/exit_code.hpp"
#include "common/base/files.hpp"
#include "common/contract/registry.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/markdown.hpp"
#include "tests/repository.hpp"

namespace fs = std::filesystem;
using namespace tests;

namespace {

/// How a lesson's n-th barrier is missed, if not by a race in rows of 4096 that its page quotes.
struct Exception {
  std::string slug;
  int number;              ///< from 1, in the order of the lines
  std::string hidden;      ///< columns for which it is met
  bool is_quoted = false;  ///< whether the lesson's page quotes the race
};

const Exception kExceptions[] = {
    {"14_backward", 2, "128"}, {"14_backward", 3, "4096"}, {"15_clusters", 1, "4096"}};

/// "lessons/04_warp_reduce/rms_norm.cu:49", the one line of the file that holds this code.
std::string place_of(const std::string& file, const std::string& code) {
  const std::vector<std::string> lines = lines_of(top() / file);
  const auto holds = [&](const std::string& line) { return line.find(code) != line.npos; };
  CAPTURE(file, code);
  REQUIRE(std::count_if(lines.begin(), lines.end(), holds) == 1);
  const auto at = std::find_if(lines.begin(), lines.end(), holds);
  return file + ":" + std::to_string(at - lines.begin() + 1);
}

/// The lines of a file's barriers, in their order.
std::vector<int> barriers_in(const std::string& file) {
  std::vector<int> barriers;
  int number = 0;
  for (const std::string& line : lines_of(top() / file)) {
    ++number;
    if (line.find("__syncthreads();") != line.npos) barriers.push_back(number);
  }
  return barriers;
}

/// Runs lessons without the n-th barrier of a file.
Finished run_without(
    const std::string& file, int number, const std::vector<std::string>& options,
    const std::string& most_of_cluster = "0") {
  const std::vector<int> barriers = barriers_in(file);
  CAPTURE(file, number);
  REQUIRE(static_cast<std::size_t>(number) <= barriers.size());
  const std::string line = std::to_string(barriers[static_cast<std::size_t>(number) - 1]);
  std::vector<std::string> command = {RMSNORM_WITHOUT_ONE_BARRIER, file, line, most_of_cluster};
  command.insert(command.end(), options.begin(), options.end());
  return run(command);
}

/// What the page quotes as output, in ```text.
std::string quotes_of(const fs::path& page) {
  std::string quotes;
  for (const Fence& fence : fences_of(rmsnorm::read_file(page))) {
    if (fence.language != "text") continue;
    for (const std::string& line : fence.code) quotes += line + "\n";
  }
  return on_one_line(quotes);
}

/// Whether the page says that its barriers protect what an earlier lesson's do, by a link.
bool says_whose_barriers(const fs::path& page) {
  return rmsnorm::read_file(page).find("/README.md#what-each-barrier-protects)") !=
         std::string::npos;
}

/// The rows of --trace that the page quotes: what follows "line  operation" in a ```text. A "..."
/// at the end stands for the rest of the row.
std::vector<std::string> trace_rows_of(const fs::path& page) {
  std::vector<std::string> rows;
  for (const Fence& fence : fences_of(rmsnorm::read_file(page))) {
    bool in_table = false;
    for (const std::string& line : fence.code) {
      const std::string row = on_one_line(line);
      if (in_table) rows.push_back(row.ends_with("...") ? row.substr(0, row.size() - 3) : row);
      in_table = in_table || row.starts_with("line operation");
    }
  }
  return rows;
}

/// The first message that names a line of the file, up to " (kernel ...".
std::string first_message(const std::string& out, const std::string& file) {
  const std::size_t begin = std::min(out.find(file + ":"), out.size());
  return out.substr(begin, out.find(" (kernel", begin) - begin);
}

}  // namespace

TEST_CASE(
    "without one of its barriers every lesson has a race, which its page quotes, if it is not an "
    "earlier lesson's",
    "[whole]") {
  if (!rmsnorm::can_watch()) SKIP_TEST("this build cannot watch kernels");
  int all = 0;
  for (const fs::path& path : files_with({".cu", ".cuh"})) {
    if (path.parent_path().parent_path() != top() / "lessons") continue;
    if (path.stem() == "exercise" || path.stem() == "variants") continue;
    const std::string file = path.lexically_relative(top());
    const int in_file = static_cast<int>(barriers_in(file).size());
    for (int number = 1; number <= in_file; ++number, ++all) {
      Exception barrier{path.parent_path().filename(), number, "4096", true};
      for (const Exception& other : kExceptions) {
        if (other.slug == barrier.slug && other.number == number) barrier = other;
      }
      CAPTURE(file, number);
      const Finished finished = run_without(
          file, number, {"--lesson", barrier.slug, "--rows", "32", "--hidden", barrier.hidden});
      CHECK(finished.exit_code == rmsnorm::kLessonWrong);
      // Where it shows, the page says, whose lines the reader can look up.
      const std::string message = first_message(on_one_line(finished.out), file);
      CHECK_THAT(message, contains(": a race: ") && contains(", and no"));
      if (!barrier.is_quoted) continue;
      const fs::path page = path.parent_path() / "README.md";
      if (says_whose_barriers(page)) continue;
      CHECK_THAT(quotes_of(page), contains(on_one_line(message)));
    }
  }
  CHECK(all > 20);
}

TEST_CASE("without one of its barriers the library has a race") {
  if (!rmsnorm::can_watch()) SKIP_TEST("this build cannot watch kernels");
  struct Missing {
    std::string file, seen_at, operation, rows, hidden;
    int number = 1;                     // of the file's barriers
    std::string most_of_cluster = "0";  // blocks; 0: any number
    std::string seen_in = "";           // another file
  };
  const Missing all[] = {
      {"row.cuh", "if (lane == 0) partial[warp] = value;", "residual_add", "32", "1024"},
      {"backward_row.cuh", "sum += of_place[place * hidden + col];", "backward", "32", "128"},
      {"backward.cu", "if (lane == 0) own[threadIdx.x / 32] = value;", "backward", "32", "1024"},
      {"backward_columns.cu", "of_warp[threadIdx.y][threadIdx.x] = sum;", "backward", "32", "128"},
      {"forward_cluster.cu", "asm volatile(  // asks the barrier", "rms_norm", "32", "16384", 1,
       "0", "cluster.cuh"},
      {"fp8_cluster.cu", "asm volatile(  // asks the barrier", "rms_norm_e4m3_row", "32", "49152",
       1, "0", "cluster.cuh"},
      {"row.cuh", "if (lane == 0) sums[warp] = sum;", "rms_norm", "32", "16384", 2, "1"},
      {"residual_add_cluster.cu", "asm volatile(  // asks the barrier", "residual_add", "32",
       "16384", 1, "0", "cluster.cuh"},
      {"row.cuh", "if (lane == 0) sums[warp] = sum;", "residual_add", "32", "16384", 2, "1"},
      {"fp8_aligned.cu", "if (lane == 0) partial[threadIdx.x / 32] = value;", "rms_norm_e4m3_row",
       "32", "1024"},
      {"fp8_aligned.cu", "if (lane % 16 == 0) partial[lane / 16 * warps + threadIdx.x / 32] = sum;",
       "rms_norm_e4m3", "4096", "1024", 2}};
  std::set<std::pair<std::string, int>> left_out;
  for (const auto& [name, seen_at, operation, rows, hidden, number, most, other] : all) {
    left_out.emplace(name, number);
    const std::string file = "library/kernels/" + name;
    const std::string seen_in = other.empty() ? file : "library/kernels/" + other;
    const Finished finished = run_without(
        file, number,
        {"--lesson", "librmsnorm", "--operation", operation, "--rows", rows, "--hidden", hidden},
        most);
    CAPTURE(file, finished.out);
    CHECK(finished.exit_code == rmsnorm::kLessonWrong);
    CHECK(first_message(finished.out, seen_in)
              .starts_with(place_of(seen_in, seen_at) + ": a race: "));
  }
  std::size_t barriers = 0;
  for (const fs::path& file : files_with({".cu", ".cuh"})) {
    if (file.parent_path() != top() / "library/kernels") continue;
    // No program runs these: library_tests do.
    if (file.filename() == "gated_backward.cu" || file.filename() == "all_reduce.cu") continue;
    barriers += barriers_in(file.lexically_relative(top())).size();
  }
  CHECK(barriers == left_out.size());
}

TEST_CASE("a mistake is told once and the output ends with what is wrong") {
  if (!rmsnorm::can_watch()) SKIP_TEST("this build cannot watch kernels");
  const Finished finished =
      run_without("lessons/02_naive/rms_norm.cu", 2, {"--lesson", "02_naive"});
  CHECK(finished.exit_code == rmsnorm::kLessonWrong);
  int told = 0;
  int as_above = 0;
  int right = 0;
  const std::vector<std::string> lines = lines_in(finished.out);
  for (const std::string& line : lines) {
    told += line.find(": a race: ") != line.npos;
    as_above += line.starts_with("02_naive ") && line.ends_with("FAIL  as above");
    // In the table, the costs are those of the kernel that is right.
    if (line.starts_with("  02_naive ")) CHECK(line.ends_with("FAIL"));
    if (!line.starts_with("  02_naive/")) continue;
    right += line.find("PASS  ") != line.npos;
    CHECK(as_above == 0);  // what is wrong comes last
  }
  CHECK(told == 1);
  CHECK(as_above == 3);
  CHECK(right == 4);
  CHECK(lines.back() == "wrong: 02_naive in prefill, decode, heads, wide (see above)");

  // Another mistake of the same lesson is told in full: in wide, this one takes another kernel.
  CHECK_THAT(
      on_one_line(
          run_without("lessons/07_multi_row/rms_norm.cu", 1, {"--lesson", "07_multi_row"}).out),
      contains("kernel rms_norm_multi_row<512>") && contains("kernel rms_norm_multi_row<1024>") &&
          contains("FAIL as above"));
}

TEST_CASE("the rows of a trace on a lesson's page are those that the lesson prints") {
  if (!rmsnorm::can_watch()) SKIP_TEST("this build cannot watch kernels");
  for (const fs::path& folder : lesson_folders()) {
    const std::vector<std::string> rows = trace_rows_of(folder / "README.md");
    if (rows.empty()) continue;
    const std::string slug = folder.filename();
    std::vector<std::string> command = {
        std::string(RMSNORM_LESSONS_DIR) + "/" + slug, "--trace", "--variants"};
    const std::string page = rmsnorm::read_file(folder / "README.md");
    if (page.find("--trace --dtype bf16`") != page.npos) {  // the trace in another type
      command.insert(command.end(), {"--dtype", "bf16"});
    }
    static const std::regex kProblem(
        "--device cpu (--rows [0-9]+ --hidden [0-9]+ --dtype \\S+) --trace");
    if (std::smatch match; std::regex_search(page, match, kProblem)) {  // of another problem
      std::istringstream options(match[1].str());
      command.insert(
          command.end(), std::istream_iterator<std::string>(options),
          std::istream_iterator<std::string>());
    } else {  // it is in this regime anyway: in the others, the lesson need not run
      const auto lesson = rmsnorm::find_implementations(rmsnorm::all_implementations(), slug);
      command.insert(command.end(), {"--regime", lesson.at(0).regime});
    }
    const Finished finished = run(command);
    CHECK(finished.exit_code == rmsnorm::kAllVerified);
    std::vector<std::string> printed;
    for (const std::string& line : lines_in(finished.out)) {
      const bool goes_on = line.starts_with(std::string(20, ' ')) && !printed.empty();
      if (goes_on) printed.back() += " ";
      if (!goes_on) printed.emplace_back();
      printed.back() += on_one_line(line);
    }
    for (const std::string& row : rows) {
      CAPTURE(slug, row);
      CHECK(std::any_of(printed.begin(), printed.end(), [&](const std::string& line) {
        return line.starts_with(row);
      }));
    }
  }
}
