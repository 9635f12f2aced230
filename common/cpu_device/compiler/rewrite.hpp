#pragma once
/// \file
/// Turns a CUDA file into C++ that any compiler takes. Most of CUDA is C++ already, or can be a
/// macro or a function in a header; what is left is the launch, <<<...>>>, and __shared__.

#include <functional>
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

/// What an #include of "x.cuh" or <x.cuh> includes instead.
using Include = std::function<std::string(const std::string& name)>;

/// The C++ for a CUDA source. After a first line, which names `file`, every line has the number
/// that it has in the source: compilers and debuggers point into the CUDA file.
/// \param source  its text
/// \param file    its name
/// \param include if there is one, what is missing becomes an error of the compiler's, "#error the
///                CPU device has no ...", unless the preprocessor leaves it out
/// \throws std::runtime_error "file:line: sentence", or MissingFeature.
std::string rewrite(std::string_view source, const std::string& file, const Include& include = {});

}  // namespace rmsnorm::cpu_device
