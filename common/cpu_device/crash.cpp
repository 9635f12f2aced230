#include "common/cpu_device/crash.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "common/base/exit_code.hpp"
#include "common/base/watching.hpp"
#include "common/cpu_device/access.hpp"
#include "common/cpu_device/block.hpp"
#include "common/cpu_device/sanitizer.hpp"
#include "common/cpu_device/source_lines.hpp"

namespace rmsnorm {
namespace {

std::string before_crash;

}  // namespace

void say_before_crash(const std::string& text) {
  before_crash = text;
}

namespace cpu_device {
namespace {

Code code = Code::host;

#ifndef RMSNORM_ADDRESS_SANITIZER

void write_out(const std::string& text) {
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(kLessonWrong);
}

/// What happened, as in "thread 3 uses a null pointer", and an advice.
Hazard describe(int signal, const void* address, const SourceLine& line) {
  constexpr std::uintptr_t kNullBytes = 1 << 16;
  const bool is_kernel = code == Code::kernel;
  const int thread = is_kernel ? block_runner().current() : 0;
  const std::string who = is_kernel ? fmt::format("thread {}", thread) : "the host's code";
  const auto at = [&](std::string what, std::string advice) {
    if (is_kernel) return hazard_at(line, thread, std::move(what), std::move(advice));
    return Hazard{line.file, line.line, std::move(what), std::move(advice), {}, {}, {}};
  };
  if (signal == SIGFPE) return at(who + " divides a whole number by zero", "Look at it before");
  if (signal != SIGSEGV && signal != SIGBUS) {
    return at(who + " runs into what is no instruction", "Does each function return a value?");
  }
  if (reinterpret_cast<std::uintptr_t>(address) < kNullBytes) {
    return at(who + " uses a null pointer", "What a problem lacks is null: look before the access");
  }
  if (is_kernel && block_runner().stacks().contains(address)) {
    return at(
        fmt::format("{} needs more than {} KiB for its local variables", who, kStackBytes >> 10),
        "Is an array too large, or an index beyond it, or does a function call itself?");
  }
  return at(
      who + " uses an address that is nobody's",
      "Is a pointer or an index not what it should be, or its memory freed before?");
}

void report_crash(int signal, siginfo_t* information, void*);

/// Has a signal reported; returns what was to happen at it before.
struct sigaction report_at(int signal) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_sigaction = report_crash;
  action.sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO;
  sigaction(signal, &action, &before);
  return before;
}

/// Ends the program. What looks for names and lines does more than a signal's handler may, so that
/// it may crash or hang itself: then this comes again, and says less.
void report_crash(int signal, siginfo_t* information, void*) {
  static volatile sig_atomic_t times = 0;
  static volatile sig_atomic_t first = signal;
  constexpr unsigned kSeconds = 10;
  times = times + 1;
  if (times == 1) {
    report_at(SIGALRM);
    alarm(kSeconds);
  }
  static const void* const address = information->si_addr;
  if (times <= 2) {
    const SourceLine line = times == 1 ? readers_line(callers()) : SourceLine{};
    write_out(before_crash + describe(first, address, line).text() + "\n");
  } else if (times == 3) {
    write_out(before_crash + "a crash, and nothing tells where\n");
  }
  _exit(kLessonWrong);
}

#endif

}  // namespace

CrashGuard::CrashGuard(Code guarded) : code_before_(code) {
  code = guarded;
#ifndef RMSNORM_ADDRESS_SANITIZER
  static char stack[64 << 10];  // the kernel's own may be what has run out
  const stack_t alternative{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&alternative, nullptr);
  for (std::size_t i = 0; i < kSignals.size(); ++i) before_[i] = report_at(kSignals[i]);
#endif
}

CrashGuard::~CrashGuard() {
  code = code_before_;
#ifndef RMSNORM_ADDRESS_SANITIZER
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
#endif
}

bool is_in_kernel() {
  return code == Code::kernel;
}

}  // namespace cpu_device
}  // namespace rmsnorm
