/// \file
/// ./rmsnorm exercise, as a reader meets it: what it keeps, shows and gives back. CMake is replaced
/// by a script, so that nothing is built.

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/files.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/repository.hpp"
#include "tests/scripted_repository.hpp"

namespace fs = std::filesystem;
using namespace tests;

namespace {

/// The exercises of such a repository.
class Repository : public ScriptedRepository {
 public:
  Repository() = default;
  /// Whose exercise 04 has been checked once, which ended like this.
  explicit Repository(int exit_code) {
    check_ends_with(exit_code);
    exercise({"4"});
  }

  /// The check of the copy of an exercise ends like this from now on.
  /// \param before  commands that run while it checks, each with a semicolon behind it
  void check_ends_with(
      int exit_code, const std::string& slug = "04_warp_reduce", const std::string& before = "") {
    build_makes("lessons/my_" + slug, before + "echo checked; exit " + std::to_string(exit_code));
  }

  /// The script says where it is after one second, not after ten.
  void hurry() const {
    std::string text = rmsnorm::read_file(script());
    const std::string ten_seconds = "-ge 10 ]";
    REQUIRE(text.find(ten_seconds) != text.npos);
    text.replace(text.find(ten_seconds), ten_seconds.size(), "-ge 1 ]");
    rmsnorm::write_file(script(), text);
    fs::permissions(script(), fs::perms::owner_all);
  }

  Finished exercise(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {script(), "exercise", "--no-install"});
    return run(arguments);
  }

  /// The line of the overview about exercise 04.
  std::string overview() const {
    for (const std::string& line : lines_in(exercise({}).out)) {
      if (line.starts_with("04_warp_reduce ")) return line;
    }
    return "";
  }

  fs::path copy() const { return folder() / "exercises/04_warp_reduce.cu"; }
};

std::string given() {
  return rmsnorm::read_file(given_file("04_warp_reduce"));
}

/// The exercise with another text in one place.
std::string with(const std::string& old_text, const std::string& new_text) {
  std::string source = given();
  REQUIRE(source.find(old_text) != source.npos);
  return source.replace(source.find(old_text), old_text.size(), new_text);
}

/// A file to check. The program that is built for that prints what it is called with.
std::string file_to_check(Repository& repository) {
  repository.build_makes("common/check_file", "echo checked \"$@\"");
  const std::string file = repository.folder() / "my.cu";
  rmsnorm::write_file(file, given());
  return file;
}

}  // namespace

TEST_CASE("the first check makes the reader's copy, and later ones leave it alone") {
  Repository repository;
  repository.check_ends_with(4);
  const Finished first = repository.exercise({"4"});
  CHECK(first.exit_code == 4);
  CHECK(first.out == "checked\n");
  CHECK_THAT(first.err, contains("your copy is exercises/04_warp_reduce.cu"));
  CHECK_THAT(first.err, contains("right, but not there yet"));
  CHECK(rmsnorm::read_file(repository.copy()) == given());

  rmsnorm::write_file(repository.copy(), with("sum = 0", "sum = 0.0f"));
  repository.exercise({"04_warp_reduce"});
  CHECK(rmsnorm::read_file(repository.copy()) == with("sum = 0", "sum = 0.0f"));
}

TEST_CASE("the overview shows what the last check found, and when a copy has changed since") {
  const std::string all_goals = std::to_string(exercises().size()) + " goals reached";
  Repository repository;
  CHECK_THAT(
      repository.overview(), contains("not begun") && contains("at most 2 barriers per row"));
  CHECK_THAT(repository.exercise({}).out, contains("0 of " + all_goals));
  repository.check_ends_with(4);
  repository.exercise({"4"});
  CHECK_THAT(repository.overview(), contains(" not begun "));  // as it was given
  rmsnorm::write_file(repository.copy(), with("sum = 0", "sum = 0.0f"));
  for (const auto& [exit_code, outcome] :
       std::vector<std::pair<int, const char*>>{{4, " right "}, {1, " wrong "}, {0, " reached "}}) {
    repository.check_ends_with(exit_code);
    const Finished finished = repository.exercise({"4"});
    CHECK(finished.exit_code == exit_code);
    CHECK((finished.err.find("next: ./rmsnorm lesson 5") != std::string::npos) == (exit_code == 0));
    CHECK_THAT(repository.overview(), contains(outcome));
  }
  CHECK_THAT(repository.exercise({}).out, contains("1 of " + all_goals));
  CHECK_THAT(repository.exercise({}).err, contains("next: ./rmsnorm exercise 2"));

  rmsnorm::write_file(repository.copy(), with("sum = 0", "sum = 1"));
  CHECK_THAT(repository.overview(), contains(" changed "));
}

