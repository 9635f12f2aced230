/// \file
/// What the exercise is to reach.

#include "common/programs/exercise.hpp"

namespace {

using namespace rmsnorm;

// 2 ranks and 3 layers: a row is 6 lines, each of 8192 bytes, which are 256 sectors.
const ExerciseRegistration exercise{{
    .lesson = "17_several_gpus",
    .shape = {.rows = 4, .hidden = 4096},
    .types = {.dtype = Dtype::bf16, .weight = Dtype::bf16},
    .goals =
        {
            {"at most 6 signals per row", Quantity::signals, Goal::at_most, 6},
            {"at most 1536 peer sectors per row", Quantity::peer_sectors, Goal::at_most, 1536},
        },
    .within =
        {
            {"at most 36 barriers per row", Quantity::barriers, Goal::at_most, 36},
        },
}};

}  // namespace
