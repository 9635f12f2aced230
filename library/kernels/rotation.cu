// A norm and a rotation of heads in one kernel. Some lanes of a warp have a head, and with it a few
// more of the same token, whose cosines and sines they load once.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "library/kernels/gated_row.cuh"
#include "library/kernels/launch.hpp"
#include "library/kernels/rotation.hpp"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// The most heads of a token that a group of lanes has, one after the other.
constexpr int kGroupHeads = 16;

/// Threads that an SM has at a time, with the registers that they need.
constexpr int kThreadsOfSm = 512;

/// Heads that a group has in registers: the next are loaded while one is turned.
template <int kPairs>
constexpr int kAhead = kPairs == 1 ? 2 : 1;

/// Two vectors of a head's columns that a lane has. What turns together is in one pair.
struct Columns {
  int first, first_end;    ///< columns of the first vector, no more than 16 bytes
  int second, second_end;  ///< likewise
};

/// Pair number i of a head. Those that turn come first; past the last, there is no column.
__device__ inline Columns columns_of(const Rotated& op, int i, int size) {
  if (i < op.turned_pairs) return {i * size, op.half, op.half + i * size, 2 * op.half};
  const int further = (i - op.turned_pairs) * size;
  const int end = op.middle < op.hidden ? op.middle : op.hidden;
  return {op.rest + further, end, op.middle + further, op.hidden};
}

/// Columns of a head, zeros past the end.
template <class T, bool kWhole>
__device__ uint4 load_columns(const T* head, int first, int end) {
  return load_vector<T, kWhole>(head + first, 0, end - first);
}

/// Stores what was loaded so, or is to be there now.
template <class T, bool kWhole>
__device__ void store_columns(T* head, int first, int end, const uint4& v) {
  if constexpr (kWhole) {
    if (first < end) *reinterpret_cast<uint4*>(head + first) = v;
  } else {
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      if (first + e < end) head[first + e] = reinterpret_cast<const T*>(&v)[e];
    }
  }
}

/// What a head's columns are multiplied by.
template <class T, bool kWhole>
__device__ void load_factors(
    const void* weight, bool is_fp32, int first, int end, float bias, float* factor) {
  const auto load = [&](auto of_type) {
    using W = decltype(of_type);
    const W* const from = weight == nullptr ? nullptr : static_cast<const W*>(weight) + first;
    uint4 of_weight[sizeof(W) / sizeof(T)];
    load_weight<T, W, kWhole>(from, 0, end - first, of_weight);
    factors_of<T, W>(of_weight, bias, factor);
  };
  if (std::is_same_v<T, float> || is_fp32) {
    load(float());
  } else {
    load(T());
  }
}

/// kCount numbers of a row of a table as they lie there, zeros past the end.
template <class T, int kCount, bool kWhole>
__device__ void load_angles(const void* row, bool is_fp32, int first, int end, unsigned* to) {
  const auto load = [&](auto of_type) {
    using C = decltype(of_type);
    const C* const from = static_cast<const C*>(row) + first;
    if constexpr (kWhole) {
      using Vector = std::conditional_t<kCount * sizeof(C) % 16 == 0, uint4, uint2>;
      constexpr int kVectors = kCount * sizeof(C) / sizeof(Vector);
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        reinterpret_cast<Vector*>(to)[k] =
            first < end ? reinterpret_cast<const Vector*>(from)[k] : Vector{};
      }
    } else {
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        reinterpret_cast<C*>(to)[e] = first + e < end ? from[e] : static_cast<C>(0.0f);
      }
    }
  };
  if (std::is_same_v<T, float> || is_fp32) {
    load(float());
  } else {
    load(T());
  }
}

/// What was loaded so, as numbers of fp32.
template <class T, int kCount>
__device__ void widen_angles(const unsigned* angles, bool is_fp32, float* to) {
#pragma unroll
  for (int e = 0; e < kCount; e += 2) {
    float2 two = reinterpret_cast<const float2*>(angles)[e / 2];
    if (!std::is_same_v<T, float> && !is_fp32)
      two = widen(reinterpret_cast<const Pair<T>*>(angles)[e / 2]);
    to[e] = two.x;
    to[e + 1] = two.y;
  }
}

