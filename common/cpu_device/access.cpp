#include "common/cpu_device/access.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/watcher.hpp"

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

std::string element_text(const KnownMemory& memory, std::uintptr_t address) {
  const std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(memory.data);
  return fmt::format(
      "{}[{}]", memory.name, offset / static_cast<std::uintptr_t>(memory.element_bytes));
}

SourceLine line_of(Place place) {
  return {short_name(place.file), place.line};
}

Hazard hazard_at(const SourceLine& line, int thread, std::string what, std::string advice) {
  return {
      .file = line.file,
      .line = line.line,
      .what = std::move(what),
      .advice = std::move(advice),
      .kernel = watcher().kernel(),
      .block = block_runner().block_index(),
      .thread = block_runner().index_of(thread)};
}

Hazard hazard_at(const void* pc, std::string what, std::string advice) {
  return hazard_at(line_of_call(pc), block_runner().current(), std::move(what), std::move(advice));
}

}  // namespace rmsnorm::cpu_device
