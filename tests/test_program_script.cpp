/// \file
/// ./rmsnorm check --program, as its user meets it. Nothing is built: a script stands for the
/// program, and writes what a watched one would.

#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/scripted_repository.hpp"

using namespace tests;

namespace {

/// What is checked: the file is not read.
class Programs : public ScriptedRepository {
 public:
  Programs() { write("my.cu"); }

  void write(const std::string& name) const { rmsnorm::write_file(folder() / name, "\n"); }

  /// The program that is built does this, in sh: $order and $report are there, and say() adds a
  /// line to the report. Then it ends with the status.
  void program_does(const std::string& commands, int status = 0) const {
    build_makes(
        "common/watched_program",
        "order=$CPU_DEVICE_ORDER\nreport=$CPU_DEVICE_REPORT\n"
        "say() { echo \"$@\" >>$report; }\n" +
            commands + "\nsay exit " + std::to_string(status));
  }

  Finished check(std::vector<std::string> arguments = {}) const {
    arguments.insert(
        arguments.begin(),
        {script(), "check", "--no-install", "--program", (folder() / "my.cu").string()});
    return run(arguments);
  }
};

}  // namespace

TEST_CASE("a program passes if no order has a mistake, and its output is that of the first") {
  const Programs programs;
  programs.program_does("echo order $order");
  const Finished finished = programs.check();
  CHECK(finished.exit_code == 0);
  CHECK(
      finished.out ==
      "order 0\nmy.cu                       PASS  no mistakes seen in 4 orders\n"
      "  in order 2 it prints something else than in the first\n");
  const Finished one = programs.check({"--orders", "1"});
  CHECK_THAT(one.out, contains("PASS  no mistakes seen in 1 order\n"));
}

TEST_CASE("the mistakes of the first order that has any are told, and notes of all") {
  const Programs programs;
  programs.program_does(
      "say note my.cu:7: to be noted; if [ $order = 2 ]; then say my.cu:3: wrong; fi");
  const Finished finished = programs.check();
  CHECK(finished.exit_code == 1);
  CHECK(
      finished.out ==
      "my.cu                       FAIL  in order 3 of 4:\n  my.cu:3: wrong\n"
      "  note: my.cu:7: to be noted\n");
}

TEST_CASE("where an order prints something else, the old values that were read are told") {
  const Programs programs;
  programs.program_does("if [ $order = 1 ]; then echo 1; say old my.cu:5: an old value; fi");
  CHECK_THAT(
      programs.check().out,
      contains("in order 2 it prints something else than in the first\n  my.cu:5: an old value\n"));
}

TEST_CASE("of an order that shows more than the first, the steps that it takes are told") {
  const Programs programs;
  // Wrong if the blocks begin elsewhere, and one goes on at the fifth atomic operation.
  programs.program_does(
      "say turns 9; range=${CPU_DEVICE_TURNS:-0,9}; from=${range%,*}; until=${range#*,}\n"
      "case $order$CPU_DEVICE_USUAL in 0* | *turns* | *blocks*) until=0 ;; esac\n"
      "if [ $from -le 4 ] && [ $until -gt 4 ]; then\n"
      "  say my.cu:3: wrong; say turn block 1 waits at my.cu:2, block 0 goes on\n"
      "fi");
  CHECK(
      programs.check().out ==
      "my.cu                       FAIL  in order 2 of 4:\n  my.cu:3: wrong\n"
      "  needed for this, all else as in order 1:\n"
      "  the blocks begin with the last\n  block 1 waits at my.cu:2, block 0 goes on\n");
}

TEST_CASE(
    "where several steps are needed, they are told, and none where the order is not to blame") {
  const Programs programs;
  programs.program_does(
      "say turns 40; range=${CPU_DEVICE_TURNS:-0,40}; from=${range%,*}; until=${range#*,}\n"
      "case $order$CPU_DEVICE_USUAL in 0* | *turns*) until=0 ;; esac\n"
      "if [ $from -le 11 ] && [ $until -gt 12 ]; then say my.cu:3: wrong; say turn $range; fi");
  CHECK_THAT(programs.check().out, contains("as in order 1:\n  11,13\n"));
  programs.program_does("if [ $order != 0 ]; then say my.cu:3: wrong; fi");
  CHECK(
      programs.check().out ==
      "my.cu                       FAIL  in order 2 of 4:\n  my.cu:3: wrong\n");
  programs.program_does("if [ -n \"$CPU_DEVICE_USUAL\" ]; then sleep 300; fi; exit $order");
  CHECK_THAT(programs.check().out, !contains("as in order 1"));
}