TEST_CASE("each time there is one hint more, until there are three") {
  Repository repository;
  const std::string page = rmsnorm::read_file(top() / "lessons/04_warp_reduce/README.md");
  for (const int hints : {1, 2, 3, 3}) {
    const Finished finished = repository.exercise({"4", "--hint"});
    CHECK(finished.exit_code == 0);
    CHECK(finished.out.starts_with("Hint 1 of 3\n"));
    for (const int hint : {1, 2, 3}) {
      const std::string head = fmt::format("Hint {} of 3\n\n", hint);
      const std::size_t at = finished.out.find(head);
      CHECK((at != std::string::npos) == (hint <= hints));
      if (at == std::string::npos) continue;
      const std::string text = lines_in(finished.out.substr(at + head.size())).front();
      CHECK_THAT(page, contains(fmt::format("<summary>Hint {}</summary>\n\n{}", hint, text)));
    }
  }
}

TEST_CASE("the solution is shown as the difference to the lesson's kernel, nothing else") {
  Repository repository;
  const Finished finished = repository.exercise({"4", "--solution"});
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.out, contains("+  sum = warp_sum(sum);"));
  CHECK_THAT(finished.out, contains("-    __syncthreads();  // the sums that are read next"));
  for (const char* other : {"Lesson 04", "[kernel]", "Registration"}) {
    CHECK_THAT(finished.out, !contains(other));
  }
  for (const std::string& line : lines_in(finished.out)) CHECK(line.find('\x1b') == line.npos);

  // In the variants of lesson 06 there is nothing to learn for its exercise.
  CHECK_THAT(repository.exercise({"6", "--solution"}).out, !contains("512"));
}

TEST_CASE("a reset gives the exercise back as it was and keeps what the reader had") {
  Repository repository(0);
  for (const char* old : {"exercises/04_warp_reduce.old-1", "exercises/04_warp_reduce.old-2"}) {
    const std::string mine = with("sum = 0", std::string("sum = 0 /* ") + old + " */");
    rmsnorm::write_file(repository.copy(), mine);
    const Finished finished = repository.exercise({"4", "--reset"});
    CHECK(finished.exit_code == 0);
    CHECK_THAT(finished.err, contains(old));
    CHECK(rmsnorm::read_file(repository.copy()) == given());
    CHECK(rmsnorm::read_file(repository.folder() / old) == mine);
  }
  CHECK_THAT(repository.overview(), contains(" not begun "));
}

TEST_CASE("a reset gives the exercise of the lesson as it is now, and loses nothing without one") {
  Repository repository(0);
  // As it would have been given before a change of the lesson, and was left alone.
  for (const char* file : {"04_warp_reduce.cu", "04_warp_reduce.given"}) {
    rmsnorm::write_file(repository.folder() / "exercises" / file, "// of before\n");
  }
  CHECK(repository.exercise({"4", "--reset"}).exit_code == 0);
  CHECK(rmsnorm::read_file(repository.copy()) == given());
  CHECK_FALSE(fs::exists(repository.folder() / "exercises/04_warp_reduce.old-1"));

  const std::string mine = with("sum = 0", "sum = 0 /* mine */");
  rmsnorm::write_file(repository.copy(), mine);
  repository.write_program("cmake", "exit 1");  // as where the edit does not fit the lesson
  const Finished finished = repository.exercise({"4", "--reset"});
  CHECK(finished.exit_code == 2);
  CHECK_THAT(finished.err, contains("exercise.edit does not fit its kernel"));
  CHECK(rmsnorm::read_file(repository.copy()) == mine);
}

