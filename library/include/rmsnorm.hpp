/** \file
 * librmsnorm for C++17: the functions of rmsnorm.h, which says what each does and needs, with
 * tensors made of pointers, and exceptions. Header only: a program links the same library.
 */
#ifndef RMSNORM_HPP
#define RMSNORM_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "rmsnorm.h"

struct __half;        /* CUDA's, of cuda_fp16.h */
struct __nv_bfloat16; /* CUDA's, of cuda_bf16.h */
struct __nv_fp8_e4m3; /* CUDA's, of cuda_fp8.h */
struct __nv_fp8_e5m2; /* CUDA's, of cuda_fp8.h */

namespace rmsnorm {

/// What a function of the library could not do, in its own sentence.
class Error : public std::runtime_error {
 public:
  /// This thread's latest error.
  explicit Error(rmsnorm_status status)
      : std::runtime_error(rmsnorm_last_error()), status_(status) {}
  rmsnorm_status status() const noexcept { return status_; }  ///< not RMSNORM_OK

 private:
  rmsnorm_status status_;
};

/// Where a tensor lies in a GPU's memory, and how. The memory stays the caller's.
class TensorView {
 public:
  /// \param data the first element: float, __half, __nv_bfloat16, __nv_fp8_e4m3, __nv_fp8_e5m2,
  ///     std::uint8_t for scales that are powers of two, or std::int32_t or std::int64_t for
  ///     positions and slots
  /// \param sizes of each dimension, 4 at most; the last is a row's columns
  /// \param strides of each dimension, in elements; none: contiguous
  /// \param device the number of the CUDA device whose memory it is
  /// \throws std::invalid_argument for too many sizes, or another number of strides
  template <class Element>
  TensorView(
      Element* data, std::initializer_list<std::int64_t> sizes,
      std::initializer_list<std::int64_t> strides = {}, int device = 0)
      : has_strides_(strides.size() > 0) {
    if (sizes.size() > sizes_.size() || (has_strides_ && strides.size() != sizes.size())) {
      throw std::invalid_argument("a tensor has at most 4 sizes, and as many strides or none");
    }
    std::copy(sizes.begin(), sizes.end(), sizes_.begin());
    std::copy(strides.begin(), strides.end(), strides_.begin());
    using T = std::remove_const_t<Element>;
    constexpr bool is_bfloat = std::is_same_v<T, __nv_bfloat16>;
    constexpr bool is_e4m3 = std::is_same_v<T, __nv_fp8_e4m3>;
    constexpr bool is_byte = std::is_same_v<T, std::uint8_t>;
    constexpr bool is_8_bits = is_e4m3 || is_byte || std::is_same_v<T, __nv_fp8_e5m2>;
    constexpr bool is_long = std::is_same_v<T, std::int64_t>;
    constexpr bool is_integer = is_long || std::is_same_v<T, std::int32_t>;
    constexpr bool is_float = std::is_same_v<T, float>;
    static_assert(
        is_8_bits || is_bfloat || is_integer || is_float || std::is_same_v<T, __half>,
        "elements are float, __half, __nv_bfloat16, __nv_fp8_e4m3, __nv_fp8_e5m2, bytes or "
        "integers of 32 or 64 bits");
    tensor_.data = const_cast<T*>(data);
    tensor_.device = {kDLCUDA, device};
    tensor_.ndim = static_cast<int>(sizes.size());
    tensor_.dtype.code = is_byte      ? kDLUInt
                         : is_integer ? kDLInt
                         : is_e4m3    ? RMSNORM_FLOAT8_E4M3FN
                         : is_8_bits  ? RMSNORM_FLOAT8_E5M2
                         : is_bfloat  ? kDLBfloat
                                      : kDLFloat;
    tensor_.dtype.bits = is_long ? 64 : is_integer || is_float ? 32 : is_8_bits ? 8 : 16;
    tensor_.dtype.lanes = 1;
  }

  /// As the C functions take it, as long as this view lives.
  DLTensor dl_tensor() const {
    DLTensor tensor = tensor_;
    tensor.shape = const_cast<std::int64_t*>(sizes_.data());
    tensor.strides = has_strides_ ? const_cast<std::int64_t*>(strides_.data()) : nullptr;
    return tensor;
  }

