/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "03_shared_memory",
    .shape = {.rows = 32, .hidden = 4096},
    .goals =
        {
            {"x is read from global memory once", Quantity::reads_of_x, Goal::at_most, 1},
            {"the row stays in shared memory (at least 256 wavefronts)", Quantity::wavefronts,
             Goal::at_least, 256},
        },
    .within =
        {
            {"at most 9 barriers per row", Quantity::barriers, Goal::at_most, 9},
        },
}};

}  // namespace