TEST_CASE("the reader is told when something outside of the marks has changed") {
  Repository repository(4);
  rmsnorm::write_file(repository.copy(), with("partial[0];", "partial[0] + 0;"));
  CHECK_THAT(repository.exercise({"4"}).err, !contains("outside of the marks"));
  rmsnorm::write_file(repository.copy(), with("+ 1 + 5 + 5;", "+ 1000;"));
  CHECK_THAT(repository.exercise({"4"}).err, contains("differs from the exercise outside"));
  rmsnorm::write_file(repository.copy(), with("  // <<<\n", ""));
  CHECK_THAT(repository.exercise({"4"}).err, contains("differs from the exercise outside"));
}

TEST_CASE(
    "an exercise is not solved by a kernel that has a stack frame where the lesson's has none") {
  Repository repository;
  repository.check_ends_with(0, "08_registers");
  const auto nvcc_says = [&](const std::string& yours, const std::string& ours) {
    repository.write_program(
        "nvcc",
        "bytes=" + yours + "; case \"$*\" in *lessons/*) bytes=" + ours +
            ";; esac\n"
            "echo 'ptxas info    : Function properties for _Z4goodv' >&2\n"
            "echo '    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads' >&2\n"
            "echo 'ptxas info    : Function properties for _Z3badILi8EEvPf' >&2\n"
            "echo \"    $bytes bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\" >&2");
  };
  nvcc_says("36", "8");
  const Finished spilled = repository.exercise({"8"});
  CHECK(spilled.exit_code == 4);
  CHECK_THAT(spilled.out, contains("NOT YET  no stack frame of more than 8 bytes per thread"));
  CHECK_THAT(spilled.out, contains("  36 bytes in bad<8>\n"));
  nvcc_says("36", "36");
  const Finished kept = repository.exercise({"8"});
  CHECK(kept.exit_code == 0);
  CHECK_THAT(kept.out, !contains("NOT YET"));
  repository.check_ends_with(0);
}

TEST_CASE("check lets nvcc compile what g++ compiles, too, and passes its registers on") {
  Repository repository;
  const std::string file = file_to_check(repository);
  const auto check_where_nvcc = [&](const std::string& does) {
    repository.write_program("nvcc", does);
    return repository.run({repository.script(), "check", "--no-install", "--device", "cpu", file});
  };
  const Finished checked = check_where_nvcc("exit 0");
  CHECK(checked.exit_code == 0);
  CHECK_THAT(  // in the check's own folder
      checked.out, contains("checked --name " + file + " --registers ") &&
                       contains("/build/cpu/check.") && contains("/nvcc.log\n"));

  const Finished refused = check_where_nvcc(
      "echo \"" + file + "(3): error: identifier \\\"a\\\" is undefined\" >&2; exit 1");
  CHECK(refused.exit_code == 2);
  CHECK(refused.out == "");
  CHECK_THAT(
      refused.err, contains("my.cu(3): error: identifier \"a\" is undefined\n") &&
                       contains("my.cu' does not compile\n"));
  const Finished too_large = check_where_nvcc("echo 'ptxas error   : too much' >&2; exit 1");
  CHECK(too_large.exit_code == 2);
  CHECK_THAT(too_large.err, contains("nvcc: error: too much\n"));

  const Finished broken = check_where_nvcc("echo 'no host compiler' >&2; exit 1");
  CHECK(broken.exit_code == 0);
  CHECK(broken.out == "checked --name " + file + "\n");
  CHECK_THAT(
      broken.err,
      contains(
          "not checked, as nvcc does not work here: registers, and what nvcc alone refuses\n"));
}

TEST_CASE("where nothing can be timed check --time says so, and checks") {
  Repository repository;
  const std::string file = file_to_check(repository);
  const Finished checked = repository.run(
      {repository.script(), "check", "--no-install", "--device", "cpu", "--time", file});
  CHECK(checked.exit_code == 0);
  CHECK_THAT(checked.out, contains("checked --name " + file) && !contains("--time"));
  CHECK_THAT(checked.err, contains("rmsnorm: not timed: that takes a GPU\n"));
}

