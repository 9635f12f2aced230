#pragma once
/// \file
/// What ./rmsnorm tune tries, and what it makes of the times: the lines of library/plans.csv.

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "library/kernels/forward_shape.hpp"

namespace rmsnorm::tune {

/// A line of the table: the shape for aligned rows of one length on one GPU.
struct Plan {
  std::string device = {};             ///< the GPU's name
  std::string operation = "rms_norm";  ///< the only one that is tuned
  int element_bytes = 2;               ///< of x and y
  int vectors = 1;                     ///< of a row, 16 bytes each
  std::string kind = {};               ///< as in kernels::Kind
  int threads = 0;                     ///< as in kernels::ForwardShape
  int thread_vectors = 0;              ///< likewise
  int cluster = 1;                     ///< likewise
  double gain = 1;                     ///< the formula's time, in times of this one
  std::string driver = {};             ///< of the measurement, as in a Result
  std::string version = {};            ///< likewise
  std::string date = {};               ///< likewise
};

/// "aligned", "cluster", ...
const char* text_of(kernels::Kind kind);

/// "cluster, 4 x 256 threads x 4 vectors"
std::string text_of(const kernels::ForwardShape& shape);

/// The shapes worth measuring for aligned rows of so many vectors, on a GPU that has clusters or
/// not. The first is the formula's.
std::vector<kernels::ForwardShape> candidates(int vectors, bool has_clusters);

/// The shape that the table should have.
struct Choice {
  std::size_t index;  ///< among the candidates; 0: none, since the formula's is good enough
  double gain;        ///< the formula's time, in times of its: their geometric mean
};

/// Gains below this are not worth a line: a measurement on another day may differ by as much.
inline constexpr double kWorthwhile = 1.01;

/// Of the shapes that are at no number of rows slower than the formula's by a factor of
/// kWorthwhile, the fastest.
/// \param times  of the candidates, in their order: at each number of rows
Choice choose(const std::vector<std::vector<double>>& times);

/// Reads the table. \throws std::runtime_error with the file, the line and what is wrong.
std::vector<Plan> read_plans(const std::filesystem::path& file);

/// Writes it: first under a temporary name. \throws std::runtime_error with file and reason.
void write_plans(const std::filesystem::path& file, const std::vector<Plan>& plans);

/// Takes out what there was for the same rows on the same GPU, and puts the plan in if it names a
/// kind. The order stays the one that the build asks for.
void replace(std::vector<Plan>& plans, const Plan& plan);

}  // namespace rmsnorm::tune
