#pragma once
/// \file
/// Code that brings the whole process down: says who and where, while that is still possible.

#include <signal.h>

#include <array>
#include <string>

#include "common/cpu_device/scheduler/observer.hpp"

namespace rmsnorm::cpu_device {

/// Whose code may crash.
enum class Code {
  host,    ///< the program's
  kernel,  ///< a kernel's
};

/// While it lives, a crash ends the program with a sentence. (AddressSanitizer has more to say.)
class CrashGuard {
 public:
  /// From now on, it is this one's code. The observer words what happened.
  CrashGuard(Observer& observer, Code code);
  ~CrashGuard();                                      ///< from now on, it is whose it was before
  CrashGuard(const CrashGuard&) = delete;             ///< it ends with its scope
  CrashGuard& operator=(const CrashGuard&) = delete;  ///< likewise

 private:
  static constexpr std::array kSignals{SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  std::array<struct sigaction, kSignals.size()> before_{};
  Code code_before_;
};

/// What is said in front of the sentence.
void say_before_crash(const std::string& text);

/// Ends the program with a sentence as of a crash.
[[noreturn]] void end_program(const std::string& sentence);

/// Whether it is a kernel that runs now, under a guard.
bool is_in_kernel();

}  // namespace rmsnorm::cpu_device
