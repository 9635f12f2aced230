#pragma once
/// \file
/// RMSNorm of each head of q and k, and their rotation.

#include "common/operations/rms_norm.hpp"

namespace rmsnorm {

/// What an attention layer does with q and k before it compares them: the norm of each head, and a
/// rotation of pairs of its columns by angles that depend on where in the text the row is. A row of
/// x has the heads of q, then those of k, then those of v; k and v have as many. With half = hidden
/// / 2 and at = position[row]; arithmetic is fp32's:
///
///     n[col] = x[row][head][col] / sqrt(eps + mean over col of x[row][head][col]^2)
///              * (weight[col] + weight_bias)
///     rotated[col]        = n[col] * cos[at][col] - n[col + half] * sin[at][col]
///     rotated[col + half] = n[col + half] * cos[at][col] + n[col] * sin[at][col]
///     x[row][head][col] = rotated[col] for k, q_scale * rotated[col] for q
///     k_cache[slot[row]][head][col] = rotated[col] for k
///
/// v stays as it is, and so do other slots of the cache. What is stored is rounded once. The
/// tensors are contiguous and row-major, and no two overlap. Their addresses are multiples of their
/// elements' size, and need not be of more.
struct QkNormRotation {
  void* x;               ///< (rows, q_heads + 2 * k_heads, hidden)  of type dtype; q and k in place
  const void* q_weight;  ///< (hidden)               of type weight_dtype; null: all are 1
  const void* k_weight;  ///< (hidden)               likewise
  const float* cos;      ///< (positions, hidden / 2)
  const float* sin;      ///< (positions, hidden / 2)
  const int* position;   ///< (rows)                 of each row, in both tables
  const int* slot;       ///< (rows)                 of each row, in the cache; no two are alike
  void* k_cache;         ///< (slots, k_heads, hidden)  of type dtype; output
  int rows;              ///< 0 or more; all heads of all rows may have more than 2^31 elements
  int q_heads;           ///< 1 or more
  int k_heads;           ///< 1 or more
  int hidden;            ///< columns of a head: 2 to 2^30, even
  float eps;             ///< 0 or more
  float q_scale;         ///< any number
  float weight_bias;     ///< 1 in models that store the weight less 1; 0 without weight
  Dtype dtype;           ///< of x and the cache
  Dtype weight_dtype;    ///< fp32, or that of x
};

template <>
struct Description<QkNormRotation> : CommonDescription {
  using Of = QkNormRotation;
  static constexpr const char* kName = "qk_norm_rotation";
  static constexpr bool kIsTyped = true;
  static constexpr const char* kRegime = "heads";
  static constexpr int kHiddenMultiple = 2;

  enum { kQHeads, kKHeads, kPositions };  // sizes
  static constexpr SizeSpec kSizes[] = {
      {"q_heads", 1024, {4, 1, 7}},
      {"k_heads", 1024, {2, 1, 3}},
      {"positions", 1 << 20, {16, 1, 3}}};
  enum { kQScale };  // scalars
  static constexpr ScalarSpec kScalars[] = {{"q_scale", {0.125f, 1, -3}}};

  __host__ __device__ static constexpr std::int64_t heads(const Sizes& sizes) {
    return std::int64_t{sizes.more[kQHeads]} + 2 * sizes.more[kKHeads];
  }
  static constexpr std::int64_t half(const Sizes& sizes) { return sizes.hidden / 2; }
  static constexpr std::int64_t slots(const Sizes& sizes) {
    return 2 * std::int64_t{sizes.rows} + 1;
  }
  static constexpr Side kHeadsOfX = {"head", heads};
  static constexpr Side kHeadsOfK = {"head", side::length_of<kKHeads>};
  static constexpr Side kPlaces = {"position", side::length_of<kPositions>};
  static constexpr Side kSlots = {"slot", slots};
  static constexpr Side kHalf = {"column", half};

  enum { kX, kQWeight, kKWeight, kCos, kSin, kPosition, kSlot, kKCache };
  static constexpr TensorSpec kTensors[] = {
      {"x", Role::in_place, {side::rows, kHeadsOfX, side::hidden}, Elements::like_x},
      {"q_weight", Role::input, {side::hidden}, Elements::like_weight},
      {"k_weight", Role::input, {side::hidden}, Elements::like_weight, 0x4b},
      {"cos", Role::input, {kPlaces, kHalf}, Elements::fp32, 0xc05},
      {"sin", Role::input, {kPlaces, kHalf}, Elements::fp32, 0x517},
      {"position", Role::input, {side::rows}, Elements::int32, 0x905, {kPlaces.length}},
      {"slot", Role::input, {side::rows}, Elements::int32, 0x5107, {kSlots.length, true}},
      {"k_cache", Role::output, {kSlots, kHeadsOfK, side::hidden}, Elements::like_x, 0, {}, "slot"},
  };

  static QkNormRotation view(const Problem& p) {
    return {
        p.tensors[kX],
        p.tensors[kQWeight],
        p.tensors[kKWeight],
        p.as<float>(kCos),
        p.as<float>(kSin),
        p.as<int>(kPosition),
        p.as<int>(kSlot),
        p.tensors[kKCache],
        p.rows,
        p.more[kQHeads],
        p.more[kKHeads],
        p.hidden,
        p.eps,
        p.scalars[kQScale],
        p.weight_bias,
        p.dtype,
        p.weight_dtype};
  }

