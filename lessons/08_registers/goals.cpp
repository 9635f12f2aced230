/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "08_registers",
    .shape = {.rows = 32, .hidden = 4096},
    .goals =
        {
            {"x is read from global memory once", Quantity::reads_of_x, Goal::at_most, 1},
            {"the weight is loaded before the barrier", Quantity::late_weight, Goal::at_most, 0},
        },
    .within =
        {
            {"at most 32 wavefronts of shared memory per row", Quantity::wavefronts, Goal::at_most,
             32},
            {"at most 1 barrier per row", Quantity::barriers, Goal::at_most, 1},
        },
}};

}  // namespace