TEST_CASE("two checks at once each tell of their own file, and leave nothing behind") {
  Repository repository;
  // The program tells of the file that CMake was last configured with, half a second later.
  repository.write_program(
      "cmake",
      "mkdir -p build/cpu/common\n"
      "for option; do case $option in RMSNORM_CHECK_FILE=*) echo ${option#*=} >build/file ;; esac; "
      "done\n"
      "case \"$*\" in *--build*) sleep 0.5; program=build/cpu/common/check_file\n"
      "{ echo '#!/bin/sh'; echo 'sleep 0.5'; echo echo checked $(cat build/file); } >$program\n"
      "chmod +x $program ;; esac");
  for (const char* const name : {"one.cu", "two.cu"}) {
    rmsnorm::write_file(repository.folder() / name, given());
  }
  const Finished both = repository.run(
      {"sh", "-c",
       "cd " + repository.folder().string() +
           "; check() { ./rmsnorm check --no-install --device cpu $1.cu >$1 2>&1; }; "
           "check one & check two; wait; cat one two; ls -d build/cpu/check.*"});
  CAPTURE(both.out);
  CHECK_THAT(
      rmsnorm::read_file(repository.folder() / "one"), contains("one.cu\n") && !contains("two.cu"));
  CHECK_THAT(
      rmsnorm::read_file(repository.folder() / "two"), contains("two.cu\n") && !contains("one.cu"));
  CHECK_THAT(both.out, contains("waiting for another command that builds in build/cpu"));
  CHECK_THAT(both.out, !contains("build/cpu/check."));
}

TEST_CASE("tests that fail are not said to have passed, in whatever size") {
  Repository repository;
  repository.write_program("nvcc", "exit 1");
  repository.write_program("doxygen", "exit 0");
  const auto test = [&](const std::string& size, const std::string& ctest) {
    repository.write_program("ctest", ctest);
    std::vector<std::string> command{
        repository.script(), "test", "--no-install", "--device", "cpu"};
    if (!size.empty()) command.push_back(size);
    return repository.run(command);
  };
  CHECK(test("", "exit 8").exit_code == 8);
  CHECK(test("", "exit 0").exit_code == 0);

  const Finished failed = test("--everything", "exit 8");
  CHECK(failed.exit_code == 1);
  CHECK_THAT(
      failed.out, contains("twins      last passed never, failed: ") &&
                      contains("mutants    last passed never, failed: ") &&
                      contains("trixie     last passed never, skipped: "));
}

TEST_CASE("a project has a name for a number, and its solution is shown when it is solved") {
  Repository repository;
  repository.check_ends_with(4, "softmax");
  const Finished first = repository.exercise({"softmax"});
  CHECK(first.exit_code == 4);
  CHECK_THAT(
      first.err, contains("your copy is exercises/softmax.cu") &&
                     contains("a hint: ./rmsnorm exercise softmax --hint"));
  const Finished hint = repository.exercise({"softmax", "--hint"});
  CHECK_THAT(hint.out, contains("Hint 1 of 3\n"));
  CHECK_THAT(hint.err, !contains("--solution"));
  const auto solution = [&] { return repository.exercise({"softmax", "--solution"}); };
  CHECK(solution().exit_code == 2);
  CHECK(solution().out == "");
  CHECK_THAT(solution().err, contains("when yours has reached its goals"));
  const fs::path copy = repository.folder() / "exercises/softmax.cu";
  rmsnorm::write_file(copy, rmsnorm::read_file(copy) + "// mine\n");
  repository.check_ends_with(0, "softmax");
  CHECK_THAT(
      repository.exercise({"softmax"}).err, contains("./rmsnorm exercise softmax --solution"));
  CHECK(solution().exit_code == 0);
  CHECK_THAT(solution().out, contains("+++ our kernel") && contains("+  sum = group_sum<"));
}

