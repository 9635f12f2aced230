/// \file
/// edits.cmake, which makes lessons wrong on purpose.

#include <string>

#include "common/base/files.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

using namespace tests;

namespace {

/// A lesson of five lines, and what becomes of it.
class Edited {
 public:
  explicit Edited(const std::string& changes) {
    rmsnorm::write_file(lesson, "one\ntwo\nthree\ntwo\nfour\n");
    rmsnorm::write_file(edit, "Mutant: cannot count\nIn " + lesson + ":\n" + changes);
    finished = run(
        {RMSNORM_CMAKE, "-DEDIT=" + edit, "-DCOPY=" + copy, "-P", top() / "tests" / "edits.cmake"});
  }

  const TemporaryFolder folder;
  const std::string lesson = folder / "rms_norm.cu";
  const std::string edit = folder / "cannot_count.edit";
  const std::string copy = folder / "copy.cu";
  Finished finished;
};

}  // namespace

TEST_CASE("an edit changes its lines of the lesson and the copy names them as the edit's") {
  const Edited edited("\n three  // <-- other\n-two\n+too  // <-- mistake\n\n+zero\n one\n");
  CHECK(edited.finished.exit_code == 0);
  const std::string of_lesson = " \"" + edited.lesson + "\"\n";
  const std::string of_edit = " \"" + edited.edit + "\"\n";
  CHECK(
      rmsnorm::read_file(edited.copy) ==
      "#line 1" + of_lesson + "#line 8" + of_edit + "zero\none\n#line 2" + of_lesson + "two\n" +
          "#line 4" + of_edit + "three  // <-- other\n\ntoo  // <-- mistake\n#line 5" + of_lesson +
          "four\n");
}

TEST_CASE("an edit whose lines are not in the lesson exactly once is an error that names it") {
  for (const char* changes : {"\n-five\n+5\n", "\n-two\n+2\n", "\n-one\n+1\n\n-three\n-four\n"}) {
    CAPTURE(changes);
    const Edited edited(changes);
    CHECK(edited.finished.exit_code != 0);
    CHECK_THAT(edited.finished.err, contains("cannot_count.edit does not apply"));
  }
}

TEST_CASE("an edit with a line of no kind is an error that names it") {
  for (const char* changes : {"", "\none\n-two\n", "-one\n"}) {
    CAPTURE(changes);
    const Edited edited(changes);
    CHECK(edited.finished.exit_code != 0);
    CHECK_THAT(edited.finished.err, contains("cannot_count.edit is no edit"));
  }
}