/// The head so many bytes behind this one.
template <class T>
__device__ T* one_further(T* head, std::int64_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(head) + bytes);
}

/// Number i of a tensor of integers.
__device__ inline std::int64_t integer_at(const void* numbers, bool has_64_bits, std::int64_t i) {
  if (has_64_bits) return static_cast<const std::int64_t*>(numbers)[i];
  return static_cast<const std::int32_t*>(numbers)[i];
}

/// Turns a point. Each result is rounded in the same places, whatever the compiler makes of others.
__device__ inline void turn(float& a, float& b, float cos, float sin) {
  const float before = a;
  a = fmaf(before, cos, -(b * sin));
  b = fmaf(b, cos, before * sin);
}

/// kLanes have a head, and kPairs of vectors each. A block's groups of lanes have the same heads of
/// one token after the other. Some heads of all of them are a step, and blocks have as many steps
/// as others, or one more. If kWhole, all vectors are whole, at addresses that are multiples of 16.
/// kInterleaved: as in the operation.
template <class T, int kLanes, int kPairs, bool kWhole, bool kInterleaved>
__global__ void __launch_bounds__(kShortRows, kThreadsOfSm / kShortRows / (kPairs == 1 ? 1 : 2))
    rms_norm_rotated(const __grid_constant__ Rotated op) {
  constexpr int kN = kSize<T>, kHeads = kAhead<kPairs>;
  const unsigned token_groups = op.token_groups, of_block = threadIdx.y / token_groups;
  const int group = blockIdx.y * blockDim.y + threadIdx.y % token_groups;
  const int which =
      (group >= op.parts[Rotated::kK].first_group) + (group >= op.parts[Rotated::kV].first_group);
  const RotatedPart& part = op.parts[which];
  const bool is_v = which == Rotated::kV;
  const int first_head = (group - part.first_group) * op.group_heads;
  const int left = part.heads - first_head;
  const bool is_idle = of_block >= op.turn_tokens || group >= op.token_groups;
  const int heads = is_idle ? 0 : left < op.group_heads ? left : op.group_heads;
  const bool is_turned = heads > 0 && !is_v;
  const int turn_heads = (op.group_heads + kHeads - 1) / kHeads * kHeads;  // with those that miss
  const int block = blockIdx.x;
  int steps = op.steps_of_block + (block < op.longer_blocks);
  const Place begin = place_of<true>(
      block * std::int64_t{op.steps_of_block} +
          (block < op.longer_blocks ? block : op.longer_blocks),
      op.steps, turn_heads / kHeads);
  std::int64_t token = begin.outer * op.turn_tokens + of_block;
  int head = static_cast<int>(begin.inner) * kHeads;  // of the group's

  std::int64_t next_token = token;
  int next_head = head, next_heads = steps * kHeads;
  const T* next = find<T>(part.x, Place{token, first_head + head});
  if (kWhole && blockIdx.x < op.prefetching_blocks && threadIdx.x == 0 && token < op.tokens) {
    for (int j = head; j < heads; ++j)
      prefetch(find<T>(part.x, Place{token, first_head + j}), op.hidden * sizeof(T));
  }
  wait_for_inputs();

  Columns columns[kPairs];
#pragma unroll
  for (int p = 0; p < kPairs; ++p) columns[p] = columns_of(op, threadIdx.x + p * kLanes, kN);
  uint4 x[kHeads][kPairs][2];
  const auto load_next = [&](uint4(&to)[kPairs][2]) {
    const bool is_there = next_heads > 0 && next_token < op.tokens && next_head < heads;
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const auto [first, first_end, second, second_end] = columns[p];
      to[p][0] = load_columns<T, kWhole>(next, first, is_there ? first_end : 0);
      to[p][1] = load_columns<T, kWhole>(next, second, is_there ? second_end : 0);
    }
    next = one_further(next, part.x.inner_stride);
    --next_heads;
    if (++next_head < turn_heads) return;
    next_head = 0, next_token += op.turn_tokens;
    next = find<T>(part.x, Place{next_token, first_head});
  };