TEST_CASE("when every goal is reached the overview says where to go, to files that there are") {
  Repository repository;
  for (const std::string& name : exercises()) {
    repository.check_ends_with(0, name);
    repository.exercise({name});
    const fs::path copy = repository.folder() / "exercises" / (name + ".cu");
    rmsnorm::write_file(copy, rmsnorm::read_file(copy) + "// mine\n");
    CHECK(repository.exercise({name}).exit_code == 0);
  }
  const Finished finished = repository.exercise({});
  CHECK(finished.err == "");
  int files = 0;
  for (const std::string& line : lines_in(finished.out.substr(finished.out.find("Where to go:")))) {
    if (!line.starts_with("  ") || line.starts_with("  ./rmsnorm")) continue;
    files += fs::exists(top() / line.substr(2, line.find(' ', 2) - 2));
  }
  CHECK(files == 3);
}

TEST_CASE("watching checks again after each save") {
  Repository repository(4);
  // Each save waits for the check before it; a slow machine has a minute for each.
  rmsnorm::write_file(repository.folder() / "bin/saves", R"sh(
cd "$1"
PATH="$1/bin:$PATH" ./rmsnorm exercise 4 --watch --no-install >out 2>/dev/null &
for checks in 1 2 3; do
  for ((i = 0; i < 600; ++i)); do
    if [ "$(grep -c checked out)" -ge $checks ]; then break; fi
    sleep 0.1
  done
  if [ $checks -lt 3 ]; then echo "// more" >>exercises/04_warp_reduce.cu; fi
done
sleep 1 # nothing was saved any more
kill %1
cat out)sh");
  const Finished finished = run_without_gpu(
      {"bash", (repository.folder() / "bin/saves").string(), repository.folder().string()});
  std::size_t checks = 0;
  for (const std::string& line : lines_in(finished.out)) checks += line == "checked";
  CHECK(checks == 3);  // at the start, and after each of two saves
}

TEST_CASE("a copy that is saved while it is checked is said to have changed") {
  const std::string said = "exercises/04_warp_reduce.cu was saved meanwhile";
  Repository repository;
  repository.check_ends_with(4);
  CHECK_THAT(repository.exercise({"4"}).err, !contains(said));
  repository.check_ends_with(
      4, "04_warp_reduce", "echo // more >>$(dirname $0)/../../../exercises/04_warp_reduce.cu; ");
  CHECK_THAT(repository.exercise({"4"}).err, contains(said));
  CHECK_THAT(repository.exercise({}).out, contains("04_warp_reduce      changed"));
}

TEST_CASE("whatever takes long says every ten seconds, or in one line of a terminal, where it is") {
  Repository repository;
  repository.check_ends_with(0, "08_registers");
  const std::vector<std::string> steps = {
      "configuring cpu, ", "building for cpu, ", "asking clang about exercises/08_registers.cu, "};
  const Finished quick = repository.exercise({"8"});
  CHECK(quick.exit_code == 0);
  for (const std::string& step : steps) CHECK_THAT(quick.err, !contains(step));

  fs::rename(repository.folder() / "bin/cmake", repository.folder() / "bin/cmake-itself");
  const std::string says =
      "echo '[1/9] Building CXX object l/CMakeFiles/my_08_registers_kernel.dir/a.cpp.o'\n"
      "printf 'half a line'; sleep 2.5; echo\n";
  repository.write_program("cmake", says + "exec cmake-itself \"$@\"");
  repository.write_program("nvcc", "sleep 2.5\n" + says);
  repository.hurry();
  const Finished slow = repository.exercise({"8"});
  CHECK(slow.out == quick.out);
  for (const std::string& step : steps) {
    CHECK_THAT(
        slow.err, contains("rmsnorm: " + step) && contains(" s: compiling your kernel, 1 of 9\n"));
  }

  if (repository.run({"script", "--version"}).exit_code != 0) return;
  const Finished terminal = repository.run(
      {"script", "-qec", repository.script() + " exercise 8 --no-install", "/dev/null"});
  for (const std::string& step : steps) {
    CHECK_THAT(terminal.out, contains("\r\x1b[K\x1b[?7l" + step));
    CHECK_THAT(terminal.out, !contains("\n" + step));
  }
}

