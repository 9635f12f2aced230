/// \file
/// Copies and memsets.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "common/cpu_device/device.hpp"
#include "common/cpu_device/runtime/device_memory.hpp"
#include "common/cpu_device/runtime/source_lines.hpp"

using namespace rmsnorm::cpu_device;

namespace {

Memory& memory() {
  return device().runtime.memory;
}

/// Why a copy cannot be made; "" if it can.
std::string complaint_about_copy(
    const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (to == nullptr) return "the destination is a null pointer";
  if (from == nullptr) return "the source is a null pointer";
  if (!memory().is_long_enough(to, bytes))
    return fmt::format("the destination has no {} bytes", bytes);
  if (!memory().is_long_enough(from, bytes))
    return fmt::format("the source has no {} bytes", bytes);
  const auto is_of_host = [](const void* data) { return memory().find(data) == nullptr; };
  const auto is_of_device = [](const void* data) {
    const Allocation* found = memory().find(data);
    return found != nullptr && found->type == cudaMemoryTypeDevice;
  };
  const bool is_to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool is_from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault) return "";
  if (is_to_device ? is_of_host(to) : is_of_device(to)) {
    return fmt::format(
        "the destination is the {}'s memory, and the direction says otherwise",
        is_to_device ? "host" : "device");
  }
  if (is_from_device ? is_of_host(from) : is_of_device(from)) {
    return fmt::format(
        "the source is the {}'s memory, and the direction says otherwise",
        is_from_device ? "host" : "device");
  }
  return "";
}

/// What a call does that comes later, when its memory has gone.
void report_freed(const char* call, const std::vector<const void*>& backtrace) {
  device().runtime.errors.set_fault(cudaErrorIllegalAddress);
  device().grid.observer().mistake_of_host(mistakes::kFreedBeforeUse, backtrace, {call});
}

/// More bytes than are copied while few blocks of a large launch run.
constexpr std::size_t kLargeCopy = 1 << 28;

/// Copies on a stream, for the call of this name.
cudaError_t copy(
    const char* call, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
    cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const bool is_sample = device().grid.sampler().is_on();
  if (is_sample && bytes > kLargeCopy) {
    device().grid.sampler().obstruct("it copies memory as large as a tensor");
    return cudaSuccess;
  }
  if (const std::string why = complaint_about_copy(to, from, bytes, kind); !why.empty()) {
    return refuse(cudaErrorInvalidValue, fmt::format("{}: {}", call, why));
  }
  const bool is_to_device = memory().find(to) != nullptr;
  const bool is_from_device = memory().find(from) != nullptr;
  // What is neither the device's nor pinned is read before the call returns.
  const auto* const begin = static_cast<const char*>(from);
  const bool is_read_now = is_to_device && !is_from_device;
  const std::vector<char> staged(begin, is_read_now ? begin + bytes : begin);
  const auto is_of_host = [](const void* data) {
    const Allocation* const found = memory().find(data);
    return found == nullptr || found->type == cudaMemoryTypeHost;
  };
  Observer& observer = device().grid.observer();
  if (is_of_host(to)) observer.copy_queued(to, bytes, true);
  if (!is_read_now && is_of_host(from)) observer.copy_queued(from, bytes, false);
  const auto forget = [=, &observer] {
    for (const void* const memory : {static_cast<const void*>(to), from})
      observer.copy_made(memory);
  };
  const auto work = [=, from_where = backtrace()] {
    forget();
    const bool is_freed = (is_to_device && memory().find(to) == nullptr) ||
                          (is_from_device && memory().find(from) == nullptr);
    if (is_freed) return report_freed(call, from_where);
    std::memmove(to, is_read_now ? staged.data() : from, bytes);
    if (!is_sample) device().grid.observer().filled(to, bytes);
  };
  const cudaError_t added = device().runtime.streams.add(call, stream, work);
  if (added != cudaSuccess) {
    forget();
  } else if (is_from_device && !is_to_device && !is_sample) {
    return cudaStreamSynchronize(stream);  // to what is not pinned
  }
  return added;
}

