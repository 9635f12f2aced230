#include "common/verify/attempts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>

namespace rmsnorm {
namespace {

/// Lengths around what kernels are made of: a vector, a warp, a block, a block of vectors, and one
/// more or less.
constexpr int kHidden[] = {1,   2,   3,   4,   5,    31,   32,   33,   64,   100,  127,  128, 129,
                           255, 256, 257, 512, 1000, 1023, 1024, 1025, 2048, 4096, 4100, 8192};
/// No row, one, some, and enough to fill the last block of several rows only in part.
constexpr int kRows[] = {0, 1, 3, 65};
/// Lengths around a vector of 8, and with each power of two up to 8 as their largest, for the
/// types.
constexpr int kHiddenOfTypes[] = {1, 4, 6, 8, 9, 33, 128, 1000, 4096, 4100, 12288};
/// And one so long that few kernels go there as they do elsewhere.
constexpr int kLongOfTypes = 20000;
/// Up to so many columns, every length is tried.
constexpr int kEveryHidden = 1100;
/// Of a problem whose rows have heads or ranks: with more, it has fewer rows.
constexpr std::int64_t kMostElements = 1 << 17;
/// Shapes of their own: more rows than an array may have, and long ones; more columns than 16 bits
/// can count, and than 8 blocks of a cluster keep.
constexpr Shape kMore[] = {{4097, 128}, {2, 20000}, {2, 49152}, {2, 65544}, {1, 131080}};

/// Where ranks share the device, each block has several of these rows, of several warps.
constexpr Shape kSeveralRowsEach = {33, 1040};

bool is_in_second(int row) {
  return row % 2 == 0;
}

/// In every second row, other numbers.
Values in_second_rows(const char* name, float (*change)(float)) {
  return {name, [=](float x, Shape at, Shape) { return is_in_second(at.rows) ? change(x) : x; }};
}

/// Whose sum is 0, too, if each of several inputs has them,
Values zeros() {
  return in_second_rows(
      "zeros in every second row", [](float x) { return std::copysign(0.0f, x); });
}

/// or whose squares fp32 cannot hold.
Values tiny() {
  return in_second_rows("every second row tiny", [](float x) { return x * 1e-30f; });
}

std::vector<Values> all_values() {
  return {
      {.name = "a NaN in one row",
       .change =
           [](float x, Shape at, Shape of) {
             return at.rows == 7 % of.rows && at.hidden == 99 % of.hidden ? NAN : x;
           },
       .is_one_nan = true},
      {.name = "an Inf in every third row",
       .change =
           [](float x, Shape at, Shape of) {
             return at.rows % 3 == 0 && at.hidden == at.rows % of.hidden ? INFINITY : x;
           },
       .sums_to_inf = true},
      zeros(),
      in_second_rows("every second row large", [](float x) { return x * 1e15f; }),
      tiny(),
      // Beside every row, once, rows that nobody may look at.
      {"NaN in every even row", [](float x, Shape at, Shape) { return at.rows % 2 == 0 ? NAN : x; },
       "", 0.0f},
      // What is 0 need not be multiplied, but for this.
      {"zeros in every second row and every third weight NaN",
       [](float x, Shape at, Shape) { return is_in_second(at.rows) ? 0 : x; }, "", NAN},
      {"NaN in every odd row", [](float x, Shape at, Shape) { return at.rows % 2 != 0 ? NAN : x; }},
      // Where all additions round in the same direction.
      {"one number in every row",
       [](float, Shape at, Shape) { return 0.7f + 0.013f * static_cast<float>(at.rows); }},
      // As a mask has it: most threads, and all lanes of some warps, have nothing else.
      {"-Inf but for the last column of every second row",
       [](float x, Shape at, Shape of) {
         return is_in_second(at.rows) && at.hidden < of.hidden - 1 ? -INFINITY : x;
       }},
      // A mean of squares is no longer near the variance.
      in_second_rows("every second row far from 0", [](float x) { return x + 1000; }),
      {.name = "a row whose sum is beyond fp32",
       .change = [](float x, Shape at, Shape of) { return at.rows == 2 % of.rows ? 1e30f : x; },
       .sums_to_inf = true},
      // Whose exponentials have all sizes that fp32 has.
      in_second_rows("every second row up to 100", [](float x) { return x * 100; }),
  };
}

/// Whose squares are normal numbers, and less than an eps that somebody may add unasked.
Values every_row_small() {
  return {"every row small", [](float x, Shape, Shape) { return x * 1e-15f; }};
}

/// Whose squares fp16 cannot hold.
Values large_fp16() {
  return in_second_rows("every second row near the end of fp16", [](float x) { return x * 8000; });
}

/// A number that is no number, alone, at one end of one row or in its middle: it may change no
/// other row, and nothing may lose it.
std::vector<Values> single_values() {
  std::vector<Values> values;
  for (const float number : {NAN, INFINITY}) {
    for (const auto& [place, name] : {std::pair(0, "first"), {1, "middle"}, {2, "last"}}) {
      values.push_back(
          {.name = fmt::format(
               "one {} in the {} column of a row", std::isnan(number) ? "NaN" : "Inf", name),
           .change =
               [number, place](float x, Shape at, Shape of) {
                 const int col = place * (of.hidden - 1) / 2;
                 return at.rows == of.rows / 2 && at.hidden == col ? number : x;
               },
           .sums_to_inf = std::isinf(number),
           .is_one_nan = std::isnan(number)});
    }
  }
  return values;
}

/// Each row has a number whose square is next to what fp32, or a fast division, can hold: from
/// 2^125 to less than 2^128.
Values large_squares() {
  return {"a number near 2^63 in every row", [](float x, Shape at, Shape of) {
            const float exponent = 62.6f + 0.26f * static_cast<float>(at.rows % 5);
            return at.hidden == at.rows % of.hidden ? std::copysign(std::exp2(exponent), x) : x;
          }};
}

/// Squares that a sum of the first one, or of the last, swallows: each is a little less than half a
/// step of it, so all roundings go the same way. A chain of additions is then off by as much as it
/// can be, which shows how long it is.
std::vector<Values> swallowed_squares() {
  const auto swallowed = [](bool is_last) {
    return Values{
        fmt::format("squares that the {} one swallows", is_last ? "last" : "first"),
        [is_last](float x, Shape at, Shape of) {
          constexpr float kLarge = 1024, kSmall = 0.2498f;
          return at.hidden == (is_last ? of.hidden - 1 : 0) ? kLarge : std::copysign(kSmall, x);
        }};
  };
  return {swallowed(false), swallowed(true)};
}

/// What overflows where the weight comes before the norm.
Values large_weights() {
  return {
      "1e18 in every second row and every third weight 1e25",
      [](float x, Shape at, Shape) { return is_in_second(at.rows) ? std::copysign(1e18f, x) : x; },
      "", 1e25f};
}

constexpr const char* kAllInputs = "all inputs";

/// Has the operation more than one?
bool has_inputs(const Operation& operation) {
  return std::ranges::count_if(operation.tensors, is_input_matrix) > 1;
}

/// Is it an input that has an element for each column, and those alone?
bool is_weight_like(const TensorSpec& tensor) {
  return tensor.role == Role::input && tensor.sides.size() == 1 && tensor.sides.has(side::hidden);
}

class Attempts {
 public:
  explicit Attempts(const Operation& operation, Memory memory)
      : operation_(operation), memory_(memory) {}

