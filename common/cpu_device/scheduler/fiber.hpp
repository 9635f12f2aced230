#pragma once
/// \file
/// Fibers: functions with stacks of their own that one OS thread runs in turn. A fiber runs
/// until it switches to another one itself.

#include <cstddef>

#include "common/base/sanitizer.hpp"

namespace rmsnorm::cpu_device {

/// What CUDA gives a thread at most for its local variables, too.
inline constexpr std::size_t kStackBytes = std::size_t{512} << 10;

// Switching from one stack to another: our own twelve instructions on x86-64, where they save a
// third of the device's time, and Boost.Context on other processors.

/// A context that will run entry() on a stack of `stack_bytes` bytes that ends at `stack_top`, a
/// multiple of 16. entry() must not return.
void* make_context(char* stack_top, std::size_t stack_bytes, void (*entry)());

/// Leaves the running code, to which *save then leads, for the context `to`.
extern "C" void rmsnorm_switch_context(void** save, void* to);

/// Memory for the stacks of many fibers, with a page between two of them that faults when a stack
/// overflows. Pages that are never touched cost nothing.
class Stacks {
 public:
  /// Takes memory for `count` stacks. \throws std::bad_alloc
  explicit Stacks(std::size_t count);
  ~Stacks();                                  ///< frees them
  Stacks(const Stacks&) = delete;             ///< fibers hold addresses of the stacks
  Stacks& operator=(const Stacks&) = delete;  ///< likewise

  std::size_t count() const { return count_; }  ///< of stacks
  char* bottom(std::size_t i) const;            ///< the lowest address of stack i
  /// The end of stack i, where it begins to grow from. Not all at the same distance, or they would
  /// fight for the same few lines of the CPU's cache.
  char* top(std::size_t i) const { return bottom(i) + kStackBytes - i % 32 * 128; }
  /// Whether an address lies in one of the stacks.
  bool contains(const void* address) const;

 private:
  char* memory_;
  std::size_t count_;
};

/// One fiber, or the place to which the fibers return: the code that started the first of them.
class Fiber {
 public:
  /// Makes this the code that is running now; switch_to() leaves it.
  Fiber() = default;
  Fiber(const Fiber&) = delete;             ///< a stack runs one fiber
  Fiber& operator=(const Fiber&) = delete;  ///< likewise

  /// Lets the fiber begin anew at `entry`, which never returns.
  void begin(char* stack_bottom, char* stack_top, void (*entry)());

  /// Leaves this fiber, which is running, for another; returns when someone switches back.
  void switch_to(Fiber& other) {
    last_switch_ = {this, &other};
    other.before_switch(*this);
    rmsnorm_switch_context(&context_, other.context_);
    arrive();
  }

  /// Where its stack begins to grow from.
  const void* stack_end() const { return static_cast<const char*>(stack_bottom_) + stack_bytes_; }

  /// Brings the top of the fiber's stack into the CPU's cache.
  void prefetch() const {
    __builtin_prefetch(context_);
    __builtin_prefetch(static_cast<const char*>(context_) + 64);
  }

 private:
  /// Who left, and for whom.
  struct Switch {
    Fiber* from;
    Fiber* to;
  };

  /// The first thing after a switch, in the fiber that was switched to.
  static void arrive() { last_switch_.to->after_switch(*last_switch_.from); }

  // AddressSanitizer has to know whose stack it is.
#ifdef RMSNORM_ADDRESS_SANITIZER
  void before_switch(Fiber& from) {
    __sanitizer_start_switch_fiber(&from.fake_stack_, stack_bottom_, stack_bytes_);
  }
  void after_switch(Fiber& from) {  // where the main program's stack is shows here
    __sanitizer_finish_switch_fiber(fake_stack_, &from.stack_bottom_, &from.stack_bytes_);
  }
#else
  void before_switch(Fiber&) {}
  void after_switch(Fiber&) {}
#endif

  static void start();

  inline static Switch last_switch_{};
  void* context_ = nullptr;
  void (*entry_)() = nullptr;
  const void* stack_bottom_ = nullptr;
  std::size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
};

}  // namespace rmsnorm::cpu_device
