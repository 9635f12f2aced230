/// \file
/// Work in a copy of the process.

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "common/verify/process_copy.hpp"
#include "tests/catch.hpp"

using rmsnorm::ProcessCopy;

namespace {

ProcessCopy::Ended ended(const std::function<std::string()>& work) {
  const auto copy = ProcessCopy::start(work);
  REQUIRE(copy != nullptr);
  return copy->finish();
}

}  // namespace

TEST_CASE("a copy of the process gives the bytes that its work gives, and what it has printed") {
  const std::string bytes(100000, '\0');
  const ProcessCopy::Ended done = ended([&] {
    std::printf("from the copy");
    return bytes;
  });
  CHECK(done.is_done);
  CHECK(done.result == bytes);
  CHECK(done.printed == "from the copy");
}

TEST_CASE(
    "of work that does not come to its end in a copy of the process it is known how it ended") {
  for (const auto& work : std::vector<std::function<std::string()>>{
           [] { return std::exit(0), ""; }, [] { return throw std::runtime_error("no"), ""; },
           [] { return _exit(1), ""; }}) {
    const ProcessCopy::Ended ended_early = ended(work);
    CHECK_FALSE(ended_early.is_done);
    CHECK(ended_early.signal == 0);
  }
  const ProcessCopy::Ended killed = ended([] { return raise(SIGKILL), ""; });
  CHECK_FALSE(killed.is_done);
  CHECK(killed.signal == SIGKILL);
}

TEST_CASE("a copy of the process ends with the object that stands for it") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  {
    const auto copy = ProcessCopy::start([&] {
      close(ends[0]);
      while (true) pause();
      return "";
    });
    close(ends[1]);
    REQUIRE(copy != nullptr);
  }
  char byte = 0;
  CHECK(read(ends[0], &byte, 1) == 0);  // nobody can write there any more
  close(ends[0]);
}