#pragma unroll
  for (int k = 0; k < kHeads; ++k) load_next(x[k]);
  float factor[kPairs][2][kN];
  const auto load_weight = [&](int j) {
    const void* weight = part.weight;
    if (weight != nullptr) weight = static_cast<const char*>(weight) + j * part.weight_head_stride;
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      load_factors<T, kWhole>(
          weight, part.weight_is_fp32, columns[p].first, columns[p].first_end, op.weight_bias,
          factor[p][0]);
      load_factors<T, kWhole>(
          weight, part.weight_is_fp32, columns[p].second, columns[p].second_end, op.weight_bias,
          factor[p][1]);
    }
  };
  // While a token's heads are turned, the next token's angles are loaded, and the position of the
  // one after it.
  constexpr int kPart = kInterleaved ? kN / 2 : kN;  // angles of a vector
  alignas(16) unsigned next_cos[kPairs][kN] = {}, next_sin[kPairs][kN] = {};
  const auto position_of = [&](std::int64_t token) {
    if (op.positions == nullptr || !is_turned || token >= op.tokens) return token;
    return integer_at(op.positions, op.positions_are_64_bits, token);
  };
  const auto load_angles_of = [&](std::int64_t position) {
    const void* const cos_row = static_cast<const char*>(op.cos) + position * op.cos_stride;
    const void* const sin_row = static_cast<const char*>(op.sin) + position * op.sin_stride;
    const int end = op.rotary_dim / 2;
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      if (!kInterleaved && threadIdx.x + p * kLanes >= op.turned_pairs) continue;
#pragma unroll
      for (int i = 0; i < kN / kPart; ++i) {
        const int column = i == 0 ? columns[p].first : columns[p].second;
        const int first = kInterleaved ? column / 2 : column;
        load_angles<T, kPart, kWhole>(
            cos_row, op.tables_are_fp32, first, end, next_cos[p] + i * kPart);
        load_angles<T, kPart, kWhole>(
            sin_row, op.tables_are_fp32, first, end, next_sin[p] + i * kPart);
      }
    }
  };
  if (is_turned && token < op.tokens) load_angles_of(position_of(token));
  std::int64_t next_position = position_of(token + op.turn_tokens);
  if (is_turned) load_weight(first_head);
  let_next_begin();

  // For all lanes of a block, which add up together.
  const auto norm_and_turn = [&](const uint4(&x)[kPairs][2], int head,
                                 const float(&cos)[kPairs][kN], const float(&sin)[kPairs][kN],
                                 uint4(&result)[kPairs][2]) {
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kPairs; ++p) sum += squares<T>(x[p][0]) + squares<T>(x[p][1]);
    const float rstd = rsqrtf(group_sum(sum, kLanes) * op.inverse + op.eps);
    if (!is_v && part.weight_head_stride != 0 && head < heads) load_weight(first_head + head);
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      if (is_v) {
        result[p][0] = x[p][0];
        result[p][1] = x[p][1];
        continue;
      }
      float n[2][kN];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        widen_all<T>(x[p][i], n[i]);
