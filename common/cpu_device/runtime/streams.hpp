#pragma once
/// \file
/// Streams of work, and events in them.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/cpu_device/runtime/errors.hpp"

/// A queue of work. Nobody works on it but whoever waits for it.
///
/// The default stream and all others but the non-blocking ones wait for each other: they share one
/// queue, which is an order that CUDA allows.
struct CUstream_st {
  std::deque<std::function<void()>> work;  ///< the first to be done first
  bool has_own_queue = false;              ///< whether it waits for no other
};

/// A point in a stream's work.
struct CUevent_st {
  bool is_destroyed = false;     ///< work may still wait for it: it is kept
  CUstream_st* queue = nullptr;  ///< whose; null: it was never recorded
  int wanted = 0;                ///< how often it was recorded
  int reached = 0;               ///< how often that point was reached
};

namespace rmsnorm::cpu_device {

/// The streams and events of a device.
class Streams {
 public:
  /// Notes what goes wrong.
  explicit Streams(Errors& errors) : errors_(errors) {}

  cudaStream_t create(bool has_own_queue);  ///< a stream
  void destroy(cudaStream_t stream);        ///< works it off first
  /// The queue of a stream; null for a stream that does not exist.
  CUstream_st* queue_of(cudaStream_t stream);
  /// Puts work on a stream, for the call of this name.
  cudaError_t add(const char* call, cudaStream_t stream, std::function<void()> work);
  cudaError_t refuse_stream(const char* call);  ///< there is none
  cudaError_t wait_for(CUstream_st& queue);     ///< works off all that is there
  /// Whether all is done; if not, the next piece is, so that who keeps asking comes to an end.
  cudaError_t query(CUstream_st& queue);
  cudaError_t query(CUevent_st& event);                          ///< the same of its point
  cudaError_t wait_for_default() { return wait_for(default_); }  ///< the same of the default stream
  cudaError_t wait_for_all();                                    ///< the same of all streams
  /// Eager execution: from now on, all streams but one run their work as soon as events let them.
  /// CUDA promises nothing else: who needs an order has to ask for it.
  void set_eager(bool early, cudaStream_t in_order);

  cudaEvent_t create_event();                      ///< an event
  bool is_event(cudaEvent_t event) const;          ///< whether it exists
  cudaError_t refuse_event(const char* call);      ///< there is none
  void drain_until(CUevent_st& event, int times);  ///< its point is reached so often
  cudaError_t wait_for(CUevent_st& event);         ///< the same, until it is reached

  void forget_all();  ///< no stream and no event is left

  std::int64_t waits() const { return waits_; }  ///< for what lies on a stream, until now
  std::int64_t handles() const;                  ///< streams and events that are there
  std::int64_t queued() const;                   ///< work that nobody has waited for

 private:
  Errors& errors_;
  CUstream_st default_;
  std::vector<std::unique_ptr<CUstream_st>> streams_;
  std::vector<std::unique_ptr<CUevent_st>> events_;
  std::int64_t waits_ = 0;
  bool is_eager_ = false;               // all streams but one work as soon as they can
  cudaStream_t lazy_stream_ = nullptr;  // that one
};

}  // namespace rmsnorm::cpu_device
