#pragma once
/// \file
/// What people see while a program runs.

#include <string_view>

namespace rmsnorm {

/// Says on stderr what is going on: on a terminal in a line that the next one replaces; elsewhere
/// every ten seconds at most.
void progress(std::string_view what);
/// Takes that line away.
void end_progress();

/// Whether a stream is a terminal whose user did not ask for NO_COLOR.
bool wants_colour(int file_descriptor);

}  // namespace rmsnorm
