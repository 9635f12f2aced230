#pragma once
/// \file
/// Where this program comes from.

namespace rmsnorm {

/// The revision that was built, 12 hex digits, with "-dirty" if files had been changed;
/// "unknown" outside a git checkout.
const char* build_commit();

}  // namespace rmsnorm
