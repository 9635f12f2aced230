#pragma once
/// \file
/// Catch2, in the versions 2.13 and 3.3 or newer. Test files include this, and nothing of Catch2's
/// own.
///
/// Catch2 is slow to compile and unknown to nvcc: it stays out of .cu files.

#if __has_include(<catch2/catch_test_macros.hpp>)
#define RMSNORM_CATCH_VERSION 3
#include <catch2/catch_session.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>
#else
#define RMSNORM_CATCH_VERSION 2
#include <catch2/catch.hpp>
#endif

#include <string>

namespace tests {

/// Whether a test had to be skipped; main() turns it into the exit code that CTest knows.
inline bool skipped = false;

/// Matches a text that contains `part`; Catch2 renamed it.
inline auto contains(const std::string& part) {
#if RMSNORM_CATCH_VERSION == 3
  return Catch::Matchers::ContainsSubstring(part);
#else
  return Catch::Matchers::Contains(part);
#endif
}

}  // namespace tests

/// Ends a test that cannot run here, with the reason. For the body of a TEST_CASE only: it is a
/// return. (Version 2 of Catch2 has no SKIP, and the exit code 4 of version 3's can also mean four
/// failures.)
#define SKIP_TEST(reason)                                   \
  do {                                                      \
    ::tests::skipped = true;                                \
    WARN("skipped: " << (reason));                          \
    SUCCEED(); /* a test that asserts nothing would fail */ \
    return;                                                 \
  } while (false)
