#include "common/cpu_device/tests/arithmetic/arithmetic.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "common/base/half.hpp"
#include "common/tensors/random.hpp"

namespace arithmetic {
namespace {

/// A type of numbers: how many bits of a value are its mantissa and its exponent.
struct Format {
  int mantissa;
  int exponent;
  std::uint64_t inf() const { return ((std::uint64_t{1} << exponent) - 1) << mantissa; }
  std::uint64_t sign() const { return std::uint64_t{1} << (mantissa + exponent); }
  std::uint64_t magnitude(std::uint64_t bits) const { return bits & (sign() - 1); }
  bool is_nan(std::uint64_t bits) const { return magnitude(bits) > inf(); }
  /// How many values lie between two, and one more.
  std::uint64_t distance(std::uint64_t a, std::uint64_t b) const {
    const bool is_same_sign = ((a ^ b) & sign()) == 0;
    const std::uint64_t x = magnitude(a), y = magnitude(b);
    return is_same_sign ? std::max(x, y) - std::min(x, y) : x + y;
  }
};

Format format_of(Type type) {
  if (type == Type::f64) return {52, 11};
  if (type == Type::f16) return {10, 5};
  if (type == Type::bf16) return {7, 8};
  return {23, 8};
}

/// Zeros, the least and the largest of subnormal and normal numbers, Inf, NaNs, and what is next
/// to 1.
Bits special_values(Type type) {
  if (type == Type::whole) {
    return {0,          1,           2,          31,         32,
            33,         0x7fffffff,  0x80000000, 0xffffffff, 0x0123456789abcdef,
            ~0ull >> 1, ~0ull << 63, ~0ull};
  }
  const Format f = format_of(type);
  const std::uint64_t one = (f.inf() >> (f.mantissa + 1)) << f.mantissa;
  const std::uint64_t least_normal = std::uint64_t{1} << f.mantissa;
  const std::uint64_t quiet = f.inf() | least_normal >> 1;
  return {
      0,
      f.sign(),
      one,
      one | f.sign(),
      one + 1,
      f.inf(),
      f.inf() | f.sign(),
      quiet,
      quiet | f.sign() | 5,
      f.inf() + 1,
      f.sign() - 1,
      2 * f.sign() - 1,
      1,
      (least_normal - 1) | f.sign(),
      least_normal,
      f.inf() - 1,
      f.inf() - 2 * least_normal,
      f.inf() - least_normal + 3};
}

/// Any bits, and of floats every second time an exponent next to that of 1.
std::uint64_t drawn_value(Type type, std::uint64_t number) {
  const std::uint64_t bits = rmsnorm::random_bits(number, 0);
  if (type == Type::whole) return bits >> (bits >> 8) % 40;
  const Format f = format_of(type);
  const std::uint64_t any = bits & (2 * f.sign() - 1);
  if (number % 2 == 0) return any;
  const std::uint64_t one = (f.inf() >> (f.mantissa + 1)) << f.mantissa;
  const std::uint64_t around = (bits >> 56) % 8;  // the exponent
  return (any & (f.sign() | ((std::uint64_t{1} << f.mantissa) - 1))) |
         (one + ((around << f.mantissa) - (std::uint64_t{4} << f.mantissa)));
}

}  // namespace

std::vector<Function>& functions() {
  static std::vector<Function> all;
  return all;
}

Bits operand_bits(Type type, int operand, int operands) {
  const Bits special = special_values(type);
  std::uint64_t combinations = 1, divisor = 1;
  for (int i = 0; i < operands; ++i) combinations *= special.size();
  for (int i = 0; i < operand; ++i) divisor *= special.size();
  Bits bits;
  for (std::uint64_t i = 0; i < kValues; ++i) {
    bits.push_back(
        i < combinations ? special[i / divisor % special.size()]
                         : drawn_value(type, i * 3 + static_cast<std::uint64_t>(operand)));
  }
  return bits;
}

namespace {

/// FNV-1a of all bits.
std::string digest(const Bits& results) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint64_t bits : results) hash = (hash ^ bits) * 0x100000001b3;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

/// How two results of a function differ.
struct Difference {
  int values = 0;           ///< that have other bits
  int nans = 0;             ///< of these: both are NaN
  int kinds = 0;            ///< of these: only one is NaN
  std::uint64_t steps = 0;  ///< of the others: the most from one value of the type to the next
  double size = 0;          ///< of the others, if finite: the largest difference
};

double value_of(Type type, std::uint64_t bits) {
  if (type == Type::f64) return std::bit_cast<double>(bits);
  if (type == Type::f16) return rmsnorm::fp16_to_float(static_cast<std::uint16_t>(bits));
  if (type == Type::bf16) return rmsnorm::bf16_to_float(static_cast<std::uint16_t>(bits));
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

Difference difference(Type type, const Bits& a, const Bits& b) {
  Difference all;
  const Format format = format_of(type);
  for (std::size_t i = 0; i < kValues; ++i) {
    if (a[i] == b[i]) continue;
    ++all.values;
    if (type == Type::whole) {
      all.steps = std::max(all.steps, std::max(a[i], b[i]) - std::min(a[i], b[i]));
    } else if (format.is_nan(a[i]) && format.is_nan(b[i])) {
      ++all.nans;
    } else if (format.is_nan(a[i]) || format.is_nan(b[i])) {
      ++all.kinds;
    } else {
      all.steps = std::max(all.steps, format.distance(a[i], b[i]));
      const double size = std::abs(value_of(type, a[i]) - value_of(type, b[i]));
      if (std::isfinite(size)) all.size = std::max(all.size, size);
    }
  }
  return all;
}

/// Writes all results: a line with the name of the function, then the bits.
void write_results(const std::string& file) {
  std::ofstream stream(file, std::ios::binary);
  for (const Function& function : functions()) {
    const Bits results = function.compute();
    stream << function.name << '\n';
    stream.write(
        reinterpret_cast<const char*>(results.data()),
        static_cast<std::streamsize>(kValues * sizeof results[0]));
  }
  if (!stream.flush()) throw std::runtime_error("cannot write " + file);
}

/// Prints a row for each function: how the results in the file, of the CPU device, differ from this
/// GPU's.
void compare_results(const std::string& file, const std::string& version) {
  std::ifstream stream(file, std::ios::binary);
  cudaDeviceProp gpu;
  if (cudaGetDeviceProperties(&gpu, 0) != cudaSuccess) throw std::runtime_error("there is no GPU");
  std::printf("function,values,different,nans,kinds,steps,size,digest,device,version\n");
  for (const Function& function : functions()) {
    std::string name;
    Bits results(kValues);
    std::getline(stream, name);
    stream.read(
        reinterpret_cast<char*>(results.data()),
        static_cast<std::streamsize>(kValues * sizeof results[0]));
    if (!stream || name != function.name)
      throw std::runtime_error(file + " has no results of " + function.name);
    const Difference found = difference(function.result, results, function.compute());
    std::printf(
        "\"%s\",%d,%d,%d,%d,%llu,%.3g,%s,%s,%s\n", name.c_str(), kValues, found.values, found.nans,
        found.kinds, static_cast<unsigned long long>(found.steps), found.size,
        digest(results).c_str(), gpu.name, version.c_str());
  }
}

/// What compare_results() has printed: of each function that gave what a GPU gave, the digest; of
/// others, "".
std::map<std::string, std::string> compared(const std::string& file) {
  std::ifstream stream(file);
  std::map<std::string, std::string> digests;
  std::string line;
  std::getline(stream, line);  // the columns' names
  while (std::getline(stream, line)) {
    const std::size_t end = line.find("\",");
    std::istringstream rest(line.substr(end + 2));
    std::vector<std::string> fields;
    for (std::string field; std::getline(rest, field, ',');) fields.push_back(field);
    if (fields.size() < 7) throw std::runtime_error(file + " is no result of --compare");
    digests[line.substr(1, end - 1)] = fields[1] == "0" ? fields[6] : "";
  }
  if (digests.empty()) throw std::runtime_error("cannot read " + file);
  return digests;
}

/// Fails if a function gives something else than a GPU gave, or was never compared.
void check_results(const std::string& file) {
  const std::map<std::string, std::string> known = compared(file);
  std::string failed;
  for (const Function& function : functions()) {
    const auto found = known.find(function.name);
    if (found == known.end()) {
      failed += function.name + " was not compared with a GPU\n";
    } else if (!found->second.empty() && found->second != digest(function.compute())) {
      failed += function.name + " no longer gives what a GPU gives\n";
    }
  }
  if (!failed.empty()) throw std::runtime_error(failed + "compare again, as arithmetic.hpp says");
}

}  // namespace
}  // namespace arithmetic

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string mode = words.empty() ? "" : words[0];
  try {
    if (mode == "--write" && words.size() == 2) {
      arithmetic::write_results(words[1]);
    } else if (mode == "--compare" && words.size() == 3) {
      arithmetic::compare_results(words[1], words[2]);
    } else if (mode == "--check" && words.size() == 2) {
      arithmetic::check_results(words[1]);
    } else {
      std::fprintf(
          stderr, "usage: arithmetic --write FILE | --compare FILE VERSION | --check FILE.csv\n");
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
