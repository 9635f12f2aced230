/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "07_multi_row",
    .shape = {.rows = 256, .hidden = 128},
    .goals =
        {
            {"no barrier in rows of 128 columns", Quantity::barriers, Goal::at_most, 0},
            {"every request to global memory has 32 lanes", Quantity::lanes_a_request,
             Goal::at_least, 32},
        },
    .within =
        {

            {"x is read from global memory once", Quantity::reads_of_x, Goal::at_most, 1},
        },
}};

}  // namespace
