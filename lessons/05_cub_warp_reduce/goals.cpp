/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "05_cub_warp_reduce",
    .shape = {.rows = 32, .hidden = 4096},
    .goals =
        {
            {"no bank conflict", Quantity::bank_conflicts, Goal::at_most, 0},
            {"at most 300 wavefronts of shared memory per row", Quantity::wavefronts, Goal::at_most,
             300},
        },
    .within =
        {
            {"at most 2 barriers per row", Quantity::barriers, Goal::at_most, 2},
        },
}};

}  // namespace
