#pragma once
/// \file
/// What every function of rmsnorm.h does besides its work: errors, and the current device.

#include <cuda_runtime.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <new>
#include <string_view>

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

/// Calls launch() on the device of the first tensor that is read, if that device can use the memory
/// of each, and none that is written shares memory with another. The first `in_place` of `written`
/// may each be the tensor of `read` with the same index.
/// \throws Refusal
void enqueue(
    const Views& written, const Views& read, std::size_t in_place,
    const std::function<cudaError_t()>& launch);

}  // namespace rmsnorm::library
