#pragma once
/// \file
/// Mistakes that the device sees while a kernel runs.

#include <functional>
#include <string>
#include <vector>

#include "common/cpu_device/scheduler/source_location.hpp"

namespace rmsnorm::cpu_device {

/// Of a block or a thread: "3", or "(1, 2, 0)".
std::string text_of(uint3 index);

/// One mistake.
struct Hazard {
  std::string file;         ///< as a reader would type it
  int line;                 ///< where it showed
  std::string what;         ///< what happened, without a full stop: "thread 3 reads ..."
  std::string advice;       ///< one sentence
  std::string kernel;       ///< in which kernel ("": in the host's code) ...
  uint3 block;              ///< ... block
  uint3 thread;             ///< ... and thread
  bool is_symptom = false;  ///< another mistake may be behind it, to be named first

  /// "FILE:LINE: WHAT (KERNEL, block 0, thread 3). ADVICE"
  std::string text() const;
};

/// Collects the mistakes of a launch: each pair of kind and lines once.
class Hazards {
 public:
  /// Adds what `describe` gives, if `key`, which names the kind of mistake and its lines, is new:
  /// to describe a mistake is work.
  void add(const std::string& key, const std::function<Hazard()>& describe);

  /// The mistakes since the last call, in the order in which they showed.
  std::vector<Hazard> take();

 private:
  std::vector<Hazard> hazards_;
  std::vector<std::string> keys_;
};

}  // namespace rmsnorm::cpu_device
