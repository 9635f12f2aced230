/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "09_cache_policy",
    .shape = {.rows = 32, .hidden = 4096},
    .goals =
        {
            {"every load of x asks the L2 to evict its line last", Quantity::unkept_x,
             Goal::at_most, 0},
        },
    .within =
        {
            {"x is read from global memory once", Quantity::reads_of_x, Goal::at_most, 1},
        },
}};

}  // namespace
