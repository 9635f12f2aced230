#include "common/cpu_device/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

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
