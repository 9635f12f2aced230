/// \file
/// librmsnorm's norms with a rotation are right: every type, layout and option, with caches and
/// without, and nothing beside what is to be written changes.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/contract/expected.hpp"
#include "common/contract/types.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "tests/dl_tensor.hpp"
#include "tests/gpu_support.hpp"
#include "tests/watch.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

constexpr int kAdditions = 100;  // no sum here has more
constexpr double kFp32 = kAdditions * 0x1p-24;

/// All that a call is about, but for where tensors lie.
struct Options {
  Dtype dtype = Dtype::bf16;
  std::optional<Dtype> weight = Dtype::bf16;
  float weight_bias = 0;
  bool weight_of_heads = false, tables_are_fp32 = true;
  std::int64_t tokens = 5, q_heads = 3, k_heads = 2, head_dim = 128, rotary_dim = 128;
  bool is_packed = false;  ///< q, k and v are parts of one tensor
  bool in_place = false;
  bool has_positions = true, has_64_bits = false;
  bool has_cache = true, has_v = true, wants_k = true;
  bool heads_first = false;  ///< a cache is (pages, heads, page_size, head_dim) in memory
  std::int64_t page_size = 4;
  rmsnorm_rotation rotation = RMSNORM_ROTATE_HALVES;
  rmsnorm_rounding rounding = RMSNORM_ROUND_ONCE;
};

std::string text(const Options& o) {
  return fmt::format(
      "{}, weight {} + {}, of heads {}, fp32 tables {}, {} tokens of {} and {} heads of {} "
      "columns, "
      "{} turn, packed {}, in place {}, positions {}, 64 bits {}, cache {}, v {}, k_out {}, heads "
      "first {}, page_size {}, interleaved {}, twice {}",
      to_string(o.dtype), o.weight ? to_string(*o.weight) : "none", o.weight_bias,
      o.weight_of_heads, o.tables_are_fp32, o.tokens, o.q_heads, o.k_heads, o.head_dim,
      o.rotary_dim, o.is_packed, o.in_place, o.has_positions, o.has_64_bits, o.has_cache, o.has_v,
      o.wants_k, o.heads_first, o.page_size, static_cast<int>(o.rotation),
      static_cast<int>(o.rounding));
}

/// A tensor, which may be a part of an array that has others.
struct Tensor {
  std::shared_ptr<DeviceArray> array;
  Layout at;
  const char* name;

  float before(std::int64_t row, std::int64_t col) const {
    return array->before()[at.row(row) + col];
  }
};

/// Integers in the device's memory.
struct Integers {
  Integers(const std::vector<std::int64_t>& numbers, bool has_64_bits)
      : at(contiguous({std::ssize(numbers)})),
        bytes(has_64_bits ? 8 : 4),
        array(Dtype::fp32, std::ssize(numbers) * bytes / 4, 1),
        view(view_of(array, at)) {
    std::vector<std::byte> memory(numbers.size() * bytes);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      std::memcpy(&memory[i * bytes], &numbers[i], bytes);  // of 32 bits, the lower half
    array.fill(memory);
    view.dtype = {kDLInt, static_cast<std::uint8_t>(8 * bytes), 1};
  }
  KnownMemory memory(const char* name) const {
    return {name, array.data(), array.before().size() * 4, bytes, true, false};
  }

  Layout at;
  int bytes;
  DeviceArray array;
  DLTensor view;
};

