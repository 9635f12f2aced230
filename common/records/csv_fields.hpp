#pragma once
/// \file
/// The fields of a CSV file's rows as texts, and back.

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "common/records/csv.hpp"

namespace rmsnorm::csv {

/// All values of an enum that a file can have.
template <class Enum>
inline constexpr std::array<Enum, 0> kValues{};
/// Those of a verdict.
template <>
inline constexpr std::array kValues<Verdict>{Verdict::pass, Verdict::fail, Verdict::unsupported};
/// Those of a cache.
template <>
inline constexpr std::array kValues<Cache>{Cache::cold, Cache::warm};
/// Those of a disturbance.
template <>
inline constexpr std::array kValues<Disturbance>{Disturbance::power, Disturbance::heat};

/// A value as a field's text: an integer with all its digits, another number with six significant
/// ones, an enum by its name.
template <class T>
std::string to_text(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return to_string(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return fmt::format("{:.6g}", value);
  } else {
    return fmt::format("{}", value);
  }
}
/// The empty text if there is no value.
template <class T>
std::string to_text(const std::optional<T>& value) {
  return value ? to_text(*value) : "";
}

/// A field's text as a value: an enum by one of `kValues`, a finite number without anything before
/// or behind it. \throws std::runtime_error with what is wrong, as the end of a sentence
template <class T>
void from_text(const std::string& text, T& value) {
  if constexpr (std::is_enum_v<T>) {
    for (const T known : kValues<T>) {
      if (text == to_string(known)) return void(value = known);
    }
    throw std::runtime_error("is not one of its names");
  } else if constexpr (std::is_arithmetic_v<T>) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end) throw std::runtime_error("is not a number");
    if (!std::isfinite(static_cast<double>(value))) {
      throw std::runtime_error("is not a finite number");
    }
  } else {
    value = text;
  }
}
/// No value for the empty text. \throws std::runtime_error likewise
template <class T>
void from_text(const std::string& text, std::optional<T>& value) {
  if (text.empty()) return value.reset();
  from_text(text, value.emplace());
}

/// What read_rows throws about a field; lines count from 1, columns from 0.
inline std::runtime_error field_error(
    const std::filesystem::path& file, std::size_t line, std::size_t column,
    const std::string& text, const std::string& what_is_wrong) {
  return std::runtime_error(fmt::format(
      "{}: line {}: field {} '{}' {}", file.string(), line, column + 1, text, what_is_wrong));
}

/// The first line of a file. `for_each_field(row, visit)` calls visit(name, field) for every field
/// of a row, in the header's order.
template <class Row, class ForEachField>
std::string header_of(ForEachField for_each_field) {
  std::vector<std::string> names;
  Row row{};
  for_each_field(row, [&](const char* name, const auto&) { names.push_back(name); });
  return fmt::format("{}", fmt::join(names, ","));
}

/// Reads a file's rows; `for_each_field` as above.
/// \throws std::runtime_error with the file, the line and the field that is not as expected
template <class Row, class ForEachField>
std::vector<Row> read_rows(const std::filesystem::path& file, ForEachField for_each_field) {
  std::vector<Row> rows;
  std::size_t line = 1;
  const std::string header = header_of<Row>(for_each_field);
  for (const std::vector<std::string>& record : read_records(file, header)) {
    ++line;
    std::size_t column = 0;
    for_each_field(rows.emplace_back(), [&](const char*, auto& field) {
      try {
        from_text(record[column], field);
      } catch (const std::runtime_error& error) {
        throw field_error(file, line, column, record[column], error.what());
      }
      ++column;
    });
  }
  return rows;
}

/// Writes a file's rows, as write_records does; `for_each_field` as above.
template <class Row, class ForEachField>
void write_rows(
    const std::filesystem::path& file, const std::vector<Row>& rows, ForEachField for_each_field) {
  std::vector<std::vector<std::string>> records;
  for (const Row& row : rows) {
    auto& record = records.emplace_back();
    for_each_field(row, [&](const char*, const auto& field) { record.push_back(to_text(field)); });
  }
  write_records(file, header_of<Row>(for_each_field), records);
}

}  // namespace rmsnorm::csv