TEST_CASE("of a build that fails the reader sees what failed, not all that did not") {
  Repository repository;
  repository.build_does("echo '[1/9] one'; echo 'FAILED: two.o'; echo 'error: three'; exit 1");
  const Finished finished = repository.run({repository.script(), "lesson", "4", "--no-install"});
  CHECK(finished.exit_code == 2);
  CHECK_THAT(
      finished.err, contains("FAILED: two.o\nerror: three\nrmsnorm: the build failed (") &&
                        !contains("[1/9] one"));
}

TEST_CASE("help is given, and what cannot be done is said in one sentence, without a build") {
  Repository repository;
  repository.write_program("nvidia-smi", "exit 1");
  repository.write_program("cmake", "echo built >>built");
  for (const char* command : {"run", "lesson", "exercise", "check", "test", "list", "docs"}) {
    CAPTURE(command);
    const Finished finished = repository.run({repository.script(), command, "--help"});
    CHECK(finished.exit_code == 0);
    CHECK(finished.err == "");
    CHECK_THAT(finished.out, contains(std::string("usage: ./rmsnorm ") + command));
  }
  struct Mistake {
    std::vector<std::string> arguments;
    const char* sentence;
    int exit_code = 2;
  };
  const std::vector<Mistake> mistakes = {
      {{"list", "--foo"}, "list takes no options"},
      {{"check", "--operation"}, "--operation needs a name"},
      {{"check", "--seed=one"}, "--seed needs a whole number"},
      {{"check", "--only"}, "--only needs a problem"},
      {{"exercise", "1"}, "on its page alone"},
      {{"exercise", "99"}, "there is no lesson '99'"},
      {{"exercise", "../common"}, "nor a project"},
      {{"exercise", "4", "--help-me"}, "no option '--help-me'"},
      {{"exercise", "--hint"}, "which exercise?"},
      {{"exercise", "4", "5"}, "one exercise at a time"},
      {{"exercise", "4", "--hint", "--reset"}, "one of --hint and --reset at a time"},
      {{"exercise", "4", "--device", "cuda"},
       "there is no GPU to time exercises/04_warp_reduce.cu on",
       3}};
  for (Mistake mistake : mistakes) {
    CAPTURE(mistake.sentence);
    mistake.arguments.insert(mistake.arguments.begin(), repository.script());
    const Finished finished = repository.run(mistake.arguments);
    CHECK(finished.exit_code == mistake.exit_code);
    CHECK(finished.out == "");
    CHECK_THAT(finished.err, contains(mistake.sentence));
    CHECK(lines_in(finished.err).size() == 1);
  }
  CHECK_FALSE(fs::exists(repository.folder() / "built"));
  CHECK_FALSE(fs::exists(repository.folder() / "exercises"));
}

TEST_CASE("a lesson says once that there is no GPU, and ends with the next step") {
  Repository repository;
  repository.write_program("nvidia-smi", "exit 1");
  const auto lesson = [&](const std::string& slug, int exit_code, const std::string& option = "") {
    repository.build_makes("lessons/" + slug, "echo PASS; exit " + std::to_string(exit_code));
    std::vector<std::string> command = {repository.script(), "lesson", slug, "--no-install"};
    if (!option.empty()) command.push_back(option);
    const Finished finished = repository.run(command);
    CHECK(finished.exit_code == exit_code);
    CHECK(finished.out == "PASS\n");
    return finished.err;
  };
  const std::string no_gpu = "rmsnorm: no GPU here: the kernels run on the CPU device\n";
  const std::string next = "All right. Next: lessons/";
  CHECK(
      lesson("04_warp_reduce", 0) ==
      no_gpu + next + "04_warp_reduce/README.md, then ./rmsnorm exercise 4\n");
  CHECK(
      lesson("01_sequential_cpu", 0) ==
      no_gpu + next + "01_sequential_cpu/README.md, then ./rmsnorm lesson 2\n");
  CHECK(lesson("04_warp_reduce", 1) == no_gpu);
  CHECK(lesson("04_warp_reduce", 0, "--help") == "");
  repository.check_ends_with(0);
  repository.exercise({"4"});
  rmsnorm::write_file(repository.copy(), given() + "// mine\n");
  repository.exercise({"4"});
  CHECK_THAT(lesson("04_warp_reduce", 0), contains("README.md, then ./rmsnorm lesson 5\n"));
}

