/// \file
/// The function of rmsnorm.h for norms with a rotation.

#include "library/kernels/rotation.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "library/call.hpp"
#include "library/include/rmsnorm.h"

namespace rmsnorm::library {
namespace {

constexpr std::int64_t kMostHeads = 65536;  ///< of a token, in each tensor

/// Refuses another number of dimensions. A tensor of null is left to others.
void check_dimensions(const Argument& argument, int dimensions, const char* needed) {
  const DLTensor* const tensor = argument.tensor;
  if (tensor == nullptr || tensor->ndim == dimensions) return;
  refuse(
      RMSNORM_BAD_SHAPE, "{} has {} dimension{}: it needs {}, {}", argument.name, tensor->ndim,
      tensor->ndim == 1 ? "" : "s", dimensions, needed);
}

std::int64_t tokens_of(const View& heads) {
  return heads.region.size[kRowDimensions - 2];
}

/// The tensor as heads of tokens.
View heads_at(const Argument& argument) {
  check_dimensions(argument, 3, "(tokens, heads, head_dim)");
  const View view = rows_of(argument);
  require(
      heads_of(view) <= kMostHeads, RMSNORM_BAD_SHAPE, "{} has {} heads: it needs {} at most",
      view.name, heads_of(view), kMostHeads);
  return view;
}

/// The kernels know no other types of weights and tables.
void check_fp32_or_like(const View& tensor, const View& q) {
  if (tensor.dtype != Dtype::fp32) check_dtype(tensor, q);
}

std::optional<View> weight_at(const Argument& argument, const View& x, float weight_bias) {
  const auto weight = weight_or_none(argument, x, weight_bias);
  if (weight) check_fp32_or_like(*weight, x);
  return weight;
}

/// Integers, one for each token.
struct Integers {
  View memory;
  bool have_64_bits;  ///< else 32
};

Integers integers_at(const Argument& argument, const View& q) {
  check_dimensions(argument, 1, "(tokens)");
  const auto [name, tensor] = argument;
  require(
      tensor->shape != nullptr, RMSNORM_BAD_POINTER, "{} has no shape: the pointer to it is null",
      name);
  DLTensor t = *tensor;
  const DLDataType dtype = t.dtype;
  if (dtype.code != kDLInt || (dtype.bits != 32 && dtype.bits != 64) || dtype.lanes != 1)
    refuse(
        RMSNORM_BAD_DTYPE, "{} has elements of {}: they need to be int32 or int64", name,
        name_of(dtype));
  const std::int64_t size = t.shape[0], bytes = dtype.bits / 8;
  require(
      size == tokens_of(q), RMSNORM_BAD_SHAPE,
      "{} has {} elements: it needs one for each of the {} tokens of {}", name, size, tokens_of(q),
      q.name);
  require(
      size <= 1 || t.strides == nullptr || t.strides[0] == 1, RMSNORM_BAD_STRIDES,
      "{} has the stride {}: it needs 1, numbers side by side", name,
      size <= 1 || t.strides == nullptr ? 1 : t.strides[0]);
  require(
      size == 0 || t.data != nullptr, RMSNORM_BAD_POINTER,
      "{} has {} elements and no data: the pointer to them is null", name, size);
  const auto address = reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset;
  require(
      size == 0 || address % bytes == 0, RMSNORM_BAD_ALIGNMENT,
      "{} begins at the address {:#x}: {} needs a multiple of {}", name, address, name_of(dtype),
      bytes);
  // Words of 4 bytes, of a type that rows_of() knows.
  std::int64_t words[2] = {size, bytes / 4};
  t.ndim = 2;
  t.shape = words;
  t.strides = nullptr;
  t.dtype = {kDLFloat, 32, 1};
  const View memory = rows_of({name, &t});
  check_device(memory, q);
  return {memory, bytes == 8};
}

/// The tensor as cosines or sines, of x's type or fp32.
View table_at(const Argument& argument, const View& q) {
  check_dimensions(argument, 2, "(positions, rotary_dim / 2)");
  const View table = rows_of(argument);
  check_device(table, q);
  check_fp32_or_like(table, q);
  require(
      (table.hidden >= 1 || q.hidden == 0) && 2 * table.hidden <= q.hidden, RMSNORM_BAD_SHAPE,
      "{} has {} columns, half of rotary_dim: {}, with {} columns, needs 1 to {}", table.name,
      table.hidden, q.name, q.hidden, q.hidden / 2);
  require(
      table.region.rows() > 0 || tokens_of(q) == 0, RMSNORM_BAD_SHAPE,
      "{} has no row: it needs 1 or more", table.name);
  return table;
}

/// The tensor as a cache for the heads of k, of which no two rows overlap.
View cache_at(const Argument& argument, const View& k) {
  check_dimensions(argument, 4, "(pages, page_size, heads, head_dim)");
  const View cache = output_like(argument, rows_of(argument));
  check_device(cache, k);
  check_dtype(cache, k);
  require(
      heads_of(cache) == heads_of(k) && cache.hidden == k.hidden, RMSNORM_BAD_SHAPE,
      "{} has {} heads of {} columns: it needs those of {}, {} of {}", cache.name, heads_of(cache),
      cache.hidden, k.name, heads_of(k), k.hidden);
  require(
      cache.region.size[0] * cache.region.size[1] > 0 || tokens_of(k) == 0, RMSNORM_BAD_SHAPE,
      "{} has no slot: it needs 1 or more", cache.name);
  return cache;
}

/// Two arguments that are there together or not at all.
void check_both_or_none(const Argument& one, const Argument& other) {
  if ((one.tensor == nullptr) == (other.tensor == nullptr)) return;
  const auto [missing, there] =
      one.tensor == nullptr ? std::pair(one, other) : std::pair(other, one);
  refuse(
      RMSNORM_BAD_POINTER, "{} is null, and {} a tensor: they need to be both or neither",
      missing.name, there.name);
}

/// The rows of all tokens and heads, as the kernels take them.
kernels::Rows rows_at(const View& view) {
  const auto& stride = view.region.stride;
  return {data_of(view), stride[kRowDimensions - 2], stride[kRowDimensions - 1]};
}

kernels::RotatedPart part_of(
    const View& x, const std::optional<View>& y, const std::optional<View>& weight,
    const std::optional<View>& cache) {
  kernels::RotatedPart part{};
  part.x = rows_at(x);
  if (y) part.y = rows_at(*y);
  if (weight) {
    part.weight = data_of(*weight);
    part.weight_head_stride = weight->region.stride[kRowDimensions - 1];
    part.weight_is_fp32 = weight->dtype == Dtype::fp32;
  }
  if (cache) {
    const auto& stride = cache->region.stride;
    part.cache = {data_of(*cache), stride[0], stride[1], stride[2]};
  }
  part.heads = static_cast<int>(heads_of(x));
  return part;
}

}  // namespace
}  // namespace rmsnorm::library

