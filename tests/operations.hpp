#pragma once
/// \file
/// Every operation in straightforward fp64: in other words than the harness's.

#include <map>
#include <string>
#include <vector>

#include "common/contract/operation.hpp"

namespace tests {

/// Every operation.
const std::vector<const rmsnorm::Operation*>& operations();

/// Tensors by their names.
using Tensors = std::map<std::string, std::vector<double>>;

/// A problem in fp64.
struct Numbers {
  int rows;
  int hidden;
  double eps;
  std::vector<double> factors;  ///< (hidden) the weight and its bias; 1 without a weight
  Tensors tensors;              ///< that are read
  double sign_of_mean = -1;  ///< in dx; with 1, of positive numbers, the sizes of its terms add up
};

/// A problem's sizes, and its tensors as they are now, wherever they lie.
Numbers numbers_of(const rmsnorm::Operation& operation, const rmsnorm::Problem& problem);

/// What is to be written.
Tensors solve(const rmsnorm::Operation& operation, const Numbers& numbers);

/// Solves the problem on the host, wherever the tensors are, and rounds each result once.
void store_solution(const rmsnorm::Operation& operation, const rmsnorm::Problem& problem);

/// A problem of these sizes, all of whose tensors are null.
rmsnorm::Problem problem_of(int rows, int hidden, const rmsnorm::Types& types = {});

}  // namespace tests