 private:
  std::array<std::int64_t, 4> sizes_{};
  std::array<std::int64_t, 4> strides_{};
  bool has_strides_;
  DLTensor tensor_{};  // without the two
};

namespace detail {

/// A tensor for the time of a call, or null.
class Argument {
 public:
  explicit Argument(const TensorView& view) : tensor_(view.dl_tensor()) {}  ///< not null
  explicit Argument(const std::optional<TensorView>& view) {                ///< either
    if (view) tensor_ = view->dl_tensor();
  }
  /// As the C functions take it.
  operator const DLTensor*() const { return tensor_ ? &*tensor_ : nullptr; }

 private:
  std::optional<DLTensor> tensor_;
};

/// \throws Error if a call has not returned RMSNORM_OK.
inline void check(rmsnorm_status status) {
  if (status != RMSNORM_OK) throw Error(status);
}

}  // namespace detail

/// rmsnorm_forward(); a weight of std::nullopt stands for ones. \throws Error
inline void forward(
    const TensorView& x, const std::optional<TensorView>& weight, const TensorView& y, float eps,
    float weight_bias = 0, CUstream_st* stream = nullptr) {
  using detail::Argument;
  detail::check(
      rmsnorm_forward(Argument(x), Argument(weight), Argument(y), eps, weight_bias, stream));
}

/// rmsnorm_forward_pair(). \throws Error
inline void forward_pair(
    const TensorView& q, const std::optional<TensorView>& q_weight, const TensorView& q_out,
    const TensorView& k, const std::optional<TensorView>& k_weight, const TensorView& k_out,
    float eps, float weight_bias = 0, CUstream_st* stream = nullptr) {
  using detail::Argument;
  detail::check(rmsnorm_forward_pair(
      Argument(q), Argument(q_weight), Argument(q_out), Argument(k), Argument(k_weight),
      Argument(k_out), eps, weight_bias, stream));
}

/// rmsnorm_residual_add(). \throws Error
inline void residual_add(
    const TensorView& x, const TensorView& residual, const std::optional<TensorView>& weight,
    const TensorView& y, float eps, float weight_bias = 0, CUstream_st* stream = nullptr) {
  using detail::Argument;
  detail::check(rmsnorm_residual_add(
      Argument(x), Argument(residual), Argument(weight), Argument(y), eps, weight_bias, stream));
}

/// rmsnorm_forward_fp8(); tensors of std::nullopt are not there. \throws Error
inline void forward_fp8(
    const TensorView& x, const std::optional<TensorView>& residual,
    const std::optional<TensorView>& weight, const TensorView& y, const TensorView& scale,
    const std::optional<TensorView>& limit, const std::optional<TensorView>& norm,
    rmsnorm_scaling scaling, rmsnorm_rounding rounding, float eps, float weight_bias = 0,
    CUstream_st* stream = nullptr) {
  using detail::Argument;
  detail::check(rmsnorm_forward_fp8(
      Argument(x), Argument(residual), Argument(weight), Argument(y), Argument(scale),
      Argument(limit), Argument(norm), scaling, rounding, eps, weight_bias, stream));
}

/// rmsnorm_forward_rstd(). \throws Error
inline void forward_rstd(
    const TensorView& x, const std::optional<TensorView>& weight, const TensorView& y,
    const TensorView& rstd, float eps, float weight_bias = 0, CUstream_st* stream = nullptr) {
  using detail::Argument;
  detail::check(rmsnorm_forward_rstd(
      Argument(x), Argument(weight), Argument(y), Argument(rstd), eps, weight_bias, stream));
}

/// rmsnorm_backward_workspace_bytes(). \throws Error
inline std::size_t backward_workspace_bytes(const TensorView& x) {
  std::size_t bytes = 0;
  detail::check(rmsnorm_backward_workspace_bytes(detail::Argument(x), &bytes));
  return bytes;
}

/// rmsnorm_backward(); a dweight of std::nullopt is not wanted. \throws Error
inline void backward(
    const TensorView& dy, const TensorView& x, const std::optional<TensorView>& weight,
    const TensorView& rstd, const TensorView& dx, const std::optional<TensorView>& dweight,
    void* workspace, std::size_t workspace_bytes, float weight_bias = 0,
    CUstream_st* stream = nullptr) {
  using detail::Argument;
  detail::check(rmsnorm_backward(
      Argument(dy), Argument(x), Argument(weight), Argument(rstd), Argument(dx), Argument(dweight),
      workspace, workspace_bytes, weight_bias, stream));
}

/// rmsnorm_forward_gated(). \throws Error
inline void forward_gated(
    const TensorView& x, const TensorView& z, const std::optional<TensorView>& weight,
    const TensorView& y, rmsnorm_gate gate, rmsnorm_rounding rounding, float eps,
    float weight_bias = 0, CUstream_st* stream = nullptr) {
  using detail::Argument;
  detail::check(rmsnorm_forward_gated(
      Argument(x), Argument(z), Argument(weight), Argument(y), gate, rounding, eps, weight_bias,
      stream));
}

/// rmsnorm_backward_gated_workspace_bytes(). \throws Error
inline std::size_t backward_gated_workspace_bytes(const TensorView& x) {
  std::size_t bytes = 0;
  detail::check(rmsnorm_backward_gated_workspace_bytes(detail::Argument(x), &bytes));
  return bytes;
}

/// rmsnorm_backward_gated(); a dweight of std::nullopt is not wanted. \throws Error
inline void backward_gated(
    const TensorView& dy, const TensorView& x, const TensorView& z,
    const std::optional<TensorView>& weight, const TensorView& dx, const TensorView& dz,
    const std::optional<TensorView>& dweight, void* workspace, std::size_t workspace_bytes,
    rmsnorm_gate gate, float eps, float weight_bias = 0, CUstream_st* stream = nullptr) {
  using detail::Argument;
  detail::check(rmsnorm_backward_gated(
      Argument(dy), Argument(x), Argument(z), Argument(weight), Argument(dx), Argument(dz),
      Argument(dweight), workspace, workspace_bytes, gate, eps, weight_bias, stream));
}

/// rmsnorm_forward_rotated(); tensors of std::nullopt are not there. \throws Error
inline void forward_rotated(
    const TensorView& q, const std::optional<TensorView>& q_weight, const TensorView& q_out,
    const TensorView& k, const std::optional<TensorView>& k_weight,
    const std::optional<TensorView>& k_out, const TensorView& cos, const TensorView& sin,
    const std::optional<TensorView>& positions, const std::optional<TensorView>& v,
    const std::optional<TensorView>& k_cache, const std::optional<TensorView>& v_cache,
    const std::optional<TensorView>& slots, rmsnorm_rotation rotation, rmsnorm_rounding rounding,
    float eps, float weight_bias = 0, CUstream_st* stream = nullptr) {
  using detail::Argument;
  detail::check(rmsnorm_forward_rotated(
      Argument(q), Argument(q_weight), Argument(q_out), Argument(k), Argument(k_weight),
      Argument(k_out), Argument(cos), Argument(sin), Argument(positions), Argument(v),
      Argument(k_cache), Argument(v_cache), Argument(slots), rotation, rounding, eps, weight_bias,
      stream));
}

/// One rank of a group whose tensors are added up: rmsnorm_ranks, which is destroyed with it.
class Ranks {
 public:
  /// rmsnorm_ranks_create(). \throws Error
  Ranks(void* const* buffers, std::size_t bytes, int rank, int ranks, unsigned limit_ms = 10000) {
    rmsnorm_ranks* made = nullptr;
    detail::check(rmsnorm_ranks_create(buffers, bytes, rank, ranks, limit_ms, &made));
    ranks_.reset(made);
  }
  /// rmsnorm_ranks_status(). \throws Error
  void check() const { detail::check(rmsnorm_ranks_status(get())); }
  /// rmsnorm_ranks_reset(). \throws Error
  void reset() { detail::check(rmsnorm_ranks_reset(get())); }
  rmsnorm_ranks* get() const noexcept { return ranks_.get(); }  ///< as the C functions take it

 private:
  struct Destroy {
    void operator()(rmsnorm_ranks* ranks) const { rmsnorm_ranks_destroy(ranks); }
  };
  std::unique_ptr<rmsnorm_ranks, Destroy> ranks_;
};

/// rmsnorm_all_reduce_residual_add(). \throws Error
inline void all_reduce_residual_add(
    const TensorView& x, const TensorView& residual, const std::optional<TensorView>& weight,
    const TensorView& y, const Ranks& ranks, float eps, float weight_bias = 0,
    CUstream_st* stream = nullptr, rmsnorm_protocol protocol = RMSNORM_PROTOCOL_BY_SIZE) {
  using detail::Argument;
  detail::check(rmsnorm_all_reduce_residual_add(
      Argument(x), Argument(residual), Argument(weight), Argument(y), ranks.get(), protocol, eps,
      weight_bias, stream));
}

}  // namespace rmsnorm

#endif
