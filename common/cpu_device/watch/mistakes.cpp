/// \file
/// Messages about mistakes.

#include <fmt/args.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

#include "common/cpu_device/runtime/source_lines.hpp"
#include "common/cpu_device/watch/watcher.hpp"

namespace rmsnorm::cpu_device {
namespace {

template <class Value>  // of a Where or a FormatArg
SourceLine line_at(const Value& where) {
  if (const auto* location = std::get_if<SourceLocation>(&where)) return line_of(*location);
  return line_of_call(std::get<const void*>(where));
}

bool is_place(const FormatArg& word) {
  return std::holds_alternative<SourceLocation>(word.value) ||
         std::holds_alternative<const void*>(word.value);
}

std::string text_of(const FormatArg& word) {
  if (is_place(word)) return place_text(line_at(word.value));
  if (const auto* text = std::get_if<std::string>(&word.value)) return *text;
  return fmt::format("{}", std::get<std::int64_t>(word.value));
}

/// A part of a sentence with these arguments.
std::string worded(const char* text, const std::vector<FormatArg>& args) {
  fmt::dynamic_format_arg_store<fmt::format_context> all;
  for (const FormatArg& word : args) all.push_back(text_of(word));
  return fmt::vformat(text, all);
}

/// The lines of two calls.
struct LinePair {
  SourceLine first;   ///< of the one arrival
  SourceLine second;  ///< of the other
};

/// The reader's lines of calls from number `begin` on.
std::vector<SourceLine> lines_from(std::size_t begin, const Arrival& arrival) {
  std::vector<SourceLine> lines;
  for (std::size_t i = begin; i < arrival.calls.size() && arrival.calls[i] != nullptr; ++i) {
    const std::vector<SourceLine>& more = user_lines(arrival.calls[i]);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

/// Where two arrivals diverge: the lines of the barriers or, if these are the same, of the
/// innermost calls that are not. Compilers copy code, so other addresses are not yet another
/// place.
std::optional<LinePair> difference(const Arrival& first, const Arrival& second) {
  if (!is_same_line(first.location, second.location)) {
    return LinePair{line_of(first.location), line_of(second.location)};
  }
  const auto same = std::ranges::mismatch(first.calls, second.calls).in1 - first.calls.begin();
  const std::vector<SourceLine> ours = lines_from(static_cast<std::size_t>(same), first);
  const std::vector<SourceLine> others = lines_from(static_cast<std::size_t>(same), second);
  const auto [our, other] = std::ranges::mismatch(ours, others);
  // Behind the kernel, and where the compiler has lost a line, nothing can be told.
  if (our == ours.end() || other == others.end() || our->line == 0 || other->line == 0) return {};
  return LinePair{*our, *other};
}

}  // namespace

Hazard Watcher::hazard_of(
    const Mistake& what, const SourceLine& line, int thread,
    const std::vector<FormatArg>& args) const {
  Hazard hazard = hazard_of_host(what, line, args);
  hazard.kernel = kernel();
  hazard.block = running->block_index();
  hazard.thread = running->index_of(thread);
  return hazard;
}

Hazard Watcher::hazard_of_host(
    const Mistake& what, const SourceLine& line, const std::vector<FormatArg>& args) const {
  return {
      .file = line.file,
      .line = line.line,
      .what = worded(what.what, args),
      .advice = worded(what.advice, args),
      .kernel = {},
      .block = {},
      .thread = {},
      .is_symptom = what.is_symptom};
}

void Watcher::mistake(
    const Mistake& what, const Where& where, int thread, const std::vector<FormatArg>& args) {
  const NotWatching guard;
  const SourceLine line = line_at(where);
  std::string key = fmt::format("{} {}", fmt::ptr(&what), place_text(line));
  for (const FormatArg& word : args) {
    if (is_place(word)) key += " " + text_of(word);
  }
  hazards_.add(key, [&] { return hazard_of(what, line, thread, args); });
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
          is_named ? mistakes::kOtherCallOfNamedBarrier : mistakes::kOtherCallOfBarrier, line,
          thread, {thread, here, other, there});
    }
    return hazard_of(
        is_named ? mistakes::kOtherNamedBarrier : mistakes::kOtherBarrier, line, thread,
        {thread, other, there});
  });
}

void Watcher::mistake_of_host(
    const Mistake& what, const std::vector<const void*>& backtrace,
    const std::vector<FormatArg>& args) {
  const SourceLine line = user_line(backtrace);
  hazards_.add(
      fmt::format("{} {} {}", fmt::ptr(&what), worded(what.what, args), place_text(line)),
      [&] { return hazard_of_host(what, line, args); });
}

std::string Watcher::crash(
    int signal, const void* address, const std::vector<const void*>& backtrace, bool is_in_kernel) {
  const SourceLine line = user_line(backtrace);
  const int thread = is_in_kernel ? running->current() : 0;
  const std::string who = is_in_kernel ? fmt::format("thread {}", thread) : "the host's code";
  const auto text = [&](const Mistake& what, const std::vector<FormatArg>& args) {
    return (is_in_kernel ? hazard_of(what, line, thread, args) : hazard_of_host(what, line, args))
        .text();
  };
  if (signal == SIGFPE) return text(mistakes::kCrashDivision, {who});
  if (signal != SIGSEGV && signal != SIGBUS) return text(mistakes::kCrashInstruction, {who});
  if (reinterpret_cast<std::uintptr_t>(address) < kNullBytes) {
    return text(mistakes::kCrashNull, {who});
  }
  if (is_in_kernel && running->stacks().contains(address)) {
    return text(mistakes::kCrashStack, {who, kStackBytes >> 10});
  }
  return text(mistakes::kCrashAddress, {who});
}

}  // namespace rmsnorm::cpu_device