  /// A problem of those that are many: of fewer rows where these have heads or ranks.
  void add(WorkloadSpec spec, const Values& values = {}) {
    const auto lines = [&] { return lines_of(operation_, sizes_of(operation_, spec)); };
    const int ranks = ranks_of(operation_, sizes_of(operation_, spec));  // each reads what all have
    while (spec.rows > 1 && lines() > spec.rows && lines() * spec.hidden > kMostElements / ranks) {
      spec.rows /= 2;
    }
    add_exactly({spec, values});
  }
  /// One of just that shape, unless the operation has no such columns.
  void add_exactly(Attempt attempt) {
    if (!operation_.takes(attempt.spec.hidden)) return;
    attempt.spec.memory = memory_;
    all.push_back(std::move(attempt));
  }
  /// With each other size and scalar that the operation has.
  void add_sizes(WorkloadSpec spec) {
    for (std::size_t i = 0; i < operation_.sizes.size(); ++i) {
      WorkloadSpec other = spec;
      for (const int value : operation_.sizes[i].values) {
        other.more[i] = value;
        add(other);
      }
    }
    for (std::size_t i = 0; i < operation_.scalars.size(); ++i) {
      WorkloadSpec other = spec;
      for (const float value : operation_.scalars[i].values) {
        other.scalars[i] = value;
        add(other);
      }
    }
  }
  void add_eps(std::initializer_list<float> every, WorkloadSpec spec) {
    if (!operation_.has_eps) return;
    for (const float eps : every) {
      spec.eps = eps;
      add(spec);
    }
  }
  void add_shifted(WorkloadSpec spec) {
    for (spec.shifted = 0; spec.shifted < std::ssize(operation_.tensors); ++spec.shifted) {
      add(spec);
    }
  }
  /// With these in each input.
  void add_values(const WorkloadSpec& spec, const std::vector<Values>& all) {
    for (const TensorSpec& tensor : operation_.tensors) {
      if (!is_input_matrix(tensor)) continue;
      for (Values values : all) {
        values.input = tensor.name;
        add(spec, values);
      }
    }
  }
  void add_values(const WorkloadSpec& spec) {
    add_values(spec, all_values());
    if (has_inputs(operation_)) {
      for (Values values : {zeros(), tiny()}) {
        values.is_of_all = true;
        add(spec, values);
      }
    }
    const auto is_weight = [&](const TensorSpec& tensor) {
      return is_weight_like(tensor) && is_there(tensor, spec.types);
    };
    if (std::ranges::none_of(operation_.tensors, is_weight)) return;
    for (const float weight : {NAN, INFINITY}) add(spec, every_third_weight(weight));
  }

