// common/measure/move.hpp for Python, as a shared library: the roof of both harnesses is one.
#include "common/measure/move.hpp"

extern "C" {

/// rmsnorm::move_streams() of so many streams. Returns a cudaError_t.
/// \param is_read,is_written  0 or 1 for each
int rmsnorm_move(
    int count, void* const* data, const std::int64_t* bytes, const int* is_read,
    const int* is_written, int overlaps, int is_fine, int keeps, void* stream) {
  std::vector<rmsnorm::Stream> streams;
  for (int i = 0; i < count; ++i)
    streams.push_back({data[i], bytes[i], is_read[i] != 0, is_written[i] != 0});
  const rmsnorm::Way way{overlaps != 0, is_fine != 0, keeps != 0};
  return rmsnorm::move_streams(streams, way, static_cast<cudaStream_t>(stream));
}
}
