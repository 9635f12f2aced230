#include "common/cpu_device/runtime/streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <thread>
#include <utility>

#include "common/cpu_device/device.hpp"
#include "common/cpu_device/runtime/crash.hpp"

namespace rmsnorm::cpu_device {
namespace {

void run_next(CUstream_st& stream) {
  const std::function<void()> work = std::move(stream.work.front());
  stream.work.pop_front();
  work();
}

void drain(CUstream_st& stream) {
  while (!stream.work.empty()) run_next(stream);
}

}  // namespace

cudaStream_t Streams::create(bool has_own_queue) {
  streams_.push_back(std::make_unique<CUstream_st>());
  streams_.back()->has_own_queue = has_own_queue;
  return streams_.back().get();
}

void Streams::destroy(cudaStream_t stream) {
  drain(*queue_of(stream));
  std::erase_if(streams_, [&](const auto& own) { return own.get() == stream; });
}

CUstream_st* Streams::queue_of(cudaStream_t stream) {
  if (stream == nullptr) return &default_;
  const bool exists = std::any_of(
      streams_.begin(), streams_.end(), [&](const auto& own) { return own.get() == stream; });
  if (!exists) return nullptr;
  return stream->has_own_queue ? stream : &default_;
}

cudaError_t Streams::refuse_stream(const char* call) {
  return errors_.refuse(
      cudaErrorInvalidResourceHandle,
      fmt::format("{}: there is no such stream, or no longer", call));
}

cudaError_t Streams::add(const char* call, cudaStream_t stream, std::function<void()> work) {
  static const std::thread::id owner = std::this_thread::get_id();
  if (std::this_thread::get_id() != owner) {
    end_program(
        fmt::format("{}: the CPU device takes work from one thread of the host alone", call));
  }
  CUstream_st* const queue = queue_of(stream);
  if (queue == nullptr || errors_.has_to_fail(call)) return refuse_stream(call);
  queue->work.push_back(std::move(work));
  if (is_eager_ && queue != queue_of(lazy_stream_)) drain(*queue);
  return cudaSuccess;
}

cudaError_t Streams::wait_for(CUstream_st& queue) {
  ++waits_;
  drain(queue);
  return errors_.take_fault();
}

cudaError_t Streams::query(CUstream_st& queue) {
  if (queue.work.empty()) return errors_.take_fault();
  run_next(queue);
  return cudaErrorNotReady;
}

cudaError_t Streams::query(CUevent_st& event) {
  return event.reached >= event.wanted ? errors_.take_fault() : query(*event.queue);
}

cudaError_t Streams::wait_for_all() {
  ++waits_;
  drain(default_);
  for (const auto& stream : streams_) drain(*stream);
  return errors_.take_fault();
}

void Streams::set_eager(bool early, cudaStream_t in_order) {
  is_eager_ = early;
  lazy_stream_ = in_order;
}

cudaEvent_t Streams::create_event() {
  events_.push_back(std::make_unique<CUevent_st>());
  return events_.back().get();
}

bool Streams::is_event(cudaEvent_t event) const {
  return std::any_of(events_.begin(), events_.end(), [&](const auto& own) {
    return own.get() == event && !own->is_destroyed;
  });
}

cudaError_t Streams::refuse_event(const char* call) {
  return errors_.refuse(
      cudaErrorInvalidResourceHandle,
      fmt::format("{}: there is no such event, or no longer", call));
}

void Streams::drain_until(CUevent_st& event, int times) {
  while (event.reached < times && !event.queue->work.empty()) run_next(*event.queue);
}

cudaError_t Streams::wait_for(CUevent_st& event) {
  ++waits_;
  drain_until(event, event.wanted);
  return errors_.take_fault();
}

void Streams::forget_all() {
  streams_.clear();
  for (const auto& event : events_) event->is_destroyed = true;
}

std::int64_t Streams::handles() const {
  const auto events = std::count_if(
      events_.begin(), events_.end(), [](const auto& event) { return !event->is_destroyed; });
  return std::ssize(streams_) + events;
}

std::int64_t Streams::queued() const {
  std::size_t count = default_.work.size();
  for (const auto& stream : streams_) count += stream->work.size();
  return static_cast<std::int64_t>(count);
}

}  // namespace rmsnorm::cpu_device

using namespace rmsnorm::cpu_device;

namespace {

Streams& streams() {
  return device().runtime.streams;
}

Errors& errors() {
  return device().runtime.errors;
}

}  // namespace

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (errors().has_to_fail("cudaStreamCreate()")) return errors().note(cudaErrorMemoryAllocation);
  *stream = streams().create(flags == cudaStreamNonBlocking);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  CUstream_st* const queue = stream == nullptr ? nullptr : streams().queue_of(stream);
  if (queue == nullptr) return streams().refuse_stream("cudaStreamDestroy()");
  streams().destroy(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  CUstream_st* const queue = streams().queue_of(stream);
  return queue == nullptr ? streams().refuse_stream("cudaStreamSynchronize()")
                          : streams().wait_for(*queue);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  CUstream_st* const queue = streams().queue_of(stream);
  if (queue == nullptr) return streams().refuse_stream("cudaStreamQuery()");
  return streams().query(*queue);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (errors().has_to_fail("cudaEventCreate()")) return errors().note(cudaErrorMemoryAllocation);
  *event = streams().create_event();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!streams().is_event(event)) return streams().refuse_event("cudaEventDestroy()");
  event->is_destroyed = true;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const char* const call = "cudaEventRecord()";
  CUstream_st* const queue = streams().queue_of(stream);
  if (queue == nullptr) return streams().refuse_stream(call);
  if (!streams().is_event(event)) return streams().refuse_event(call);
  if (event->queue != nullptr && event->queue != queue)
    streams().drain_until(*event, event->wanted);
  event->queue = queue;
  ++event->wanted;
  return streams().add(call, stream, [event] { ++event->reached; });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!streams().is_event(event)) return streams().refuse_event("cudaEventSynchronize()");
  return streams().wait_for(*event);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!streams().is_event(event)) return streams().refuse_event("cudaEventQuery()");
  return streams().query(*event);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  for (const cudaEvent_t event : {begin, end}) {
    if (!streams().is_event(event)) return streams().refuse_event("cudaEventElapsedTime()");
    if (event->queue == nullptr) {
      return errors().refuse(
          cudaErrorInvalidResourceHandle,
          "cudaEventElapsedTime(): an event that was never recorded");
    }
    const cudaError_t state = streams().query(*event);
    if (state != cudaSuccess) return errors().note(state);
  }
  *milliseconds = std::numeric_limits<float>::quiet_NaN();
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const char* const call = "cudaStreamWaitEvent()";
  if (!streams().is_event(event)) return streams().refuse_event(call);
  return streams().add(
      call, stream, [event, times = event->wanted] { streams().drain_until(*event, times); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return streams().add("cudaLaunchHostFunc()", stream, [=] { function(data); });
}