TEST_CASE("a program's own status is told, and how it ended without one") {
  const Programs programs;
  programs.program_does("", 3);
  const Finished own = programs.check();
  CHECK(own.exit_code == 1);
  CHECK_THAT(own.out, contains("FAIL  no mistakes seen in 4 orders, but its exit status is 3\n"));
  programs.program_does("kill -ABRT $$");
  const Finished killed = programs.check();
  CHECK_THAT(killed.out, contains("it was ended by a signal, SIGABRT\n"));
  CHECK(killed.err == "");
  programs.program_does("exit 200");
  CHECK_THAT(programs.check().out, contains("it ended with 200 before its end"));
  programs.program_does("exit 5");
  CHECK_THAT(
      programs.check().out, contains("it ended with 5 before its end: does it call _exit()?"));
}

TEST_CASE("each order reads the same input, and nothing of what comes on stdin unasked") {
  const Programs programs;
  programs.program_does("read line; if [ \"$line\" != 17 ]; then say got \"$line\"; fi");
  const std::string check =
      programs.script() + " check --no-install --program " + (programs.folder() / "my.cu").string();
  const std::string input = (programs.folder() / "input").string();
  rmsnorm::write_file(input, "17\n18\n");
  CHECK(programs.check({"--input", input}).exit_code == 0);
  CHECK(programs.run({"sh", "-c", "cat " + input + " | " + check + " --input -"}).exit_code == 0);
  programs.program_does("read line; echo got $line");
  const Finished rest = programs.run({"sh", "-c", "{ " + check + "; cat; } <" + input});
  CHECK_THAT(rest.out, contains("got\n") && contains("17\n18\n"));
}

TEST_CASE("of a folder, each program has a verdict, and the worst exit code is that of all") {
  const Programs programs;
  programs.write("other.cu");
  programs.program_does("true");
  const auto check_each = [&] {
    return programs.run(
        {programs.script(), "check", "--no-install", "--program", "--each",
         programs.folder().string()});
  };
  const Finished right = check_each();
  CHECK(right.exit_code == 0);
  CHECK(lines_in(right.out).size() == 2);
  programs.build_does("echo 'header.cuh:3:1: error: what is this'; exit 1");
  const Finished broken = check_each();
  CHECK(broken.exit_code == 2);
  CHECK_THAT(broken.err, contains("header.cuh:3:1: error: what is this\n"));
  CHECK_THAT(
      broken.out, contains("other.cu                    NOT CHECKED  it does not compile\n"));
}

TEST_CASE("a header's errors come before what follows from them, and a refusal alone") {
  const Programs programs;
  const std::string says = " error: 'f' was not declared in this scope";
  const auto build_says = [&](const std::string& of_header) {
    programs.build_does(
        "rewritten=build/cpu/common/rewritten/watched_program; mkdir -p $rewritten\n"
        "echo 'my.cpp: /of/my.cuh /of/new.cuh' >$rewritten/my.cpp.d\n"
        "echo \"/of/my.cuh:12:2: error: " +
        of_header + "\"\necho \"" + (programs.folder() / "my.cu").string() + ":3:1:" + says +
        "\"\nexit 1");
    return programs.check().err;
  };
  CHECK(build_says("'g' is wrong") == "my.cuh:12:2: error: 'g' is wrong\nmy.cu:3:1:" + says + "\n");
  CHECK(build_says("#error this <<< has no >>>") == "my.cuh:12: this <<< has no >>>\n");
}

TEST_CASE("CUDA's own headers do not hide the device's") {
  const Programs programs;
  programs.program_does("true");
  programs.write("cuda/cuda_runtime_api.h");
  programs.write("other/cuda.cuh");
  const std::string asked = (programs.folder() / "asked").string();
  programs.write_program("clang++", "echo \"$@\" >>" + asked);
  const std::string folder = programs.folder().string();
  CHECK(programs.check({"-I", folder + "cuda", "-I" + folder + "other"}).exit_code == 0);
  const std::string all = rmsnorm::read_file(asked);
  CHECK_THAT(all, contains("-I" + folder + "other") && !contains("-I" + folder + "cuda"));
}

TEST_CASE("options of nvcc's that change nothing here are let pass, and others refused by name") {
  const Programs programs;
  programs.program_does("echo \"$@\"");
  const Finished finished = programs.check(
      {"-O3", "-arch=sm_90", "-arch", "sm_80", "-std=c++17", "-DN=3", "-I.", "--", "one", "two"});
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.out, contains("one two\n"));
  for (const auto& [arguments, sentence] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--tune"}, "check --program has no option '--tune' (--help shows them)"},
           {{"-Ino_such"}, "there is no folder 'no_such'"},
           {{"no.cu"}, "there is no file 'no.cu'"},
           {{"--orders", "0"}, "--orders needs a whole number, as in: --orders 8"},
           {{"--each", "no_such"}, "--each needs a folder, and 'no_such' is none"}}) {
    const Finished refused = programs.check(arguments);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err == "rmsnorm: " + sentence + "\n");
  }
}
