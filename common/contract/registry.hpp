#pragma once
/// \file
/// The lessons that were linked into this program.

#include <string>
#include <vector>

#include "common/contract/lesson.hpp"

namespace rmsnorm {

/// Every registered lesson, in the order of the slugs.
std::vector<Lesson> all_lessons();

/// The lessons that a reader means by "4", "04", "04_warp_reduce" or "02_naive/thread_per_row".
/// A number or a folder's slug means every kernel of that folder. Empty if there is none.
std::vector<Lesson> find_lessons(const std::vector<Lesson>& among, const std::string& name);

}  // namespace rmsnorm
