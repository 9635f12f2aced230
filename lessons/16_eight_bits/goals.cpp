/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

const ExerciseRegistration exercise{{
    .lesson = "16_eight_bits",
    .shape = {.rows = 32, .hidden = 4096},
    .types = {.dtype = Dtype::bf16, .weight = Dtype::bf16},
    .goals =
        {
            {"at most 2 barriers per row", Quantity::barriers, Goal::at_most, 2},
            {"at most 660 sectors per row", Quantity::sectors, Goal::at_most, 660},
        },
    .within = {},
}};

}  // namespace
