#pragma once
/// \file
/// How librmsnorm says no.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "library/include/rmsnorm.h"

namespace rmsnorm::library {

/// Thrown inside the library; its functions turn it into a status.
struct Refusal {
  rmsnorm_status status;  ///< not RMSNORM_OK
  std::string sentence;   ///< which argument, what it is, and what is needed
};

/// \throws Refusal with this sentence
template <class... Arguments>
[[noreturn]] void refuse(
    rmsnorm_status status, fmt::format_string<Arguments...> sentence, Arguments&&... arguments) {
  throw Refusal{status, fmt::format(sentence, std::forward<Arguments>(arguments)...)};
}

}  // namespace rmsnorm::library