using namespace rmsnorm;
using namespace rmsnorm::library;

rmsnorm_status rmsnorm_forward_rotated(
    const DLTensor* q, const DLTensor* q_weight, const DLTensor* q_out, const DLTensor* k,
    const DLTensor* k_weight, const DLTensor* k_out, const DLTensor* cos, const DLTensor* sin,
    const DLTensor* positions, const DLTensor* v, const DLTensor* k_cache, const DLTensor* v_cache,
    const DLTensor* slots, rmsnorm_rotation rotation, rmsnorm_rounding rounding, float eps,
    float weight_bias, CUstream_st* stream) {
  return status_of([&] {
    require(
        rotation == RMSNORM_ROTATE_HALVES || rotation == RMSNORM_ROTATE_INTERLEAVED,
        RMSNORM_BAD_VALUE, "rotation is {}: it needs to be a value of rmsnorm_rotation",
        static_cast<int>(rotation));
    check_rounding(rounding);
    check_number("eps", eps, false);
    constexpr std::int64_t kMost = kernels::kMostRotatedColumns;
    const View queries = heads_at({"q", q});
    require(
        queries.hidden != 1 && queries.hidden <= kMost, RMSNORM_BAD_SHAPE,
        "q has a head_dim of {}: a norm with a rotation needs 2 to {}", queries.hidden, kMost);
    const View keys = heads_at({"k", k});
    check_device(keys, queries);
    check_dtype(keys, queries);
    require(
        keys.hidden == queries.hidden && tokens_of(keys) == tokens_of(queries), RMSNORM_BAD_SHAPE,
        "k has {} tokens, and heads of {} columns: it needs those of q, {} and {}", tokens_of(keys),
        keys.hidden, tokens_of(queries), queries.hidden);
    const auto of_q = weight_at({"q_weight", q_weight}, queries, weight_bias);
    const auto of_k = weight_at({"k_weight", k_weight}, keys, weight_bias);
    const View cosines = table_at({"cos", cos}, queries), sines = table_at({"sin", sin}, queries);
    check_shape(sines, cosines);
    check_dtype(sines, cosines);
    std::optional<Integers> places, to;
    if (positions != nullptr) places = integers_at({"positions", positions}, queries);
    const std::int64_t rows = cosines.region.rows();
    require(
        places || rows >= tokens_of(queries), RMSNORM_BAD_SHAPE,
        "cos has {} rows, and positions is null: it needs one for each of the {} tokens of q", rows,
        tokens_of(queries));

    check_both_or_none({"k_cache", k_cache}, {"slots", slots});
    check_both_or_none({"v", v}, {"v_cache", v_cache});
    require(
        k_cache != nullptr || v_cache == nullptr, RMSNORM_BAD_POINTER,
        "k_cache is null, and v_cache a tensor: v is stored beside k");
    require(
        k_cache != nullptr || k_out != nullptr, RMSNORM_BAD_POINTER,
        "k_out is null, and so is k_cache: one of them needs to be a tensor");
    const View q_output = output_like({"q_out", q_out}, queries);
    std::optional<View> k_output, values, cached_k, cached_v;
    if (k_out != nullptr) k_output = output_like({"k_out", k_out}, keys);
    if (k_cache != nullptr) {
      cached_k = cache_at({"k_cache", k_cache}, keys);
      to = integers_at({"slots", slots}, queries);
    }
    if (v_cache != nullptr) {
      values = input_like({"v", v}, keys);
      cached_v = cache_at({"v_cache", v_cache}, keys);
      check_shape(*cached_v, *cached_k);
    }

    Views written{&q_output}, read{&queries, &keys, &cosines, &sines};
    const auto add = [](Views& views, const std::optional<View>& view) {
      if (view) views.push_back(&*view);
    };
    add(written, k_output);
    add(written, cached_k);
    add(written, cached_v);
    add(read, of_q);
    add(read, of_k);
    add(read, values);
    if (places) read.push_back(&places->memory);
    if (to) read.push_back(&to->memory);
    enqueue(written, read, k_output ? 2 : 1, [&] {
      if (queries.hidden == 0) return cudaSuccess;
      kernels::Rotated op{};
      op.parts[op.kQ] = part_of(queries, q_output, of_q, {});
      op.parts[op.kK] = part_of(keys, k_output, of_k, cached_k);
      if (values) op.parts[op.kV] = part_of(*values, {}, {}, cached_v);
      op.cos = data_of(cosines);
      op.sin = data_of(sines);
      op.cos_stride = cosines.region.stride[kRowDimensions - 1];
      op.sin_stride = sines.region.stride[kRowDimensions - 1];
      if (places) {
        op.positions = data_of(places->memory);
        op.positions_are_64_bits = places->have_64_bits;
      }
      if (to) {
        op.slots = data_of(to->memory);
        op.slots_are_64_bits = to->have_64_bits;
        op.page_size = cached_k->region.size[1];
        op.cache_slots = cached_k->region.size[0] * op.page_size;
      }
      op.tokens = tokens_of(queries);
      op.hidden = static_cast<int>(queries.hidden);
      op.rotary_dim = static_cast<int>(2 * cosines.hidden);
      op.dtype = queries.dtype;
      op.tables_are_fp32 = cosines.dtype == Dtype::fp32;
      op.is_interleaved = rotation == RMSNORM_ROTATE_INTERLEAVED;
      op.rounds_twice = rounding == RMSNORM_ROUND_TWICE;
      op.eps = eps;
      op.weight_bias = weight_bias;
      return kernels::launch(op, stream);
    });
  });
}