/// The tensors of a call, and what they are to be.
class Rotation {
 public:
  /// Draws where the tensors lie; without, they are contiguous, and begin so many elements further.
  Rotation(const Options& options, Draw* draw, int unit, std::int64_t offset = 0)
      : o(options), draw_(draw), unit_(unit), offset_(offset) {
    const std::int64_t k = o.k_heads, heads = o.q_heads + 2 * k;
    if (o.is_packed) {
      const Tensor all = tensor("qkv", o.dtype, {o.tokens, heads, o.head_dim}, true);
      q = part(all, "q", 0, o.q_heads);
      this->k = part(all, "k", o.q_heads, k);
      v = part(all, "v", o.q_heads + k, k);
    } else {
      q = tensor("q", o.dtype, {o.tokens, o.q_heads, o.head_dim}, o.in_place);
      this->k = tensor("k", o.dtype, {o.tokens, k, o.head_dim}, o.in_place);
      v = tensor("v", o.dtype, {o.tokens, k, o.head_dim}, false);
    }
    q_out = o.in_place ? q : tensor("q_out", o.dtype, {o.tokens, o.q_heads, o.head_dim}, true);
    k_out = o.in_place ? this->k : tensor("k_out", o.dtype, {o.tokens, k, o.head_dim}, true);
    const std::int64_t rows = o.has_positions ? 7 : o.tokens;
    const Dtype of_tables = o.tables_are_fp32 ? Dtype::fp32 : o.dtype;
    cos = tensor("cos", of_tables, {rows, o.rotary_dim / 2}, false);
    sin = tensor("sin", of_tables, {rows, o.rotary_dim / 2}, false);
    const Dtype of_weight = o.weight.value_or(Dtype::fp32);
    const auto weight = [&](const char* name, std::int64_t heads) {
      if (o.weight_of_heads) return tensor(name, of_weight, {heads, o.head_dim}, false);
      const Tensor all = tensor(name, of_weight, {1, o.head_dim}, true);
      return Tensor{all.array, contiguous({o.head_dim}, all.at.offset), name};
    };
    q_weight = weight("q_weight", o.q_heads);
    k_weight = weight("k_weight", k);
    const std::int64_t pages = o.tokens / o.page_size + 2;
    k_cache = cache("k_cache", pages);
    v_cache = cache("v_cache", pages);
    std::mt19937 engine(20261130);
    for (std::int64_t i = 0; i < o.tokens; ++i)
      positions.push_back(o.has_positions ? static_cast<std::int64_t>(engine() % 7) : i);
    slots.resize(pages * o.page_size);
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), engine);
    slots.resize(o.tokens);
    for (std::int64_t i = 1; i < o.tokens; i += 3) slots[i] = -1 - i / 3;
  }

  /// \param hazards  what the CPU device has seen; without, it has to be nothing
  rmsnorm_status call(std::vector<std::string>* hazards = nullptr) {
    Integers of_positions(positions, o.has_64_bits), of_slots(slots, !o.has_64_bits);
    std::vector<KnownMemory> known;
    const auto know = [&](const Tensor& tensor, bool is_wanted) {
      const auto bytes = static_cast<int>(bytes_of(tensor.array->dtype()));
      const std::size_t all = ends_of(tensor.at).second * bytes;
      if (!is_wanted) return;
      for (KnownMemory& other : known) {
        if (other.data != tensor.array->data()) continue;
        other.bytes = std::max(other.bytes, all);
        return;
      }
      known.push_back({tensor.name, tensor.array->data(), all, bytes});
    };
    for (const Tensor* tensor : {&q, &k, &q_out, &cos, &sin}) know(*tensor, true);
    know(k_out, o.wants_k);
    know(q_weight, o.weight.has_value());
    know(k_weight, o.weight.has_value());
    know(k_cache, o.has_cache);
    know(v, o.has_cache && o.has_v);
    know(v_cache, o.has_cache && o.has_v);
    if (o.has_positions) known.push_back(of_positions.memory("positions"));
    if (o.has_cache) known.push_back(of_slots.memory("slots"));

    std::vector<DLTensor> views;
    views.reserve(16);
    const auto view = [&](Tensor& tensor, bool is_wanted = true) -> const DLTensor* {
      if (!is_wanted) return nullptr;
      views.push_back(view_of(*tensor.array, tensor.at));
      return &views.back();
    };
    const bool stores_v = o.has_cache && o.has_v, has_weight = o.weight.has_value();
    rmsnorm_status status{};
    const Outcome outcome = watch(known, [&] {
      status = rmsnorm_forward_rotated(
          view(q), view(q_weight, has_weight), view(q_out), view(k), view(k_weight, has_weight),
          view(k_out, o.wants_k), view(cos), view(sin),
          o.has_positions ? &of_positions.view : nullptr, view(v, stores_v),
          view(k_cache, o.has_cache), view(v_cache, stores_v),
          o.has_cache ? &of_slots.view : nullptr, o.rotation, o.rounding, kEps, o.weight_bias,
          nullptr);
    });
    CHECK(outcome.at_synchronise == cudaSuccess);
    if (hazards == nullptr) CHECK(outcome.hazards == std::vector<std::string>());
    if (hazards != nullptr) *hazards = outcome.hazards;
    return status;
  }

  /// Checks every element of every array.
  void check() const {
    std::vector<std::pair<const Tensor*, Wanted>> written;
    const auto turned_q = turned(q, q_weight), turned_k = turned(k, k_weight);
    written.emplace_back(&q_out, turned_q);
    if (o.wants_k) written.emplace_back(&k_out, turned_k);
    const auto token_of = [this](std::int64_t slot) {
      return std::find(slots.begin(), slots.end(), slot) - slots.begin();
    };
    const auto stored = [&](const Wanted& row) -> Wanted {
      return [=, this](std::int64_t place, std::int64_t col) -> std::optional<Allowed> {
        const std::int64_t token = token_of(place / o.k_heads);
        if (token == o.tokens) return {};
        return row(token * o.k_heads + place % o.k_heads, col);
      };
    };
    const Wanted same = [this](std::int64_t row, std::int64_t col) {
      return Allowed{v.before(row, col), 0};
    };
    if (o.has_cache) written.emplace_back(&k_cache, stored(turned_k));
    if (o.has_cache && o.has_v) written.emplace_back(&v_cache, stored(same));
    std::vector<const DeviceArray*> seen;
    for (const Tensor* tensor :
         {&q, &k, &v, &q_out, &k_out, &cos, &sin, &q_weight, &k_weight, &k_cache, &v_cache}) {
      const DeviceArray& array = *tensor->array;
      if (std::count(seen.begin(), seen.end(), &array) > 0) continue;
      seen.push_back(&array);
      std::vector<float> now = array.now();
      for (const auto& [output, expected] : written) {
        INFO(output->name);
        if (output->array == tensor->array) check_elements(array, output->at, expected, now);
      }
      INFO(tensor->name);
      CHECK((now == array.before()));  // and nothing beside it has changed
    }
  }

  Options o;
  Tensor q, k, v, q_out, k_out, cos, sin, q_weight, k_weight, k_cache, v_cache;
  std::vector<std::int64_t> positions, slots;

 private:
  Tensor tensor(
      const char* name, Dtype dtype, std::vector<std::int64_t> shape, bool is_output,
      bool is_free = true) {
    Tensor made{{}, contiguous(shape, offset_), name};
    const bool is_empty = std::count(shape.begin(), shape.end(), 0) > 0;
    if (draw_ != nullptr && is_free && !is_empty)
      made.at = random_layout(*draw_, shape, unit_, is_output);
    made.array = std::make_shared<DeviceArray>(dtype, ends_of(made.at).second + 5, ++seed_);
    return made;
  }
  static Tensor part(const Tensor& all, const char* name, std::int64_t first, std::int64_t heads) {
    Tensor part{all.array, all.at, name};
    part.at.shape[1] = heads;
    part.at.offset += first * all.at.strides[1];
    return part;
  }
  /// (pages, page_size, heads, head_dim)
  Tensor cache(const char* name, std::int64_t pages) {
    std::vector<std::int64_t> shape{pages, o.page_size, o.k_heads, o.head_dim};
    if (o.heads_first) std::swap(shape[1], shape[2]);
    Tensor made = tensor(name, o.dtype, shape, true);
    if (o.heads_first) {
      std::swap(made.at.shape[1], made.at.shape[2]);
      std::swap(made.at.strides[1], made.at.strides[2]);
    }
    return made;
  }

  /// What becomes of the heads of x.
  Wanted turned(const Tensor& x, const Tensor& weight) const {
    const std::int64_t heads = x.at.shape[1], half = o.rotary_dim / 2;
    std::vector<double> rstd;
    for (std::int64_t row = 0; row < x.at.rows(); ++row) {
      double squares = 0;
      for (std::int64_t col = 0; col < o.head_dim; ++col)
        squares += std::pow(double{x.before(row, col)}, 2);
      rstd.push_back(1 / std::sqrt(squares / static_cast<double>(o.head_dim) + kEps));
    }
    const auto norm = [=, this, &x, &weight](std::int64_t row, std::int64_t col) -> Allowed {
      const double factor =
          o.weight ? double{weight.before(o.weight_of_heads ? row % heads : 0, col)} + o.weight_bias
                   : 1;
      const double n = x.before(row, col) * rstd[row] * factor, error = kFp32 * std::abs(n);
      if (o.rounding == RMSNORM_ROUND_ONCE) return {n, error};
      // Next to the middle of two numbers, either may be what it is rounded to.
      const auto round = [&](double value) {
        return double{rounded(o.dtype, static_cast<float>(value))};
      };
      const double least = round(n - error), most = round(n + error);
      return {(least + most) / 2, std::abs(most - least) / 2};
    };
    return [=, this](std::int64_t row, std::int64_t col) -> std::optional<Allowed> {
      const Allowed own = norm(row, col);
      const auto allowed = [&](double value, double error, double size) {
        Allowed result = in_fp32(kAdditions, value, size, o.dtype);
        result.error += error;
        return result;
      };
      if (col >= o.rotary_dim) return allowed(own.value, own.error, std::abs(own.value));
      const bool are_halves = o.rotation == RMSNORM_ROTATE_HALVES;
      const bool is_first = are_halves ? col < half : col % 2 == 0;
      const std::int64_t angle = are_halves ? col % half : col / 2;
      const std::int64_t step = are_halves ? half : 1;
      const Allowed other = norm(row, is_first ? col + step : col - step);
      const std::int64_t position = positions[row / heads];
      const double c = cos.before(position, angle);
      const double s = (is_first ? -1.0 : 1.0) * double{sin.before(position, angle)};
      return allowed(
          own.value * c + other.value * s, own.error * std::abs(c) + other.error * std::abs(s),
          std::abs(own.value * c) + std::abs(other.value * s));
    };
  }

  Draw* draw_;
  int unit_;
  std::int64_t offset_;
  std::uint64_t seed_ = 0;
};

