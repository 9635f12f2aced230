#pragma once
/// \file
/// Finds problems that lead where the fixed list of attempts.hpp does not, on a device that tells
/// what has run (cpu_device/interface).

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/packed.hpp"
#include "common/cpu_device/interface/coverage.hpp"
#include "common/verify/attempts.hpp"

namespace rmsnorm {

/// What a problem costs, in elements.
double work(const Operation& operation, const WorkloadSpec& spec);

/// Proposes problems for one implementation.
///
/// Where the code compares a number with a constant, sizes and values on both sides of it;
/// multiples of the numbers in its source; where
/// the number is a size, rows and columns on either side of two of them; where no problem with
/// special values has been, these values; and random problems, some at a time, until none of them
/// reaches a new place.
class Search {
 public:
  /// \param implementation what to find problems for
  /// \param seed           of the random ones
  Search(const Implementation& implementation, std::uint64_t seed);

  /// Call it before each problem, also before those of the fixed list,
  void begin(const Attempt& attempt);
  /// and after it. \param supported whether it was one for the implementation
  void end(bool supported);

  /// In place of both, for a problem that another copy of this process does.
  void leave(const Attempt& attempt);
  /// What problems of this copy have come to, for the one that has left them,
  void pack(Packed& packed) const;
  /// which adds it to its own.
  void add(Packed& packed);

  /// The next problems, which do not depend on each other's outcome; none when there is no more to
  /// find out.
  std::vector<Attempt> next();

  /// Launches once more, on some problems, while a CUDA call fails: what is there for errors runs,
  /// too. Where the launch says of no error, its result has to be right: gives the first complaint,
  /// or "". And asks what is said of the largest problems that there can be.
  std::string let_calls_fail() const;

  int drawn() const { return drawn_; }  ///< random problems until now

 private:
  void note_place(std::size_t place, int number);
  void propose_at_constants();
  void propose_sizes(const Threshold& threshold);
  void propose_numbers(const Threshold& threshold);
  void propose_at_numbers();
  void propose_pairs();
  void propose_multiprocessors();
  void propose_shape(Attempt attempt, double rows, double hidden);
  void propose_values();
  double work_of(const WorkloadSpec& spec) const { return work(*implementation_.operation, spec); }
  void keep_small(double& left);
  void draw();
  Attempt random_attempt();

  const Implementation& implementation_;
  const std::uint64_t seed_;
  std::vector<Attempt> attempts_;          ///< all until now
  std::vector<Attempt> queue_;             ///< those to come
  std::map<std::size_t, int> reached_by_;  ///< each place: an attempt that leads there
  std::set<std::size_t> with_values_;      ///< places that one NaN among numbers has reached
  std::set<int> are_done_;                 ///< attempts that were repeated with such values
  std::set<std::string> texts_;            ///< of all that were tried or proposed
  std::map<std::string, std::set<float>> numbers_;  ///< of types: constants that were proposed
  bool has_numbers_ = false;                        ///< whether those of the source were tried
  bool has_pairs_ = false;                          ///< whether sizes were combined
  bool asks_for_multiprocessors_ = false;           ///< whether their number may decide something
  double left_for_sizes_;               ///< of the work that these problems may cost, in elements
  double left_for_numbers_;             ///< likewise
  double left_for_pairs_;               ///< likewise
  double left_for_multiprocessors_;     ///< likewise
  double left_for_values_;              ///< likewise
  int drawn_ = 0;                       ///< random problems
  std::size_t places_before_draw_ = 0;  ///< that had been reached before the last of them
};

}  // namespace rmsnorm
