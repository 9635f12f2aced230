#include "common/cpu_device/scheduler/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

#if defined(__x86_64__) && !defined(RMSNORM_BOOST_CONTEXT)
#define RMSNORM_OWN_CONTEXT
#else
#include <boost/context/detail/fcontext.hpp>
#endif

namespace rmsnorm::cpu_device {
namespace {

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

Stacks::Stacks(std::size_t count) : count_(count) {
  const std::size_t stride = kStackBytes + page_bytes();
  void* memory = mmap(
      nullptr, count * stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
      -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(memory);
  for (std::size_t i = 0; i < count; ++i) mprotect(memory_ + i * stride, page_bytes(), PROT_NONE);
}

Stacks::~Stacks() {
  munmap(memory_, count_ * (kStackBytes + page_bytes()));
}

char* Stacks::bottom(std::size_t i) const {
  return memory_ + i * (kStackBytes + page_bytes()) + page_bytes();
}

bool Stacks::contains(const void* address) const {
  const auto* byte = static_cast<const char*>(address);
  return byte >= memory_ && byte < memory_ + count_ * (kStackBytes + page_bytes());
}

void Fiber::begin(char* stack_bottom, char* stack_top, void (*entry)()) {
  entry_ = entry;
  stack_bottom_ = stack_bottom;
  stack_bytes_ = static_cast<std::size_t>(stack_top - stack_bottom);
  fake_stack_ = nullptr;
  make_accessible(stack_bottom, stack_bytes_);  // a fiber that was given up left red zones behind
  context_ = make_context(stack_top, stack_bytes_, start);
}

void Fiber::start() {
  arrive();
  last_switch_.to->entry_();
}

}  // namespace rmsnorm::cpu_device

// Contexts. Each way is one piece of code: an assembler's, or Boost's.

#ifdef RMSNORM_OWN_CONTEXT

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
