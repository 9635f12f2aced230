#include "common/cpu_device/runtime/steps.hpp"

#include <sys/time.h>
#include <ucontext.h>

#include <csignal>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/cpu_device/interface/coverage.hpp"
#include "common/cpu_device/runtime/source_lines.hpp"
#include "common/cpu_device/scheduler/observer.hpp"

namespace rmsnorm {
namespace {

std::function<void(const std::string&)> exceeded;

const void* pc_of(const ucontext_t& context) {
#ifdef __x86_64__
  return reinterpret_cast<const void*>(context.uc_mcontext.gregs[REG_RIP]);
#else
  return reinterpret_cast<const void*>(context.uc_mcontext.pc);
#endif
}

/// Compilers make a loop that changes nothing so small that it passes no place. Nothing else takes
/// the processor that long without passing one.
void ticks(int, siginfo_t*, void* context) {
  static std::uint64_t last = 0;
  const bool is_same = last == cpu_device::steps_left;
  last = cpu_device::steps_left;
  if (!is_same || last == 0) return;
  cpu_device::steps_are_over(pc_of(*static_cast<const ucontext_t*>(context)));
}

void tick_every(time_t seconds) {
  const itimerval interval{{seconds, 0}, {seconds, 0}};
  setitimer(ITIMER_VIRTUAL, &interval, nullptr);  // of this process alone
}

}  // namespace

void cpu_device::steps_are_over(const void* pc) {
  const NotWatching guard;
  const std::vector<SourceLine>& lines = user_lines(pc);
  const bool is_known = !lines.empty() && !lines.front().file.empty();
  exceeded(is_known ? place_text(lines.front()) : "");
}

StepLimit::StepLimit(std::uint64_t steps, std::function<void(const std::string&)> exceeded_) {
  constexpr time_t kSeconds = 10;
  exceeded = std::move(exceeded_);
  cpu_device::steps_left = steps;
  struct sigaction action {};
  action.sa_sigaction = ticks;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGVTALRM, &action, nullptr);
  tick_every(kSeconds);
}

StepLimit::~StepLimit() {
  tick_every(0);
  cpu_device::steps_left = 0;
}

}  // namespace rmsnorm
