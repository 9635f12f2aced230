/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "12_launch_overlap",
    .shape = {.rows = 32, .hidden = 4096},
    .types = {.dtype = Dtype::bf16, .weight = Dtype::bf16},
    .goals =
        {
            {"every launch may overlap the one before it", Quantity::overlaps, Goal::at_least, 1},
            {"every block lets the next kernel begin before it writes", Quantity::triggers,
             Goal::at_least, 1},
        },
    .within =
        {
            {"x is read from global memory once", Quantity::reads_of_x, Goal::at_most, 1},
            {"at most 1 barrier per row", Quantity::barriers, Goal::at_most, 1},
        },
}};

}  // namespace
