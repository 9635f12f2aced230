/// \file
/// Runs the tests of a program. Exit code: 0 all passed, 1 some failed, 4 none failed but some were
/// skipped.

#define CATCH_CONFIG_RUNNER
#include "tests/catch.hpp"

int main(int argc, char** argv) {
  Catch::Session session;
  // A test that asserts nothing fails. So does a name that no test has, by which CTest might start
  // one; version 3 thinks so of itself.
#if RMSNORM_CATCH_VERSION == 3
  session.configData().warnings = Catch::WarnAbout::NoAssertions;
#else
  session.configData().warnings = static_cast<Catch::WarnAbout::What>(
      Catch::WarnAbout::NoAssertions | Catch::WarnAbout::NoTests);
#endif
  // Catch2 returns the number of failures: four of them must not read as "skipped".
  if (session.run(argc, argv) != 0) return 1;
  return tests::skipped ? 4 : 0;
}