void check_call(const Options& options, Draw* draw = nullptr, int unit = 8, int offset = 0) {
  CAPTURE(text(options), unit, offset);
  Rotation rotation(options, draw, unit, offset);
  REQUIRE(rotation.call() == RMSNORM_OK);
  rotation.check();
}

}  // namespace

TEST_CASE("heads of any length are normed and turned, in every type, at any address") {
  NEEDS_GPU();
  const std::pair<int, int> kSizes[] = {{2, 2},     {6, 4},    {30, 20},   {64, 64},  {64, 32},
                                        {80, 80},   {96, 24},  {128, 128}, {128, 40}, {192, 64},
                                        {256, 256}, {256, 64}, {258, 130}, {512, 64}, {576, 64},
                                        {760, 90},  {768, 20}, {768, 768}};
  for (const auto& [head_dim, rotary_dim] : kSizes) {
    for (const Types& types : all_types()) {
      for (const auto rotation : {RMSNORM_ROTATE_HALVES, RMSNORM_ROTATE_INTERLEAVED}) {
        for (const int offset : {0, 1}) {
          Options options{.dtype = types.dtype, .weight = types.weight};
          options.weight_bias = types.weight ? 1 : 0;
          options.head_dim = head_dim;
          options.rotary_dim = rotary_dim;
          options.rotation = rotation;
          options.rounding = offset == 0 ? RMSNORM_ROUND_ONCE : RMSNORM_ROUND_TWICE;
          options.tables_are_fp32 = offset == 0;
          check_call(options, nullptr, 8, offset);
          options.rounding = offset == 0 ? RMSNORM_ROUND_TWICE : RMSNORM_ROUND_ONCE;
          options.tables_are_fp32 = offset != 0;
          options.is_packed = options.in_place = true;
          check_call(options, nullptr, 8, offset);
        }
      }
    }
  }
}

