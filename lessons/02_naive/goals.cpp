/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "02_naive",
    .shape = {.rows = 32, .hidden = 4096},
    .goals =
        {
            {"every request to global memory touches at most 4 sectors", Quantity::most_sectors,
             Goal::at_most, 4},
        },
    .within =
        {
            {"every request to global memory has 32 lanes", Quantity::lanes_a_request,
             Goal::at_least, 32},
        },
}};

}  // namespace
