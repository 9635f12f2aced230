#pragma once
/// \file
/// What people see while a program runs.

#include <string>
#include <string_view>

namespace rmsnorm {

/// Says on stderr what is going on: on a terminal in a line that the next one replaces; elsewhere
/// every ten seconds at most.
void progress(std::string_view what);
/// Takes that line away.
void end_progress();

/// Whether a stream is a terminal whose user did not ask for NO_COLOR.
bool wants_colour(int file_descriptor);

/// The columns that a line may have: those of the terminal, and 100 at most; elsewhere 100.
int width_of(int file_descriptor);

/// The columns that a text in UTF-8 takes, without the colours in it.
int columns_of(std::string_view text);

/// The text with its lines broken at spaces, so that none has more columns, but for a longer word.
/// What goes on has as many columns as that in front, or `indent` if those are more.
std::string wrapped(std::string_view text, int columns, int indent = 2);

/// The line, cut with an ellipsis if it has more columns.
std::string cut(std::string_view line, int columns);

}  // namespace rmsnorm
