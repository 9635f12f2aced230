/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "14_backward",
    .shape = {.rows = 64, .hidden = 4096},
    .goals =
        {
            {"x is read from global memory once", Quantity::reads_of_x, Goal::at_most, 1},
        },
    .within =
        {
            {"at most 3 barriers per row", Quantity::barriers, Goal::at_most, 3},
        },
}};

}  // namespace