TEST_CASE("of a file that does not compile the reader sees its own lines, and none of ours") {
  struct Mistake {
    const char* old_text;
    const char* new_text;
    std::vector<const char*> shown;
  };
  const char* const place = "exercises/04_warp_reduce.cu:";
  const std::vector<Mistake> mistakes = {
      {"= sum;", "= smu;", {"37:", "error: ", "smu", "partial[threadIdx.x] = smu;"}},
      {"partial[kThreads]", "partial[hidden]", {"36: error: "}},
      {", kThreads, row_bytes, stream>>>",
       ">>>",
       {"error: between <<< and >>> stand the blocks and"}},
      {"p.hidden, p.eps);", "p.hidden);", {"72: error: the kernel has more or fewer parameters"}},
      {"p.x, p.weight, p.y,",
       "p.x, p.rows, p.y,",
       {"72: error: an argument is of another type than"}},
      {"    if (threadIdx.x < half) {",
       "    {{",
       {"error: a function begins inside of another: is there a } too few before it?"}},
      {"partial[kThreads];", "partial[kThreads]", {"36: there is no ; behind"}},
      {"#include \"common/operations/rms_norm.hpp\"",
       "",
       {"error: CUDA's words are not known: the file needs #include \"common/operations/"}},
      {".traffic = traffic", ".trafic = traffic", {"error: a registration has no field .trafic"}},
      {".traffic = traffic", ".traffic = launch", {"error: a field of this registration has not"}},
  };
  Repository repository(4);
  repository.build_does(
      RMSNORM_CPU_DEVICE_REWRITE
      " \"$PWD/exercises/04_warp_reduce.cu\" new.cpp && "
      "c++ -std=c++20 -Wall -Wextra -fsyntax-only -I" +
      top().string() + " -isystem " + (top() / "common/cpu_device/language/include").string() +
      " new.cpp");
  for (const Mistake& mistake : mistakes) {
    CAPTURE(mistake.new_text);
    rmsnorm::write_file(repository.copy(), with(mistake.old_text, mistake.new_text));
    const Finished finished = repository.exercise({"4"});
    CAPTURE(finished.err);
    CHECK(finished.exit_code == 2);
    CHECK_THAT(finished.err, contains(place) && contains("does not compile"));
    for (const char* shown : mistake.shown) CHECK_THAT(finished.err, contains(shown));
    for (const char* ours : {"cpu_device", "rmsnorm_shared", "FAILED", "ninja", "new.cpp"}) {
      CHECK_THAT(finished.err, !contains(ours));
    }
    CHECK_THAT(repository.overview(), contains("no compile"));
  }
}

TEST_CASE("a call that only clang refuses is an error of an exercise, too") {
  Repository repository(0);
  rmsnorm::write_file(repository.copy(), given() + "// mine\n");
  repository.write_program(
      "clang++",
      "case \"$*\" in *-print*) exit 0 ;; esac\n"
      "echo \"READER.cu:42:1: error: no matching function for call to 'f'\"\n"
      "echo 'READER.cu:1:1: note: candidate function not viable: call to __host__ function from "
      "__global__ function'; exit 1");
  const Finished refused = repository.exercise({"4"});
  CHECK(refused.exit_code == 2);
  CHECK(refused.out == "");
  CHECK_THAT(
      refused.err, contains("exercises/04_warp_reduce.cu:42: a kernel cannot call f") &&
                       contains("exercises/04_warp_reduce.cu does not compile"));
  CHECK_THAT(repository.overview(), contains("no compile"));

  repository.write_program("clang++", "exit 9");  // it does not work
  const Finished unasked = repository.exercise({"4"});
  CHECK(unasked.exit_code == 0);
  CHECK_THAT(
      unasked.err,
      contains("rmsnorm: not checked: which functions a kernel, and the host, may call ("));
}

