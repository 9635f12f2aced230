#pragma once
/// \file
/// Turns a CUDA file into C++ that any compiler takes. Most of CUDA is C++ already, or can be a
/// macro or a function in a header; what is left is the launch, <<<...>>>, and __shared__.

#include <stdexcept>
#include <string>
#include <string_view>

namespace rmsnorm::cpu_device {

/// The file is correct, but it asks for something that only a GPU has. Its words begin
/// "FILE:LINE: the CPU device has no ".
class MissingFeature : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The C++ for a CUDA source. After a first line, which names `file`, every line has the number
/// that it has in the source: compilers and debuggers point into the CUDA file.
/// \throws std::runtime_error "file:line: sentence", or MissingFeature.
std::string rewrite(std::string_view source, const std::string& file);

/// What takes the place of a CUDA source that needs what only a GPU has: a C++ file that registers
/// its lessons under their slugs, so that they are listed by name, and that supports no problem,
/// with the reason. Lessons are found by the words
/// `rmsnorm::Registration<...>`, `.slug = "..."`, `.title = "..."` and `.idea = "..."`.
std::string stand_in(const std::string& source, const std::string& reason);

/// A text as a string literal of C++.
std::string quoted(const std::string& text);

}  // namespace rmsnorm::cpu_device
