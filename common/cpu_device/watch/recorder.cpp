#include "common/cpu_device/watch/recorder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rmsnorm::cpu_device {

void Recorder::access(
    const Access& access, bool is_shared, const std::string& what, const void* begin) {
  const SourceLine source = line_of_call(access.pc);
  const std::string kind = std::string(is_shared ? "shared" : "global") +
                           (access.kind == AccessKind::load ? " load" : " store");
  const std::int64_t at =
      static_cast<const char*>(access.address) - static_cast<const char*>(begin);
  join(
      {kind, source.file, source.line, what, access.bytes, {}}, begin, {running->current(), at, 0});
}

void Recorder::shuffle(SourceLocation location, int thread, int from, std::uint32_t own) {
  const SourceLine source = line_of(location);
  join(
      {"shuffle", source.file, source.line, "", 0, {}}, nullptr,
      {thread, from, std::bit_cast<float>(own)});
}

void Recorder::join(Step step, const void* begin, Step::Thread thread) {
  std::vector<Open>& open = open_[thread.number / kWarpThreads];
  const std::uint32_t bit = 1u << thread.number % kWarpThreads;
  auto found = std::find_if(open.begin(), open.end(), [&](const Open& other) {
    return (other.lanes & bit) == 0 && other.step.line == step.line &&
           other.step.kind == step.kind && other.step.what == step.what &&
           other.step.file == step.file;
  });
  if (found == open.end()) {
    found = open.insert(found, {std::move(step), static_cast<const char*>(begin)});
  }
  found->lanes |= bit;
  found->step.threads.push_back(thread);
}

void Recorder::flush_warp(int warp) {
  for (Open& open : open_[warp]) {
    const bool is_store = open.step.kind == "shared store" || open.step.kind == "global store";
    for (Step::Thread& thread : open.step.threads) {  // only now has it happened
      if (is_store && open.step.bytes == sizeof thread.value) {
        std::memcpy(&thread.value, open.begin + thread.at, sizeof thread.value);
      }
    }
    std::ranges::sort(open.step.threads, {}, &Step::Thread::number);
    steps_.push_back(std::move(open.step));
  }
  open_[warp].clear();
}

void Recorder::flush_block() {
  for (int warp = 0; warp < kMaxWarps; ++warp) flush_warp(warp);
}

void Recorder::barrier(SourceLocation location) {
  const SourceLine source = line_of(location);
  steps_.push_back({"barrier", source.file, source.line, "", 0, {}});
}

}  // namespace rmsnorm::cpu_device