TEST_CASE("heads that are turned may lie in any layout, and so may caches", "[memory]") {
  NEEDS_GPU();
  Draw draw{std::mt19937(20261130)};
  const std::vector<Types> all = all_types();
  const auto coin = [&] { return draw(0, 1) == 0; };
  for (int i = 0; i < in_time(400); ++i) {
    const Types& types = all[draw(0, static_cast<int>(all.size()) - 1)];
    const int unit = coin() ? 8 : 1;
    Options o{.dtype = types.dtype, .weight = types.weight};
    o.weight_bias = types.weight ? static_cast<float>(draw(0, 1)) : 0;
    o.weight_of_heads = coin();
    o.tables_are_fp32 = coin();
    o.tokens = draw(0, 8) == 0 ? 0 : draw(1, 9);
    o.q_heads = draw(1, 9);
    o.k_heads = draw(1, 4);
    o.head_dim = draw(0, 2) == 0 ? 128 : 2 * unit * draw(1, 160 / unit);
    o.rotary_dim = coin() ? o.head_dim : 2 * draw(1, static_cast<int>(o.head_dim) / 2);
    if (unit == 8) o.rotary_dim = std::max<std::int64_t>(16, o.rotary_dim / 16 * 16);
    o.rotary_dim = std::min(o.rotary_dim, o.head_dim);
    o.is_packed = coin();
    o.in_place = coin();
    o.has_positions = o.tokens == 0 || coin();
    o.has_64_bits = coin();
    o.has_cache = draw(0, 2) > 0;
    o.has_v = coin();
    o.wants_k = !o.has_cache || coin();
    o.heads_first = coin();
    o.page_size = draw(1, 5);
    o.rotation = coin() ? RMSNORM_ROTATE_HALVES : RMSNORM_ROTATE_INTERLEAVED;
    o.rounding = coin() ? RMSNORM_ROUND_ONCE : RMSNORM_ROUND_TWICE;
    CAPTURE(i);
    check_call(o, &draw, unit);
  }
}

