#pragma once
/// \file
/// The contract between a kernel and the harness: what a lesson says of itself.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "common/base/cuda_check.hpp"
#include "common/contract/operation.hpp"

namespace rmsnorm {

/// The bytes of one row (and its part of the weight) that a kernel asks of global memory, in
/// 32-byte sectors, where rows fill whole sectors. Caches may answer a part of them.
struct Traffic {
  double read;            ///< bytes of what is read
  double written;         ///< bytes of what is written
  double from_peers = 0;  ///< bytes of other ranks' memory that are read, in all
  double to_peers = 0;    ///< or written
};

/// A kernel of the tutorial, and what it promises.
/// \tparam View the struct that it takes: RmsNorm, TypedRmsNorm, ...
template <class View>
struct Lesson {
  const char* slug = "";  ///< the folder, the CMake target, the chart label; a variant adds "/name"
  const char* title = "";        ///< as the heading of the lesson's page has it
  const char* idea = "";         ///< one sentence, no full stop
  const char* regime = "";       ///< the regime in which the idea shows; "" if it is about no speed
  const char* starts_from = "";  ///< the slug of the lesson that it changes; "": the one before
  Memory memory = Memory::device;  ///< where it wants its tensors

  /// Enqueues the operation on the stream (the null stream is CUDA's default stream) and returns
  /// what the CUDA calls returned. The problem is one that the lesson supports.
  cudaError_t (*launch)(const View&, cudaStream_t) = nullptr;

  /// Why the lesson cannot do this problem: one sentence with the hardware's reason, or "".
  std::string (*unsupported)(const View&) = nullptr;

  /// What one row costs, when its first column lies on a sector's boundary.
  Traffic (*traffic)(const View&) = nullptr;

  /// The most additions that a term goes through on its way into a sum.
  std::function<SumDepth(const View&)> sum_depth;

  /// Bytes of device memory for what is neither input nor output. The problem's own is null.
  std::size_t (*workspace_bytes)(const View&) = nullptr;
};

/// A lesson's kernel, or whoever else does an operation, as the harness sees it: the functions are
/// those of a Lesson, of a problem without names.
struct Implementation {
  const char* slug;              ///< likewise
  const char* title;             ///< likewise
  const char* idea;              ///< likewise
  const char* regime;            ///< likewise
  const char* starts_from = "";  ///< likewise
  Memory memory;                 ///< likewise
  const Operation* operation;    ///< what it does
  bool is_typed;                 ///< knows more than fp32

  // Those that the lesson has not are empty.
  std::function<cudaError_t(const Problem&, cudaStream_t)> launch;  ///< enqueues the operation
  std::function<std::string(const Problem&)> unsupported;           ///< also of types that it lacks
  std::function<Traffic(const Problem&)> traffic;                   ///< predicted
  std::function<SumDepth(const Problem&)> sum_depth;                ///< promised
  std::function<std::size_t(const Problem&)> workspace_bytes;       ///< 0 for most
};

/// Adds an implementation to the registry when the program starts.
void add_implementation(Implementation implementation);

/// The sentence for a problem of types that an fp32 kernel lacks; "" if they are fp32.
std::string unsupported_types(const char* slug, const Problem& problem);

/// Adds a lesson to the registry when the program starts.
template <class View>
struct Registration {
  /// Keeps a copy.
  explicit Registration(const Lesson<View>& lesson) {
    const auto view = Description<View>::view;
    Implementation added{
        lesson.slug,
        lesson.title,
        lesson.idea,
        lesson.regime,
        lesson.starts_from,
        lesson.memory,
        &operation_of<typename Description<View>::Of>(),
        Description<View>::kIsTyped,
        [=](const Problem& p, cudaStream_t stream) { return lesson.launch(view(p), stream); },
        [=](const Problem& p) {
          const std::string types =
              Description<View>::kIsTyped ? "" : unsupported_types(lesson.slug, p);
          if (!types.empty() || lesson.unsupported == nullptr) return types;
          return lesson.unsupported(view(p));
        },
        [=](const Problem& p) { return lesson.traffic(view(p)); },
        [=](const Problem& p) { return lesson.sum_depth(view(p)); },
        [=](const Problem& p) {
          return lesson.workspace_bytes == nullptr ? 0 : lesson.workspace_bytes(view(p));
        }};
    if (lesson.launch == nullptr) added.launch = nullptr;
    if (lesson.traffic == nullptr) added.traffic = nullptr;
    if (!lesson.sum_depth) added.sum_depth = nullptr;
    add_implementation(std::move(added));
  }
};

/// Bytes of shared memory that a block can have on this device. \throws CudaError
std::int64_t shared_memory_of_block();

/// Bytes of dynamic shared memory that a block of the kernel can have on this device: what there
/// is, less the kernel's own __shared__ variables. More than 48 KiB it has to ask for
/// (cudaFuncSetAttribute). \throws CudaError
template <class Kernel>
std::int64_t shared_memory_room(Kernel* kernel) {
  cudaFuncAttributes attributes{};
  cuda_check(cudaFuncGetAttributes(&attributes, kernel), "asking for a kernel's shared memory");
  return shared_memory_of_block() - static_cast<std::int64_t>(attributes.sharedSizeBytes);
}

}  // namespace rmsnorm
