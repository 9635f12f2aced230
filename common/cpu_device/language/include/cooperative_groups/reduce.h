#pragma once
/// \file
/// The CPU device's stand-in for the CUDA Toolkit's header of this name.

#include <cooperative_groups.h>

#include <functional>

namespace cooperative_groups {

template <class T = void>
using plus = std::plus<T>;
template <class T = void>
using bit_and = std::bit_and<T>;
template <class T = void>
using bit_or = std::bit_or<T>;
template <class T = void>
using bit_xor = std::bit_xor<T>;
template <class T>
struct less {
  T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
template <class T>
struct greater {
  T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};

/// Every lane gets the result.
template <class Group, class T, class Operator>
T reduce(const Group& group, T value, Operator reduce, RMSNORM_LOCATION) {
  if constexpr (requires { group.shfl_xor(value, 1); }) {
    for (unsigned distance = group.size() / 2; distance > 0; distance /= 2) {
      value = reduce(value, group.shfl_xor(value, distance, location));
    }
    return value;
  } else {
    for (unsigned distance = 1; distance < group.size(); distance *= 2) {
      const T other = group.shfl_down(value, distance, location);
      if (group.thread_rank() + distance < group.size()) value = reduce(value, other);
    }
    return group.shfl(value, 0, location);
  }
}

/// The lanes up to the own one, or all before it.
template <class Group, class T, class Operator = std::plus<>>
T inclusive_scan(const Group& group, T value, Operator reduce = {}, RMSNORM_LOCATION) {
  for (unsigned distance = 1; distance < group.size(); distance *= 2) {
    const T other = group.shfl_up(value, distance, location);
    if (group.thread_rank() >= distance) value = reduce(other, value);
  }
  return value;
}
template <class Group, class T, class Operator = std::plus<>>
T exclusive_scan(const Group& group, T value, Operator reduce = {}, RMSNORM_LOCATION) {
  const T before = group.shfl_up(inclusive_scan(group, value, reduce, location), 1, location);
  return group.thread_rank() == 0 ? T() : before;
}

}  // namespace cooperative_groups
