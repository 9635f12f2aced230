#pragma once
/// \file
/// What `kernel<<<grid, block, shared, stream>>>(arguments)` becomes:
///
///     RMSNORM_KERNEL(kernel) ->* Launch(grid, block, shared, stream)(arguments);
///
/// or, where no name stands in front but an expression, the same without RMSNORM_KERNEL().

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "common/cpu_device/scheduler/source_location.hpp"

struct CUstream_st;
typedef CUstream_st* cudaStream_t;  ///< as the CUDA runtime has it

namespace rmsnorm::cpu_device {

/// A kernel and its arguments, as they were when it was launched.
class Call {
 public:
  virtual ~Call() = default;
  virtual void run() = 0;                  ///< in one thread
  virtual const void* kernel() const = 0;  ///< its code
  virtual std::size_t bytes() const = 0;   ///< of the object itself, which holds the arguments
};

/// A call of a kernel with these parameters.
template <class... Parameters>
class CallOf final : public Call {
 public:
  template <class... Arguments>
  /// Keeps copies of the arguments.
  explicit CallOf(void (*kernel)(Parameters...), Arguments&&... arguments)
      : kernel_(kernel), arguments_(std::forward<Arguments>(arguments)...) {}
  void run() override { std::apply(kernel_, arguments_); }
  const void* kernel() const override { return reinterpret_cast<const void*>(kernel_); }
  std::size_t bytes() const override { return sizeof *this; }

 private:
  void (*kernel_)(Parameters...);
  std::tuple<Parameters...> arguments_;
};

/// What stands between <<< and >>>.
struct Launch {
  /// As CUDA has them: the stream, and shared memory, may be left out.
  Launch(dim3 grid_, dim3 block_, std::size_t shared_bytes_ = 0, cudaStream_t stream_ = nullptr)
      : grid(grid_), block(block_), shared_bytes(shared_bytes_), stream(stream_) {}

  /// Of a launch without the threads of a block.
  template <class Grid>
  explicit Launch(Grid) : Launch(1, 1) {
    static_assert(
        sizeof(Grid) == 0, "launch: between <<< and >>> stand the blocks and a block's threads");
  }

  dim3 grid;                    ///< blocks
  dim3 block;                   ///< threads of a block
  std::size_t shared_bytes;     ///< dynamic shared memory of a block
  cudaStream_t stream;          ///< null: the default stream
  bool may_overlap = false;     ///< whether it may begin before the one before it has ended
  int cluster = 1;              ///< blocks of a cluster
  bool is_cooperative = false;  ///< whether its blocks are on the device together

  template <class... Arguments>
  /// The launch with the arguments of its kernel.
  auto operator()(Arguments&&... arguments) const;
};

/// A launch and its arguments, which wait for the kernel.
template <class... Arguments>
struct LaunchWith {
  const Launch& launch;                  ///< the numbers
  std::tuple<Arguments&&...> arguments;  ///< the kernel's
};

template <class... Arguments>
auto Launch::operator()(Arguments&&... arguments) const {
  return LaunchWith<Arguments...>{*this, {std::forward<Arguments>(arguments)...}};
}

/// Puts a call on its stream, if the device can carry it out; otherwise notes the error that CUDA
/// would return.
void enqueue(const Launch& launch, std::shared_ptr<Call> call);

/// Launches: what the rewriter makes of kernel<<<blocks, threads>>>(arguments).
template <class... Parameters, class... Arguments>
void operator->*(void (*kernel)(Parameters...), LaunchWith<Arguments...>&& with) {
  constexpr bool kSameNumber = sizeof...(Parameters) == sizeof...(Arguments);
  static_assert(
      kSameNumber, "launch: the kernel has more or fewer parameters than these arguments");
  if constexpr (kSameNumber) {
    constexpr bool kFit = (std::is_convertible_v<Arguments, Parameters> && ...);
    static_assert(kFit, "launch: an argument is of another type than the kernel's parameter");
    if constexpr (kFit) {
      std::apply(
          [&](auto&&... arguments) {
            enqueue(
                with.launch, std::make_shared<CallOf<Parameters...>>(
                                 kernel, std::forward<decltype(arguments)>(arguments)...));
          },
          std::move(with.arguments));
    }
  }
}

/// A name in front of <<<: of one kernel, or of a template or several functions, of which the
/// arguments choose one.
template <class Use, class Call>
struct Named {
  Use use;    ///< hands the name to a function
  Call call;  ///< calls it
};
/// What clang 16 does not find itself.
template <class Use, class Call>
Named(Use, Call) -> Named<Use, Call>;

/// Takes a kernel with these parameters; of several, the one that has them.
template <class... Parameters>
struct Taking {
  /// The kernel.
  auto operator()(void (*kernel)(Parameters...)) const { return kernel; }
};
/// Takes a kernel if there is only one.
struct TakingAny {
  template <class... Parameters>
  /// The kernel.
  auto operator()(void (*kernel)(Parameters...)) const {
    return kernel;
  }
};

/// Types.
template <class... Types>
struct List {};

/// Taking<...> for arguments of these types, each a parameter of its own type or, for a pointer, of
/// a pointer to const; void if no kernel of the name has such parameters.
template <class Use, class... Done>
auto parameters_of(List<Done...>, List<>) {
  if constexpr (requires(const Use& use) { use(Taking<Done...>()); }) return Taking<Done...>();
}
/// The same, with some types still to come.
template <class Use, class... Done, class Next, class... Rest>
auto parameters_of(List<Done...>, List<Next, Rest...>) {
  using Const = std::add_pointer_t<std::add_const_t<std::remove_pointer_t<Next>>>;
  using AsIs = decltype(parameters_of<Use>(List<Done..., Next>(), List<Rest...>()));
  if constexpr (!std::is_void_v<AsIs> || !std::is_pointer_v<Next> || std::is_same_v<Next, Const>) {
    return AsIs();
  } else {
    return parameters_of<Use>(List<Done..., Const>(), List<Rest...>());
  }
}

/// Launches the kernel of a name that takes these arguments.
template <class Use, class Call, class... Arguments>
void operator->*(const Named<Use, Call>& name, LaunchWith<Arguments...>&& with) {
  using Types = List<std::decay_t<Arguments>...>;
  using Known = decltype(parameters_of<Use>(List<>(), Types()));
  if constexpr (requires { name.use(TakingAny()); }) {
    name.use(TakingAny())->*std::move(with);
  } else if constexpr (!std::is_void_v<Known>) {
    name.use(Known())->*std::move(with);
  } else {  // it takes arguments of other types
    void (*const kernel)(Call, std::decay_t<Arguments>...) =
        [](Call call, std::decay_t<Arguments>... arguments) { call(arguments...); };
    std::apply(
        [&](auto&&... arguments) {
          kernel->*with.launch(name.call, std::forward<decltype(arguments)>(arguments)...);
        },
        std::move(with.arguments));
  }
}

}  // namespace rmsnorm::cpu_device

/// What stands in front of <<<.
#define RMSNORM_KERNEL(...)                                                                 \
  ::rmsnorm::cpu_device::Named {                                                            \
    [&](auto use) -> decltype(use(__VA_ARGS__)) { return use(__VA_ARGS__); },               \
        [&](auto&... arguments) -> decltype(static_cast<void>(__VA_ARGS__(arguments...))) { \
          __VA_ARGS__(arguments...);                                                        \
        }                                                                                   \
  }
