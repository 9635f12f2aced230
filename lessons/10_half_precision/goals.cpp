/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "10_half_precision",
    .shape = {.rows = 32, .hidden = 4096},
    .types = {.dtype = Dtype::bf16, .weight = Dtype::bf16},
    .goals =
        {
            {"every request to global memory touches 16 sectors", Quantity::fewest_sectors,
             Goal::at_least, 16},
        },
    .within =
        {
            {"x is read from global memory once", Quantity::reads_of_x, Goal::at_most, 1},
            {"at most 1 barrier per row", Quantity::barriers, Goal::at_most, 1},
        },
}};

}  // namespace