  /// q and k are read and written, and k is written to the cache, too. The tables are small.
  static std::int64_t bytes_to_move(const Sizes& sizes, const Types& types) {
    const std::int64_t heads = 2 * std::int64_t{sizes.more[kQHeads]} + 3 * sizes.more[kKHeads];
    return sizes.rows * heads * sizes.hidden * bytes_of(types.dtype);
  }

  /// Which part of x it is.
  enum class Part { q, k, v };

  /// A line is a head of one row, of those of its part.
  template <Part kPart>
  struct OfPart {
    static constexpr int kTensor = kX;
    static constexpr Along kAlong = Along::row;
    __host__ __device__ static std::int64_t heads_of(const Problem& p) {
      return p.more[kPart == Part::q ? kQHeads : kKHeads];
    }
    static std::int64_t lines(const Problem& p) { return p.rows * heads_of(p); }
    __host__ __device__ static std::int64_t index(
        const Problem& p, std::int64_t line, std::int64_t col) {
      const std::int64_t row = line / heads_of(p);
      const std::int64_t first =
          kPart == Part::q ? 0 : p.more[kQHeads] + (kPart == Part::v ? p.more[kKHeads] : 0);
      const std::int64_t head = first + line % heads_of(p);
      return (row * heads(p) + head) * p.hidden + col;
    }
  };

  template <Part kPart>
  struct Rotated : OfPart<kPart> {
    using Sum = Description<RmsNorm>::OfY::Sum;
    __host__ __device__ static void add(Sum& sum, const Sum& more) { sum.squares += more.squares; }
    __host__ __device__ static Sum term(const Problem& p, std::int64_t line, std::int64_t col) {
      const double x = p.like_x(kX, OfPart<kPart>::index(p, line, col));
      return {x * x};
    }
    __host__ __device__ static Expected expected(
        const Problem& p, const Sum& sum, std::int64_t line, std::int64_t col, double bound) {
      const std::int64_t half = p.hidden / 2;
      const bool is_first = col < half;
      const std::int64_t at = p.integer(kPosition, line / OfPart<kPart>::heads_of(p));
      const std::int64_t in_table = at * half + (is_first ? col : col - half);
      const double cos = p.fp32(kCos, in_table);
      const double sin = p.fp32(kSin, in_table) * (is_first ? -1.0 : 1.0);
      const double scale = kPart == Part::q ? p.scalars[kQScale] : 1;
      const Expected own = norm(p, sum, line, col, bound);
      const Expected other = norm(p, sum, line, is_first ? col + half : col - half, bound);
      const double value = scale * (own.value * cos + other.value * sin);
      const double size =
          std::fabs(scale) * (own.size * std::fabs(cos) + other.size * std::fabs(sin));
      const double of_norms =
          std::fabs(scale) * (own.allowed * std::fabs(cos) + other.allowed * std::fabs(sin));
      // Next to zero, each step is off by up to 2^-150 whatever its size.
      const double subnormal = 0x1p-148 * (1 + std::fabs(scale));
      return {value, of_norms + subnormal, size, own.may_be_zero};
    }
    /// An element before its rotation.
    __host__ __device__ static Expected norm(
        const Problem& p, const Sum& sum, std::int64_t line, std::int64_t col, double bound) {
      const double x = p.like_x(kX, OfPart<kPart>::index(p, line, col));
      const int weight = kPart == Part::q ? kQWeight : kKWeight;
      return rms_norm_element(x, sum.squares, p.factor(weight, col), bound, p);
    }
    /// How far fp32 arithmetic can take an element, as a part of the sizes of its two terms: as far
    /// as the norm, and a product, the sum and the scale, which round once more each.
    static double bound(int additions, const Types& types) {
      return rms_norm_bound(additions, types) + 1.01 * 3 * 0x1p-24;
    }
  };

  /// In the cache, at the row's slot.
  struct OfCache : Rotated<Part::k> {
    static constexpr int kTensor = kKCache;
    __host__ __device__ static std::int64_t index(
        const Problem& p, std::int64_t line, std::int64_t col) {
      const int heads = p.more[kKHeads];
      const std::int64_t slot = p.integer(kSlot, line / heads);
      return (slot * heads + line % heads) * p.hidden + col;
    }
  };

  struct OfV : OfPart<Part::v> {
    struct Sum {};
    __host__ __device__ static void add(Sum&, const Sum&) {}
    __host__ __device__ static Sum term(const Problem&, std::int64_t, std::int64_t) { return {}; }
    __host__ __device__ static Expected expected(
        const Problem& p, const Sum&, std::int64_t line, std::int64_t col, double) {
      const double x = p.like_x(kX, OfPart<Part::v>::index(p, line, col));
      return {x, 0, std::fabs(x)};
    }
    static double bound(int, const Types&) { return 0; }
  };

  using Outputs = Checks<Rotated<Part::q>, Rotated<Part::k>, OfV, OfCache>;
};

}  // namespace rmsnorm