  std::vector<Attempt> all;

 private:
  const Operation& operation_;
  Memory memory_;
};

}  // namespace

const char* input_of(const Operation& operation, const Values& values) {
  if (values.is_of_all) return kAllInputs;
  return values.input == std::string_view() ? operation.tensors[0].name : values.input;
}

std::string text_of(const Operation& operation, const Attempt& attempt) {
  const auto& [spec, values, multiprocessors, keep_launch] = attempt;
  std::string text = fmt::format("{} x {}", spec.rows, spec.hidden);
  const Sizes sizes = sizes_of(operation, spec);
  for (std::size_t i = 0; i < operation.sizes.size(); ++i) {
    const SizeSpec& size = operation.sizes[i];
    if (sizes.more[i] != size.values[0]) text += fmt::format(", {} {}", size.name, sizes.more[i]);
  }
  for (std::size_t i = 0; i < operation.scalars.size(); ++i) {
    const ScalarSpec& scalar = operation.scalars[i];
    const float value = scalar_of(operation, spec, i);
    if (value != scalar.values[0]) text += fmt::format(", {} {}", scalar.name, value);
  }
  if (spec.types != Types{}) text += fmt::format(", {}", to_string(spec.types));
  if (spec.types.weight_bias != 0) text += fmt::format(", {} + the weight", spec.types.weight_bias);
  if (spec.eps != WorkloadSpec{}.eps) text += fmt::format(", eps {}", spec.eps);
  if (spec.seed != WorkloadSpec{}.seed) text += fmt::format(", seed {}", spec.seed);
  if (spec.misalign != 0) {
    text += fmt::format(
        ", with tensors that begin {} bytes behind a 16-byte boundary",
        spec.misalign * bytes_of(spec.types.dtype));
  }
  if (spec.spread != 0) {
    text += fmt::format(
        ", with tensors that begin 0, {}, {}, ... elements behind a 16-byte boundary", spec.spread,
        2 * spec.spread);
  }
  if (spec.shifted >= 0) {
    const TensorSpec& tensor = operation.tensors[static_cast<std::size_t>(spec.shifted)];
    const int bytes = bytes_of(dtype_of(tensor, spec.types));
    const std::string starts =
        is_apart(tensor) ? fmt::format("uneven: its pieces begin 0, {}, {}, ...", bytes, 3 * bytes)
                         : std::to_string(bytes);
    text += fmt::format(", with {} alone {} bytes behind a 16-byte boundary", tensor.name, starts);
  }
  if (multiprocessors != 0) text += fmt::format(", on {} multiprocessors", multiprocessors);
  if (values.change) text += fmt::format(", {}", values.name);
  const char* const input = input_of(operation, values);
  if (input != std::string_view(operation.tensors[0].name)) text += fmt::format(" of {}", input);
  return text;
}

Values one_in_every_second_row(float number) {
  return {fmt::format("{} in every second row", number), [number](float x, Shape at, Shape of) {
            return is_in_second(at.rows) && at.hidden == at.rows % of.hidden ? number : x;
          }};
}

Values every_third_weight(float number) {
  Values values = {
      fmt::format("every third weight {}", number), [](float x, Shape, Shape) { return x; }};
  values.weight = number;
  return values;
}

std::optional<Attempt> attempt_of(const Operation& operation, std::string_view text) {
  // What a text may have, in any order: only the right one leads back to it.
  const std::string all(text);
  WorkloadSpec spec;
  if (std::sscanf(all.c_str(), "%d x %d", &spec.rows, &spec.hidden) != 2) return std::nullopt;
  if (spec.rows < 0 || spec.hidden < 1) return std::nullopt;
  if (!operation.takes(spec.hidden)) return std::nullopt;
  const auto read = [&](std::string_view before, const char* format, auto* to) {
    const std::size_t at = all.find(before);
    return at != all.npos && std::sscanf(all.c_str() + at + before.size(), format, to) == 1;
  };
  for (std::size_t i = 0; i < operation.sizes.size(); ++i) {
    read(fmt::format(", {} ", operation.sizes[i].name), "%d", &spec.more[i]);
    if (spec.more[i] < 0 || spec.more[i] > operation.sizes[i].most) return std::nullopt;
  }
  for (std::size_t i = 0; i < operation.scalars.size(); ++i) {
    float value = 0;
    const std::string before = fmt::format(", {} ", operation.scalars[i].name);
    if (read(before, "%f", &value)) spec.scalars[i] = value;
  }
  read(", eps ", "%f", &spec.eps);
  read(", seed ", "%" SCNu64, &spec.seed);
  for (std::size_t i = 0; i < operation.tensors.size(); ++i) {
    if (all.find(fmt::format(" {} alone ", operation.tensors[i].name)) != all.npos) {
      spec.shifted = static_cast<int>(i);
    }
  }
  read(", with tensors that begin 0, ", "%d", &spec.spread);
  if (spec.spread < 0 || spec.spread > 8) return std::nullopt;
  int multiprocessors = 0;
  read(", on ", "%d", &multiprocessors);
  int bytes = 0;
  read(", with tensors that begin ", "%d", &bytes);
  std::vector<Values> every_values = all_values();
  for (const Values& values : single_values()) every_values.push_back(values);
  for (const Values& values : swallowed_squares()) every_values.push_back(values);
  every_values.insert(
      every_values.end(),
      {Values{}, every_row_small(), large_fp16(), large_squares(), large_weights()});
  float number = 0;
  if (read(", every third weight ", "%f", &number)) {
    every_values.push_back(every_third_weight(number));
  }
  if (const std::size_t end = all.find(" in every second row"); end != all.npos) {
    const char* const before = all.c_str() + all.rfind(", ", end);
    if (std::sscanf(before, ", %f", &number) == 1) {
      every_values.push_back(one_in_every_second_row(number));
    }
  }
  std::vector<Types> every_types = all_types();
  for (Types types : all_types()) {
    for (const float bias : kWeightBiases) {
      types.weight_bias = bias;
      if (types.weight) every_types.push_back(types);
    }
  }
  for (const Types& types : every_types) {
    spec.types = types;
    spec.misalign = bytes / bytes_of(types.dtype);
    for (Values& values : every_values) {
      for (const TensorSpec& tensor : operation.tensors) {
        if (!is_input_matrix(tensor)) continue;
        values.input = tensor.name;
        for (const bool is_of_all : {false, true}) {
          values.is_of_all = is_of_all;
          const Attempt attempt{spec, values, multiprocessors};
          if (text_of(operation, attempt) == text) return attempt;
        }
      }
    }
  }
  return std::nullopt;
}

void change(const Workload& workload, const Values& values) {
  const std::string_view input = input_of(workload.operation(), values);
  for (const TensorSpec& tensor : workload.operation().tensors) {
    if (!is_input_matrix(tensor) || (!values.is_of_all && input != tensor.name)) continue;
    const GuardedTensor& matrix = workload.tensor(tensor.name);
    std::vector<float> numbers = matrix.values();
    const int hidden = workload.spec().hidden;
    // Where all get them, each piece does, in the same rows; else pieces differ.
    const std::size_t size = values.is_of_all ? matrix.piece_size() : matrix.size();
    const Shape of{static_cast<int>(size / hidden), hidden};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t line = i / hidden % of.rows;
      const Shape at{static_cast<int>(line), static_cast<int>(i % hidden)};
      numbers[i] = values.change(numbers[i], at, of);
    }
    workload.set(tensor.name, numbers);
  }
  if (!values.weight) return;
  for (const TensorSpec& tensor : workload.operation().tensors) {
    if (!is_weight_like(tensor)) continue;
    std::vector<float> weights = workload.tensor(tensor.name).values();
    for (std::size_t i = 0; i < weights.size(); i += 3) weights[i] = *values.weight;
    workload.set(tensor.name, weights);
  }
}

