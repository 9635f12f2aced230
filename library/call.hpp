#pragma once
/// \file
/// What every function of rmsnorm.h does besides its work: errors, the current device, numbers.

#include <cuda_runtime.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "library/view.hpp"

namespace rmsnorm::library {

/// Keeps the sentence for rmsnorm_last_error().
void remember(std::string_view sentence);

/// What a body's exceptions are to a caller in C.
template <class Body>
rmsnorm_status status_of(const Body& body) {
  try {
    body();
    return RMSNORM_OK;
  } catch (const Refusal& refusal) {
    remember(refusal.sentence);
    return refusal.status;
  } catch (const std::bad_alloc&) {
    remember("the computer is out of memory");
    return RMSNORM_OUT_OF_MEMORY;
  } catch (const std::exception& mistake) {
    remember(mistake.what());
    return RMSNORM_INTERNAL_ERROR;
  }
}

/// \throws Refusal if the number is not finite, or is negative and must not be.
void check_number(const char* name, float number, bool may_be_negative);

/// The weight, if there is one.
/// \throws Refusal for a wrong one, and for a weight_bias that has none to be added to.
std::optional<View> weight_or_none(
    const char* name, const DLTensor* tensor, const View& x, float weight_bias);

/// Calls launch() on the device of the first tensor that is read, if that device can use the memory
/// of each, and none that is written shares memory with another. The first `in_place` of `written`
/// may each be the tensor of `read` with the same index.
/// \throws Refusal
void enqueue(
    const Views& written, const Views& read, std::size_t in_place,
    const std::function<cudaError_t()>& launch);

}  // namespace rmsnorm::library
