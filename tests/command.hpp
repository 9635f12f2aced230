#pragma once
/// \file
/// Runs a program as a user would, and keeps what it says.

#include <string>
#include <vector>

namespace tests {

/// How a program ended.
struct Finished {
  int exit_code;    ///< 127 if there is no such program; 128 + the signal that killed it
  std::string out;  ///< what it wrote to stdout
  std::string err;  ///< what it wrote to stderr
};

/// Runs a program, found through PATH unless its name has a slash. No GPU is visible to it: what
/// such a test sees does not depend on the machine.
Finished run_without_gpu(const std::vector<std::string>& command);

/// The same with the machine's GPU, if it has one.
Finished run(const std::vector<std::string>& command);

/// A text with one space wherever it has blanks or ends a line: programs break long lines.
std::string on_one_line(const std::string& text);

/// Runs the program of all lessons likewise.
Finished run_all_lessons(std::vector<std::string> arguments);

}  // namespace tests
