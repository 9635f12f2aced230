#pragma once
/// \file
/// What the library keeps in shared memory of a long row.

namespace tests {

/// Bytes that a block keeps there of an aligned row.
///
/// \param vectors  of the row, 16 bytes each
/// \param most     bytes that a block of the GPU can have
int staged_bytes_of_row(int vectors, int most);

}  // namespace tests