/// Sets bytes on a stream, likewise.
cudaError_t set(const char* call, void* data, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const bool is_sample = device().grid.sampler().is_on();
  const auto refuse_memory = [&](const char* why) {
    return refuse(cudaErrorInvalidValue, fmt::format("{}: {}", call, why));
  };
  if (data == nullptr) return refuse_memory("a null pointer");
  if (memory().find(data) == nullptr) return refuse_memory("it is not the device's memory");
  if (!memory().is_long_enough(data, bytes)) {
    return refuse_memory(fmt::format("the memory has no {} bytes", bytes).c_str());
  }
  return device().runtime.streams.add(call, stream, [=, from_where = backtrace()] {
    if (memory().find(data) == nullptr) return report_freed(call, from_where);
    if (is_sample && set_repeated_memory(static_cast<char*>(data), bytes, value)) return;
    std::memset(data, value, bytes);
    device().grid.observer().filled(data, bytes);
  });
}

/// Calls of_row(number) for rows of so many bytes, each `pitch` behind the one before.
cudaError_t for_rows(
    const char* call, std::size_t pitch, std::size_t bytes, std::size_t rows, const auto& of_row) {
  if (bytes > pitch) {
    return refuse(
        cudaErrorInvalidValue,
        fmt::format("{}: rows of {} bytes are longer than the pitch", call, bytes));
  }
  for (std::size_t row = 0; row < rows; ++row) {
    if (const cudaError_t error = of_row(row); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t copy_rows(
    const char* call, void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
    std::size_t bytes, std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  return for_rows(call, std::min(to_pitch, from_pitch), bytes, rows, [&](std::size_t row) {
    return copy(
        call, static_cast<char*>(to) + row * to_pitch,
        static_cast<const char*>(from) + row * from_pitch, bytes, kind, stream);
  });
}

cudaError_t set_rows(
    const char* call, void* data, std::size_t pitch, int value, std::size_t bytes, std::size_t rows,
    cudaStream_t stream) {
  return for_rows(call, pitch, bytes, rows, [&](std::size_t row) {
    return set(call, static_cast<char*>(data) + row * pitch, value, bytes, stream);
  });
}

/// Waits for the default stream, if what was put there is to be done at once.
cudaError_t wait_after(cudaError_t putting) {
  return putting == cudaSuccess ? device().runtime.streams.wait_for_default() : putting;
}

}  // namespace

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t before = device().runtime.streams.wait_for_default();
  if (before != cudaSuccess) return before;
  return wait_after(copy("cudaMemcpy()", to, from, bytes, kind, nullptr));
}

cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy("cudaMemcpyAsync()", to, from, bytes, kind, stream);
}

cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  const cudaError_t before = device().runtime.streams.wait_for_default();
  if (before != cudaSuccess) return before;
  return wait_after(set("cudaMemset()", data, value, bytes, nullptr));
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  return set("cudaMemsetAsync()", data, value, bytes, stream);
}

cudaError_t cudaMemcpy2D(
    void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t bytes,
    std::size_t rows, cudaMemcpyKind kind) {
  return wait_after(
      copy_rows("cudaMemcpy2D()", to, to_pitch, from, from_pitch, bytes, rows, kind, nullptr));
}

cudaError_t cudaMemcpy2DAsync(
    void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t bytes,
    std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_rows(
      "cudaMemcpy2DAsync()", to, to_pitch, from, from_pitch, bytes, rows, kind, stream);
}

cudaError_t cudaMemset2D(
    void* data, std::size_t pitch, int value, std::size_t bytes, std::size_t rows) {
  return wait_after(set_rows("cudaMemset2D()", data, pitch, value, bytes, rows, nullptr));
}

cudaError_t cudaMemset2DAsync(
    void* data, std::size_t pitch, int value, std::size_t bytes, std::size_t rows,
    cudaStream_t stream) {
  return set_rows("cudaMemset2DAsync()", data, pitch, value, bytes, rows, stream);
}
