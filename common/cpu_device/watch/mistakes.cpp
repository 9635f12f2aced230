/// \file
/// How the watcher words the mistakes that it is told of.

#include <fmt/format.h>
#include <signal.h>

#include <variant>

#include "common/cpu_device/watch/difference.hpp"
#include "common/cpu_device/watch/sentences.hpp"
#include "common/cpu_device/watch/watcher.hpp"

namespace rmsnorm::cpu_device {
namespace {

SourceLine line_at(const Where& where) {
  if (const auto* location = std::get_if<SourceLocation>(&where)) return line_of(*location);
  return line_of_call(std::get<const void*>(where));
}

}  // namespace

Hazard Watcher::hazard_of(
    Mistake what, const SourceLine& line, int thread, const std::vector<Word>& words) const {
  Hazard hazard = hazard_of_host(what, line, words);
  hazard.kernel = kernel();
  hazard.block = running->block_index();
  hazard.thread = running->index_of(thread);
  return hazard;
}

Hazard Watcher::hazard_of_host(
    Mistake what, const SourceLine& line, const std::vector<Word>& words) const {
  const Sentence& sentence = sentence_of(what);
  return {
      .file = line.file,
      .line = line.line,
      .what = worded(sentence.what, words),
      .advice = worded(sentence.advice, words),
      .kernel = {},
      .block = {},
      .thread = {},
      .is_symptom = sentence.is_symptom};
}

void Watcher::mistake(
    Mistake what, const Where& where, int thread, const std::vector<Word>& words) {
  const NotWatching guard;
  const SourceLine line = line_at(where);
  const std::string key =
      fmt::format("{} {}{}", static_cast<int>(what), place_text(line), places_in(words));
  hazards_.add(key, [&] { return hazard_of(what, line, thread, words); });
}

void Watcher::barrier_mismatch(
    const Arrival& own, const Arrival& of_other, int other, bool is_named) {
  const NotWatching guard;
  const auto lines = difference(own, of_other);
  if (!lines) return;
  const std::string here = place_text(lines->first);
  const std::string there = place_text(lines->second);
  hazards_.add("barriers " + here + there, [&] {
    const SourceLine line = line_of(own.location);
    const int thread = running->current();
    if (is_same_line(own.location, of_other.location)) {
      return hazard_of(
          is_named ? Mistake::other_call_of_named_barrier : Mistake::other_call_of_barrier, line,
          thread, {thread, here, other, there});
    }
    return hazard_of(
        is_named ? Mistake::other_named_barrier : Mistake::other_barrier, line, thread,
        {thread, other, there});
  });
}

void Watcher::mistake_of_host(
    Mistake what, const std::vector<const void*>& backtrace, const std::vector<Word>& words) {
  const SourceLine line = user_line(backtrace);
  hazards_.add(
      fmt::format(
          "{} {} {}", static_cast<int>(what), worded(sentence_of(what).what, words),
          place_text(line)),
      [&] { return hazard_of_host(what, line, words); });
}

std::string Watcher::crash(
    int signal, const void* address, const std::vector<const void*>& backtrace, bool is_in_kernel) {
  const SourceLine line = user_line(backtrace);
  const int thread = is_in_kernel ? running->current() : 0;
  const std::string who = is_in_kernel ? fmt::format("thread {}", thread) : "the host's code";
  const auto text = [&](Mistake what, const std::vector<Word>& words) {
    return (is_in_kernel ? hazard_of(what, line, thread, words) : hazard_of_host(what, line, words))
        .text();
  };
  if (signal == SIGFPE) return text(Mistake::crash_division, {who});
  if (signal != SIGSEGV && signal != SIGBUS) return text(Mistake::crash_instruction, {who});
  if (reinterpret_cast<std::uintptr_t>(address) < kNullBytes) {
    return text(Mistake::crash_null, {who});
  }
  if (is_in_kernel && running->stacks().contains(address)) {
    return text(Mistake::crash_stack, {who, kStackBytes >> 10});
  }
  return text(Mistake::crash_address, {who});
}

}  // namespace rmsnorm::cpu_device