std::vector<Attempt> with_other_values(const Operation& operation, const WorkloadSpec& spec) {
  Attempts attempts(operation, spec.memory);
  attempts.add_values(spec);
  attempts.add_eps({0.0f, 1.0f, 1e30f}, spec);
  if (spec.types.dtype == Dtype::fp16) attempts.add(spec, large_fp16());
  return attempts.all;
}

std::vector<Attempt> attempts_for(
    const Implementation& implementation, const std::vector<Counted>& counted) {
  Attempts attempts(*implementation.operation, implementation.memory);
  for (const int hidden : kHidden) {
    for (const int rows : kRows) attempts.add({.rows = rows, .hidden = hidden});
    attempts.add({.rows = 3, .hidden = hidden, .misalign = 1});
  }
  if (!implementation.is_typed) {
    for (int hidden = 1; hidden <= kEveryHidden; ++hidden) {
      attempts.add({.rows = 2, .hidden = hidden});
    }
  }
  const Operation& operation = *implementation.operation;
  const bool has_ranks = ranks_of(operation, sizes_of(operation, {})) > 1;
  WorkloadSpec smallest;  // each rank has a matrix for each of the other sizes
  for (std::size_t i = 0; has_ranks && i < operation.sizes.size(); ++i) {
    smallest.more[i] = *std::ranges::min_element(operation.sizes[i].values);
  }
  std::vector<Shape> more(std::begin(kMore), std::end(kMore));
  if (has_ranks) more.push_back(kSeveralRowsEach);
  for (const Shape shape : more) {
    smallest.rows = shape.rows;
    smallest.hidden = shape.hidden;
    attempts.add_exactly({smallest});
  }
  if (implementation.memory == Memory::host) attempts.add({.rows = 70001, .hidden = 1});  // quick
  for (const auto& [shape, types] : counted) {
    attempts.add_exactly(
        {.spec = {.rows = shape.rows, .hidden = shape.hidden, .types = types},
         .keep_launch = true});
  }
  for (const int hidden : {37, 1000, 4096}) {
    for (const std::uint64_t seed : {0, 2, 3}) {
      attempts.add({.rows = 7, .hidden = hidden, .seed = seed});
    }
    attempts.add_eps({0.0f, 1e-12f, 1.0f, 1e30f}, {.rows = 7, .hidden = hidden});
    for (const int misalign : {2, 3}) {
      attempts.add({.rows = 7, .hidden = hidden, .misalign = misalign});
    }
    for (const int spread : {1, 2}) {
      attempts.add({.rows = 7, .hidden = hidden, .spread = spread});
    }
  }
  for (const int hidden : {2, 128, 1000}) attempts.add_sizes({.rows = 5, .hidden = hidden});
  attempts.add_sizes({.rows = 5, .hidden = 1000, .spread = 1});
  attempts.add_values({.rows = 9, .hidden = 1024});
  for (const int hidden : {2, 3, 37, 1000, 2052}) {
    attempts.add_values({.rows = 5, .hidden = hidden}, single_values());
  }
  for (const int hidden : {1, 2, 3, 37, 1000}) {
    attempts.add_values({.rows = 9, .hidden = hidden}, {large_squares()});
    attempts.add({.rows = 9, .hidden = hidden}, large_weights());
  }
  for (const int hidden : {1000, 4096, 20000}) {
    for (const Values& values : swallowed_squares())
      attempts.add({.rows = 2, .hidden = hidden}, values);
  }
  attempts.add_shifted({.rows = 3, .hidden = 1024});
  if (implementation.operation->has_eps) {
    Values values = every_row_small();
    values.is_of_all = has_inputs(*implementation.operation);
    attempts.add({.rows = 9, .hidden = 1024, .eps = 0}, values);
  }
  if (!implementation.is_typed) return attempts.all;

  std::vector<Types> other_types = all_types();
  std::erase(other_types, Types{});
  for (Types types : all_types()) {
    types.weight_bias = kWeightBiases[0];
    if (types.weight) other_types.push_back(types);
    types.weight_bias = kWeightBiases[1];
    if (types.weight) attempts.add({.rows = 3, .hidden = 1000, .types = types});
  }
  for (const Types& types : other_types) {
    for (const int hidden : kHiddenOfTypes) {
      for (const int rows : {0, 3}) {
        attempts.add({.rows = rows, .hidden = hidden, .types = types});
      }
      for (const int misalign : {1, 4}) {
        attempts.add({.rows = 3, .hidden = hidden, .misalign = misalign, .types = types});
      }
      attempts.add({.rows = 3, .hidden = hidden, .spread = 4, .types = types});
    }
    attempts.add({.rows = 1, .hidden = kLongOfTypes, .types = types});
    // With 1e8, y is subnormal in fp16, and with more 0.
    attempts.add_eps({0.0f, 1.0f, 1e8f, 1e30f}, {.rows = 7, .hidden = 1000, .types = types});
    attempts.add_values({.rows = 9, .hidden = 1024, .types = types});
    attempts.add({.rows = 9, .hidden = 1024, .types = types}, large_fp16());
    attempts.add_shifted({.rows = 3, .hidden = 1024, .types = types});
  }
  return attempts.all;
}

}  // namespace rmsnorm
