#include "common/cpu_device/runtime/crash.hpp"

#include <unistd.h>

#include <string>
#include <vector>

#include "common/base/exit_code.hpp"
#include "common/base/sanitizer.hpp"
#include "common/cpu_device/runtime/source_lines.hpp"

namespace rmsnorm::cpu_device {
namespace {

std::string before_crash;
Code code = Code::host;
Observer* observer = nullptr;

void write_out(const std::string& text) {
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(kLessonWrong);
}

#ifndef RMSNORM_ADDRESS_SANITIZER

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
    const std::vector<const void*> calls = times == 1 ? backtrace() : std::vector<const void*>();
    write_out(before_crash + observer->crash(first, address, calls, is_in_kernel()) + "\n");
  } else if (times == 3) {
    write_out(before_crash + "a crash, and nothing tells where\n");
  }
  _exit(kLessonWrong);
}

#endif

}  // namespace

void say_before_crash(const std::string& text) {
  before_crash = text;
}

void end_program(const std::string& sentence) {
  write_out(before_crash + sentence + "\n");
  _exit(kLessonWrong);
}

CrashGuard::CrashGuard(Observer& words, Code guarded) : code_before_(code) {
  observer = &words;
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

}  // namespace rmsnorm::cpu_device
