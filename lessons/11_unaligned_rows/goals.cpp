/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "11_unaligned_rows",
    .shape = {.rows = 32, .hidden = 4097},
    .types = {.dtype = Dtype::bf16, .weight = Dtype::bf16},
    .goals =
        {
            {"at most 75 requests to global memory per row", Quantity::requests, Goal::at_most, 75},
        },
    .within =
        {
            {"x is read from global memory once but for single columns", Quantity::reads_of_x,
             Goal::at_most, 1.1},
            {"at most 1 barrier per row", Quantity::barriers, Goal::at_most, 1},
        },
}};

}  // namespace
