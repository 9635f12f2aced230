#pragma once
/// \file
/// Mistakes that the device sees while a kernel runs.

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "common/cpu_device/vectors.hpp"

namespace rmsnorm::cpu_device {

/// Functions of CUDA in which lanes of a warp may meet wherever each of them calls it.
enum class WarpCall : int {
  other,       ///< none of them: a library's function
  sync,        ///< __syncwarp
  shfl,        ///< __shfl_sync
  shfl_up,     ///< __shfl_up_sync
  shfl_down,   ///< __shfl_down_sync
  shfl_xor,    ///< __shfl_xor_sync
  ballot,      ///< __ballot_sync
  any,         ///< __any_sync
  all,         ///< __all_sync
  match_any,   ///< __match_any_sync
  match_all,   ///< __match_all_sync
  reduce_add,  ///< __reduce_add_sync
  reduce_min,  ///< __reduce_min_sync
  reduce_max,  ///< __reduce_max_sync
  reduce_and,  ///< __reduce_and_sync
  reduce_or,   ///< __reduce_or_sync
  reduce_xor,  ///< __reduce_xor_sync
};

/// A place in the source.
struct Place {
  const char* file = "";            ///< as the compiler names it
  int line = 0;                     ///< from 1
  WarpCall call = WarpCall::other;  ///< of what there

  /// The same, of a call of this function.
  Place of(WarpCall which) const { return {file, line, which}; }
};

/// Whether two of them are the same line.
inline bool same_place(Place a, Place b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

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

/// The device's mistakes.
Hazards& hazards();

/// A file's name relative to the project or to the current folder, if it lies in there.
std::string short_name(const std::string& file);

}  // namespace rmsnorm::cpu_device
