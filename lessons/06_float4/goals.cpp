/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "06_float4",
    .shape = {.rows = 32, .hidden = 4096},
    .goals =
        {
            {"every request to global memory touches 16 sectors", Quantity::fewest_sectors,
             Goal::at_least, 16},
        },
    .within =
        {
            {"at least 256 wavefronts of shared memory per row", Quantity::wavefronts,
             Goal::at_least, 256},
            {"at most 2 barriers per row", Quantity::barriers, Goal::at_most, 2},
        },
}};

}  // namespace
