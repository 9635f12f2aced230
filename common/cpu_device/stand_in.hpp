#pragma once
/// \file
/// What takes the place of a lesson that needs what only a GPU has.

#include <string>

namespace rmsnorm::cpu_device {

/// A C++ file that registers the lessons of a CUDA source under their slugs, so that they are
/// listed by name, and that supports no problem, with the reason. Lessons are found by the words
/// `rmsnorm::Registration<...>`, `.slug = "..."`, `.title = "..."` and `.idea = "..."`.
std::string stand_in(const std::string& source, const std::string& reason);

}  // namespace rmsnorm::cpu_device
