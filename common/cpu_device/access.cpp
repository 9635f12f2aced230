#include "common/cpu_device/access.hpp"

#include <fmt/format.h>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/observer.hpp"

namespace rmsnorm::cpu_device {

const char* verb(Touch touch) {
  switch (touch) {
    case Touch::load:
      return "reads";
    case Touch::store:
      return "writes";
    case Touch::atomic:
      return "atomically changes";
  }
  return "";
}

std::string who_text(const Access& access) {
  return fmt::format(
      "thread {} {} {} bytes", block_runner().current(), verb(access.touch), access.bytes);
}

std::string place_text(const SourceLine& line) {
  return fmt::format("{}:{}", line.file, line.line);
}

std::string element_text(const SharedPiece& piece, std::size_t offset) {
  if (piece.bytes == piece.element_bytes) return piece.name;
  return fmt::format("{}[{}]", piece.name, (offset - piece.begin) / piece.element_bytes);
}

Hazard hazard_at(const void* pc) {
  const SourceLine line = line_of_call(pc);
  return {
      .file = line.file,
      .line = line.line,
      .what = "",
      .advice = "",
      .kernel = observer().kernel(),
      .block = block_runner().block_index(),
      .thread = block_runner().index_of(block_runner().current())};
}

}  // namespace rmsnorm::cpu_device