#pragma unroll
        for (int e = 0; e < kN; ++e) n[i][e] = n[i][e] * rstd * factor[p][i][e];
        if (op.rounds_twice) widen_all<T>(narrow_all<T>(n[i]), n[i]);
      }
      if constexpr (kInterleaved) {
        const auto [first, first_end, second, second_end] = columns[p];
#pragma unroll
        for (int e = 0; e < kN; e += 2) {
          float* const of_second = n[1] + e;
          if (first + (kWhole ? 0 : e) < op.rotary_dim)
            turn(n[0][e], n[0][e + 1], cos[p][e / 2], sin[p][e / 2]);
          if (second + (kWhole ? 0 : e) < op.rotary_dim)
            turn(of_second[0], of_second[1], cos[p][(kN + e) / 2], sin[p][(kN + e) / 2]);
        }
      } else if (threadIdx.x + p * kLanes < op.turned_pairs) {
#pragma unroll
        for (int e = 0; e < kN; ++e) turn(n[0][e], n[1][e], cos[p][e], sin[p][e]);
      }
      result[p][0] = narrow_all<T>(n[0]);
      result[p][1] = narrow_all<T>(n[1]);
    }
  };

  for (; steps > 0; token += op.turn_tokens, head = 0) {
    const bool is_there = heads > 0 && token < op.tokens;
    std::int64_t slot = -1;
    if (is_there && part.cache.data != nullptr)
      slot = integer_at(op.slots, op.slots_are_64_bits, token);
    float cos[kPairs][kN], sin[kPairs][kN];
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
#pragma unroll
      for (int i = 0; i < kN; i += kPart) {
        widen_angles<T, kPart>(next_cos[p] + i, op.tables_are_fp32, cos[p] + i);
        widen_angles<T, kPart>(next_sin[p] + i, op.tables_are_fp32, sin[p] + i);
      }
    }
    const bool has_next = steps * kHeads > turn_heads - head;
    if (is_turned && has_next && token + op.turn_tokens < op.tokens) {
      load_angles_of(next_position);
      next_position = position_of(token + 2 * op.turn_tokens);
    }
    Place in_cache{0, 0};
    if (slot >= 0) in_cache = place_of<true>(slot, op.cache_slots, op.page_size);
    char* const cached = static_cast<char*>(part.cache.data) +
                         in_cache.outer * part.cache.page_stride +
                         in_cache.inner * part.cache.slot_stride;
    T* y = find<T>(part.y, Place{token, first_head + head});
    T* copy = reinterpret_cast<T*>(cached + (first_head + head) * part.cache.head_stride);
    for (; steps > 0 && head < turn_heads; --steps, head += kHeads) {
#pragma unroll
      for (int k = 0; k < kHeads; ++k) {
        uint4 result[kPairs][2];
        if (head + k < op.group_heads) norm_and_turn(x[k], head + k, cos, sin, result);
        load_next(x[k]);
        const auto store = [&](T* to) {
#pragma unroll
          for (int p = 0; p < kPairs; ++p) {
            const auto [first, first_end, second, second_end] = columns[p];
            store_columns<T, kWhole>(to, first, first_end, result[p][0]);
            store_columns<T, kWhole>(to, second, second_end, result[p][1]);
          }
        };
        if (is_there && head + k < heads) {
          if (part.y.data != nullptr) store(y);
          if (slot >= 0) store(copy);
        }
        y = one_further(y, part.y.inner_stride);
        copy = one_further(copy, part.cache.head_stride);
      }
    }
  }
}

using RotatedKernel = void (*)(Rotated);

/// The pairs of vectors of a lane, of a head with so many.
int pairs_of_lane(int pairs) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>((pairs + 31) / 32)));
}

/// The lanes of a head with so many pairs of vectors.
int lanes_of(int pairs) {
  return std::clamp(static_cast<int>(std::bit_ceil(static_cast<unsigned>(pairs))), 4, 32);
}

template <class T, bool kWhole, bool kInterleaved>
RotatedKernel kernel_for(int pairs) {
  switch (lanes_of(pairs)) {
    case 4:
      return rms_norm_rotated<T, 4, 1, kWhole, kInterleaved>;
    case 8:
      return rms_norm_rotated<T, 8, 1, kWhole, kInterleaved>;
    case 16:
      return rms_norm_rotated<T, 16, 1, kWhole, kInterleaved>;
  }
  switch (pairs_of_lane(pairs)) {
    case 1:
      return rms_norm_rotated<T, 32, 1, kWhole, kInterleaved>;
    case 2:
      return rms_norm_rotated<T, 32, 2, kWhole, kInterleaved>;
  }
  if constexpr (sizeof(T) == 4) return rms_norm_rotated<T, 32, 4, kWhole, kInterleaved>;
  return nullptr;  // of 16 bits, no head has so many
}

/// Are all vectors whole, at addresses that are multiples of 16 bytes?
bool are_whole(const Rotated& op) {
  const auto bits_of = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data); };
  const int size = static_cast<int>(16 / bytes_of(op.dtype));
  const int turned = op.is_interleaved ? op.rotary_dim : op.rotary_dim / 2;
  if (op.hidden % size != 0 || turned % size != 0) return false;
  std::uintptr_t bits = bits_of(op.cos) | bits_of(op.sin) | op.cos_stride | op.sin_stride;
  for (const RotatedPart& part : op.parts) {
    if (part.heads == 0) continue;
    bits |= address_bits({part.x}) | bits_of(part.weight) | part.weight_head_stride;
    if (part.y.data != nullptr) bits |= address_bits({part.y});
    if (part.cache.data != nullptr)
      bits |= address_bits({{part.cache.data, part.cache.page_stride, part.cache.slot_stride}}) |
              part.cache.head_stride;
  }
  return bits % 16 == 0;
}

}  // namespace

