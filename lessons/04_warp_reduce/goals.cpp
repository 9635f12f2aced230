/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "04_warp_reduce",
    .shape = {.rows = 32, .hidden = 4096},
    .goals =
        {
            {"at most 2 barriers per row", Quantity::barriers, Goal::at_most, 2},
        },
    .within =
        {
            {"at most 310 wavefronts of shared memory per row", Quantity::wavefronts, Goal::at_most,
             310},
        },
}};

}  // namespace