TEST_CASE("what the compilers say becomes what the reader needs, in words about its own file") {
  const std::string awk = (top() / "common/programs/compiler_messages.awk").string();
  struct Log {
    std::string text, shown;
  };
  for (const Log& log : std::vector<Log>{
           // What of CUDA the CPU device lacks is said by its name and line.
           {R"(/r/my.cu:3:38: error: '__vadd4' was not declared in this scope
/r/my.cu:4:82: error: 'this_multi' is not a member of 'cooperative_groups'
/r/my.cu:5:96: error: 'foo' was not declared in this scope
/r/cuda/barrier: In instantiation of 'class cuda::barrier<cuda::thread_scope_system>':
/r/my.cu:6:3:   required from here
/r/cuda/barrier:13:5: error: static assertion failed: the CPU device has no barrier of blocks
)",
            R"(my.cu:3:38: error: the CPU device has no __vadd4
my.cu:4:82: error: the CPU device has no this_multi
my.cu:5:96: error: 'foo' was not declared in this scope
my.cu:6: error: the CPU device has no barrier of blocks
)"},
           // A mistake that shows in a header or a macro of another file is one of the reader's.
           {R"(/usr/include/sort.h: In instantiation of 'void sort(T, T)':
/r/my.cu:6:3:   required from here
/usr/include/sort.h:13:5: error: no match for 'operator<'
)",
            "my.cu:6: error: no match for 'operator<'\n"},
           {R"(/r/common/checks.hpp:25:27: error: 'w' was not declared in this scope
/r/my.cu:40:12: note: in expansion of macro 'SQUARE'
)",
            "my.cu:40: error: 'w' was not declared in this scope\n"},
           // Of what is refused, the first alone: others follow from it.
           {"/r/my.cu:2:2: error: #error the CPU device has no <mma.h> (tensor cores)\n"
            "/r/my.cu:3:9: error: 'wmma' has not been declared\n",
            "my.cu:2: the CPU device has no <mma.h> (tensor cores)\n"},
           {"/usr/bin/ld: check.cpp:(.text.startup+0x0): multiple definition of `main'; my.o\n",
            "my.cu: error: it has a main() of its own, and is to be a part of a program that has "
            "one\n"},
           {"/r/my.cu:3:9: warning: unused variable 'a'\n/r/my.cu:4:9: error: no 'b'\n",
            "my.cu:4:9: error: no 'b'\n"},
           // Of what nvcc and clang say, the words about the reader's file alone.
           {R"([1/2] Building CUDA object my.dir/my.cu.o
FAILED: my.dir/my.cu.o
/usr/local/cuda/bin/nvcc -I/r -c /r/my.cu -o my.dir/my.cu.o
/r/my.cu(43): error: identifier "smu" is undefined
    partial[warp] = smu;
                    ^

/r/my.cu(44): warning #177-D: variable "lane" was declared but never referenced

/r/common/contract/lesson.hpp(12): error: expected a ";"
1 error detected in the compilation of "/r/my.cu".
/r/my.cu:50:3: error: use of undeclared identifier 'total' [-Wsome]
  total = 1;
  ^
/r/my.cu:50:3: error: use of undeclared identifier 'total' [-Wsome]
/r/my.cu:70:1:   recursively required from 'launch_for<512>'
/r/start.hpp:9:3: error: static_assert failed due to requirement 'kFit' "launch: it does not fit"
/r/my.cu:75:8: note: in instantiation of function template specialization 'f<int *>' requested here
/usr/bin/ld: /r/my.cu:81: undefined reference to `warp_sum'
ninja: build stopped: subcommand failed.
)",
            R"(my.cu(43): error: identifier "smu" is undefined
    partial[warp] = smu;
                    ^
my.cu:50:3: error: use of undeclared identifier 'total'
  total = 1;
  ^
my.cu:75: error: it does not fit
my.cu:81: undefined reference to `warp_sum'
)"}}) {
    CAPTURE(log.text);
    const TemporaryFolder folder;
    rmsnorm::write_file(folder / "log", log.text);
    const Finished finished = run_without_gpu(
        {"bash", "-c", "awk -v path=/r/my.cu -v name=my.cu -f \"$1\" <\"$2\"", "-", awk,
         (folder / "log").string()});
    CHECK(finished.out == log.shown);
    CHECK(finished.err == "");
  }
}
