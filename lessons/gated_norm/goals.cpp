/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

constexpr Shape kShort = {.rows = 256, .hidden = 128};

const ExerciseRegistration exercise{{
    .lesson = "gated_norm",
    .shape = {.rows = 32, .hidden = 4096},
    .goals =
        {
            {"x is read from global memory once", Quantity::reads_of_x, Goal::at_most, 1},
            // x, z, weight and y, of 512 sectors each
            {"at most 2048 sectors per row", Quantity::sectors, Goal::at_most, 2048},
            {"every request to global memory touches 16 sectors", Quantity::fewest_sectors,
             Goal::at_least, 16},
            {"at most 1 barrier per row", Quantity::barriers, Goal::at_most, 1},
            {"at most 32 wavefronts of shared memory per row", Quantity::wavefronts, Goal::at_most,
             32},
            {"no barrier in rows of 128 columns", Quantity::barriers, Goal::at_most, 0, kShort},
        },
    .within =
        {
            {"every request to global memory has 32 lanes in rows of 128 columns",
             Quantity::lanes_a_request, Goal::at_least, 32, kShort},
        },
    .regimes = {"prefill", "heads"},
}};

}  // namespace
