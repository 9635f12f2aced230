#pragma once
/// \file
/// How librmsnorm says no.

#include <string>

#include "library/include/rmsnorm.h"

namespace rmsnorm::library {

/// Thrown inside the library; its functions turn it into a status.
struct Refusal {
  rmsnorm_status status;  ///< not RMSNORM_OK
  std::string sentence;   ///< which argument, what it is, and what is needed
};

}  // namespace rmsnorm::library
