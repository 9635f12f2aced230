#include "plots/chart.hpp"

namespace rmsnorm::plots {

// A test computes what a reader needs: a contrast of 4.5 of every text to the background, and
// colours that differ by more than 10 also for who sees no green or no red.
const Theme kLight = {
    .background = "#ffffff",
    .text = "#1f2933",
    .muted = "#5b6775",
    .grid = "#dfe3e8",
    .family = "#8b95a1",
    .accents = {"#0b62b0", "#b35900", "#7a1060"},
};

const Theme kDark = {
    .background = "#0d1117",
    .text = "#e3e8ee",
    .muted = "#9aa7b5",
    .grid = "#353c45",
    .family = "#66717d",
    .accents = {"#4fa3f0", "#f0a04b", "#ff9ed8"},
};

}  // namespace rmsnorm::plots