cudaError_t launch(const Rotated& given, cudaStream_t stream) {
  Rotated op = given;
  if (op.tokens == 0) return cudaSuccess;
  const auto vectors = [size = static_cast<int>(16 / bytes_of(op.dtype))](int columns) {
    return (columns + size - 1) / size;
  };
  op.inverse = 1.0f / static_cast<float>(op.hidden);
  op.half = op.is_interleaved ? 0 : op.rotary_dim / 2;
  op.turned_pairs = vectors(op.half);
  op.rest = 2 * op.half;
  const int rest_pairs = (vectors(op.hidden - op.rest) + 1) / 2;
  op.middle = op.rest + rest_pairs * static_cast<int>(16 / bytes_of(op.dtype));
  const int pairs = op.turned_pairs + rest_pairs, lanes = lanes_of(pairs);

  // Few heads have lanes of their own each; of many, a few share what they load but once.
  const cudaDeviceProp* device = nullptr;
  const cudaError_t error = properties_of_device(&device);
  if (error != cudaSuccess) return error;
  std::int64_t heads = 0;
  for (const RotatedPart& part : op.parts) heads += part.heads;
  if (heads == 0) return cudaSuccess;
  const int of_sm = pairs_of_lane(pairs) == 1 ? kThreadsOfSm : kThreadsOfSm / 2;
  const std::int64_t at_a_time = std::int64_t{device->multiProcessorCount} * of_sm;
  const int ahead = pairs_of_lane(pairs) == 1 ? kAhead<1> : kAhead<2>;
  const auto places_in = [&](int group) {  // of all groups of a token, with those that stay empty
    int places = 0;
    for (const RotatedPart& part : op.parts)
      places += (part.heads + group - 1) / group * ((group + ahead - 1) / ahead * ahead);
    return places;
  };
  const int largest = static_cast<int>(
      std::clamp<std::int64_t>(op.tokens * heads * lanes / at_a_time, 1, kGroupHeads));
  op.group_heads = largest;
  for (int group = largest - 1; group >= (largest + 1) / 2; --group) {
    if (places_in(group) < places_in(op.group_heads)) op.group_heads = group;
  }
  for (RotatedPart& part : op.parts) {
    part.first_group = op.token_groups;
    op.token_groups += (part.heads + op.group_heads - 1) / op.group_heads;
  }
  // Blocks have all groups of some tokens or, beside each other, of one.
  const int most = kShortRows / lanes, columns = (op.token_groups - 1) / most + 1;
  op.turn_tokens = std::max(1, most / op.token_groups);
  const int of_turn = (op.turn_tokens * op.token_groups - 1) / columns + 1, of_warp = 32 / lanes;
  const int rows = (of_turn + of_warp - 1) / of_warp * of_warp;
  op.steps =
      (op.tokens + op.turn_tokens - 1) / op.turn_tokens * ((op.group_heads + ahead - 1) / ahead);
  const std::int64_t blocks =
      std::min(op.steps, std::max<std::int64_t>(1, at_a_time / (rows * lanes) / columns));
  op.steps_of_block = static_cast<int>(op.steps / blocks);
  op.longer_blocks = static_cast<int>(op.steps % blocks);
  const std::int64_t group_bytes = std::int64_t{op.group_heads} * op.hidden * bytes_of(op.dtype);
  op.prefetching_blocks = prefetching_blocks(rows * group_bytes, blocks * columns);
  const bool is_whole = are_whole(op);
  const RotatedKernel kernel = with_type(op.dtype, [&](auto x) {
    using T = decltype(x);
    if (is_whole)
      return op.is_interleaved ? kernel_for<T, true, true>(pairs)
                               : kernel_for<T, true, false>(pairs);
    return op.is_interleaved ? kernel_for<T, false, true>(pairs)
                             : kernel_for<T, false, false>(pairs);
  });
  return launch_overlapping(kernel, {.x = blocks, .y = columns}, dim3(lanes, rows), 0, stream, op);
}

}  // namespace rmsnorm::kernels
