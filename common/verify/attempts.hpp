#pragma once
/// \file
/// The problems that every kernel is tried on.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/contract/regime.hpp"
#include "common/tensors/workload.hpp"

namespace rmsnorm {

/// What is added to the weight, if anything is: what models have, and another number.
inline constexpr float kWeightBiases[] = {1, 0.5f};

/// A problem whose launch is kept.
struct Counted {
  Shape shape;       ///< of x
  Types types = {};  ///< of the tensors
};

/// Other numbers than the workload's, of one of its inputs: x or another matrix; or of all of them.
struct Values {
  std::string name = {};                                        ///< "zeros in every second row"
  std::function<float(float, Shape at, Shape of)> change = {};  ///< of an element, if any
  const char* input = "";                                       ///< the matrix; "": the first
  std::optional<float> weight = {};                             ///< of every third column, besides
  bool sums_to_inf = false;  ///< whether fp32 has no other sum for some rows' squares
  bool is_one_nan = false;   ///< whether there is one, and what is beside it is finite
  bool is_of_all = false;    ///< whether each matrix gets them: what is added up does
};

/// One problem to solve.
struct Attempt {
  WorkloadSpec spec;         ///< its tensors
  Values values = {};        ///< in one of them
  int multiprocessors = 0;   ///< that the device is to have; 0: what it has
  bool keep_launch = false;  ///< to be counted
};

/// The matrix whose values change, as texts have it: its name, or "all inputs".
const char* input_of(const Operation& operation, const Values& values);

/// "3 x 1000", and what is not as usual.
std::string text_of(const Operation& operation, const Attempt& attempt);

/// The attempt of such a text; nothing if it is none of this operation.
std::optional<Attempt> attempt_of(const Operation& operation, std::string_view text);

/// One number in every second row, at a column of its own.
Values one_in_every_second_row(float number);

/// One number as every third weight.
Values every_third_weight(float number);

/// Replaces the values of the attempt's matrices. A line is a row here, where rows have several.
/// Rows are counted on from piece to piece, and anew in each piece if all inputs have the values.
void change(const Workload& workload, const Values& values);

/// Such a problem with each kind of value and each eps that the operation can have.
std::vector<Attempt> with_other_values(const Operation& operation, const WorkloadSpec& spec);

/// The problems that every kernel is tried on, in their order.
std::vector<Attempt> attempts_for(
    const Implementation& implementation, const std::vector<Counted>& counted);

}  // namespace rmsnorm
