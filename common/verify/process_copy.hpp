#pragma once
/// \file
/// Work in a copy of this process, at the same time.

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

namespace rmsnorm {

/// A copy of this process that does one piece of work. It ends when this object does, or the
/// process.
class ProcessCopy {
 public:
  /// Null where the system gives no copy. The copy itself does not return from here.
  /// \param work gives bytes, which finish() returns
  static std::unique_ptr<ProcessCopy> start(const std::function<std::string()>& work);
  ProcessCopy(const ProcessCopy&) = delete;
  ~ProcessCopy();  ///< stops the work

  /// What became of it.
  struct Ended {
    bool is_done;         ///< whether the work came to its end; else the process ended before
    int signal;           ///< that has ended the process, or 0
    std::string result;   ///< of the work
    std::string printed;  ///< what it said on stdout
  };
  Ended finish();  ///< waits for it

 private:
  ProcessCopy() = default;
  pid_t process_ = -1;
  int result_ = -1;   // a file in memory
  int printed_ = -1;  // likewise
};

}  // namespace rmsnorm
