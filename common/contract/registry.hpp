#pragma once
/// \file
/// The implementations that were linked into this program.

#include <string>
#include <vector>

#include "common/contract/lesson.hpp"

namespace rmsnorm {

/// Every registered implementation, in the order of the slugs and the operations.
std::vector<Implementation> all_implementations();

/// The implementations that a reader means by "4", "04", "04_warp_reduce" or
/// "02_naive/thread_per_row". A number or a folder's slug means every kernel of that folder. Empty
/// if there is none.
std::vector<Implementation> find_implementations(
    const std::vector<Implementation>& among, const std::string& name);

}  // namespace rmsnorm
