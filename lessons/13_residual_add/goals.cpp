/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "13_residual_add",
    .shape = {.rows = 32, .hidden = 4096},
    .types = {.dtype = Dtype::bf16, .weight = Dtype::bf16},
    .goals =
        {
            {"x is read from global memory once", Quantity::reads_of_x, Goal::at_most, 1},
            {"at most 80 requests per row", Quantity::requests, Goal::at_most, 80},
        },
    .within =
        {
            {"at most 1 barrier per row", Quantity::barriers, Goal::at_most, 1},
        },
}};

}  // namespace
