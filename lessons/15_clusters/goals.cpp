/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

// A row is shared by 4 blocks.
const ExerciseRegistration exercise{{
    .lesson = "15_clusters",
    .shape = {.rows = 4, .hidden = 32768},
    .goals =
        {
            {"at most 4 barriers per row", Quantity::barriers, Goal::at_most, 4},
        },
    .within =
        {
            {"x is read from global memory once", Quantity::reads_of_x, Goal::at_most, 1},
        },
}};

}  // namespace
