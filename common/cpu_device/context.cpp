#include "common/cpu_device/fiber.hpp"

#if defined(__x86_64__) && !defined(RMSNORM_BOOST_CONTEXT)

// A function has to leave rbx, rbp and r12 to r15 as it found them (System V ABI): they go onto the
// stack that is left, and come back from the other one. The return address lies on the stack
// already.
asm(R"(
.text
.globl rmsnorm_switch_context
.type rmsnorm_switch_context, @function
rmsnorm_switch_context:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size rmsnorm_switch_context, .-rmsnorm_switch_context
)");

void* rmsnorm::cpu_device::make_context(char* stack_top, std::size_t, void (*entry)()) {
  constexpr int kSaved = 6;
  auto** top = reinterpret_cast<void**>(stack_top);
  *--top = nullptr;  // where entry() would return to, and the alignment that a call leaves
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSaved; ++i) *--top = nullptr;
  return top;
}

#else

#include <boost/context/detail/fcontext.hpp>

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

namespace {

/// Boost tells the code that is switched to where the one that was left can be found.
void keep(transfer_t from) {
  *static_cast<void**>(from.data) = from.fctx;
}

}  // namespace

extern "C" void rmsnorm_switch_context(void** save, void* to) {
  keep(jump_fcontext(to, save));
}

void* rmsnorm::cpu_device::make_context(char* stack_top, std::size_t stack_bytes, void (*entry)()) {
  static void (*run)();  // one for all: every fiber of the device begins in the same function
  run = entry;
  return make_fcontext(stack_top, stack_bytes, [](transfer_t from) {
    keep(from);
    run();
  });
}

#endif