TEST_CASE("the bits of a turned head are the same alone, among others, elsewhere and in place") {
  NEEDS_GPU();
  const std::int64_t tokens = 520;  // whose heads share lanes
  for (const auto& [dtype, head_dim, rotary_dim] : std::vector<std::tuple<Dtype, int, int>>{
           {Dtype::bf16, 128, 128}, {Dtype::bf16, 64, 20}, {Dtype::fp32, 128, 64}}) {
    for (const auto rotation : {RMSNORM_ROTATE_HALVES, RMSNORM_ROTATE_INTERLEAVED}) {
      Options o{.dtype = dtype, .weight = Dtype::fp32, .tokens = tokens};
      o.q_heads = head_dim == 64 ? 70 : 36;
      o.k_heads = 1;
      o.head_dim = head_dim;
      o.rotary_dim = rotary_dim;
      o.rotation = rotation;
      o.has_cache = false;
      CAPTURE(text(o));
      Rotation all(o, nullptr, 8);
      REQUIRE(all.call() == RMSNORM_OK);
      const std::vector<float> expected = all.q_out.array->now();
      const std::int64_t of_token = o.q_heads * o.head_dim;
      for (const std::int64_t token : {std::int64_t{0}, std::int64_t{77}, tokens - 1}) {
        for (const int offset : {0, 1}) {
          for (const bool in_place : {false, true}) {
            Options one = o;
            one.tokens = 1;
            one.in_place = in_place;
            Rotation alone(one, nullptr, 8, offset);
            const auto copy = [&](const Tensor& from, const Tensor& to, std::int64_t row) {
              const std::size_t bytes = bytes_of(from.array->dtype());
              std::vector<std::byte> source = from.array->bytes(), target = to.array->bytes();
              std::copy_n(
                  source.begin() + static_cast<std::ptrdiff_t>(from.at.row(row) * bytes),
                  to.at.rows() * to.at.hidden() * bytes,
                  target.begin() + static_cast<std::ptrdiff_t>(to.at.offset * bytes));
              to.array->fill(target);
            };
            copy(all.q, alone.q, token * o.q_heads);
            copy(all.cos, alone.cos, 0);
            copy(all.sin, alone.sin, 0);
            copy(all.q_weight, alone.q_weight, 0);
            alone.positions = {all.positions[token]};
            REQUIRE(alone.call() == RMSNORM_OK);
            const std::vector<float> got = alone.q_out.array->now();
            const auto begin = expected.begin() + token * of_token;
            CHECK(std::equal(begin, begin + of_token, got.begin() + offset));
          }
        }
      }
    }
  }
}

TEST_CASE("of many tokens, each has its heads turned and stored, whichever block has them") {
  NEEDS_GPU();
  for (const int q_heads : {4, 9, 48}) {  // on an H200, groups of one, three and sixteen heads
    if (q_heads == 48 && is_cpu_device()) continue;  // it has large groups of fewer heads
    Options options{.dtype = Dtype::bf16, .weight = Dtype::bf16, .tokens = 5003};
    options.q_heads = q_heads;
    options.k_heads = q_heads == 4 ? 1 : q_heads == 9 ? 2 : 16;
    options.tables_are_fp32 = q_heads != 48;
    options.head_dim = options.rotary_dim = 64;
    options.weight_of_heads = q_heads == 4;
    options.has_v = true;
    Draw draw{std::mt19937(20261129)};
    check_call(options, &draw);
  }
}

TEST_CASE("tokens without heads are no mistake") {
  NEEDS_GPU();
  Options options{.q_heads = 0, .k_heads = 0};
  options.has_cache = options.has_v = false;
  check_call(options);
}

TEST_CASE("two tokens in one slot are a race, which the CPU device sees") {
  NEEDS_GPU();
  NEEDS_COUNTS();
  for (const bool has_v : {false, true}) {
    Options options{.tokens = 3};
    options.has_v = has_v;
    Rotation rotation(options, nullptr, 8);
    rotation.slots = {2, -1, 2};
    std::vector<std::string> hazards;
    CHECK(rotation.call(&hazards) == RMSNORM_OK);
    REQUIRE(!hazards.empty());
    CHECK_THAT(hazards.front(), contains("a race: "));
  }
}
