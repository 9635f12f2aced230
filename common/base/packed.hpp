#pragma once
/// \file
/// Values as bytes, for another copy of this process.

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

namespace rmsnorm {

/// Values one after the other. They are taken in the order in which they were put, as the same
/// types.
class Packed {
 public:
  Packed() = default;
  /// What bytes() gave elsewhere.
  explicit Packed(std::string bytes) : bytes_(std::move(bytes)) {}

  /// Adds one at the end.
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      put(value.size());
      bytes_ += value;
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }

  /// Takes the first that is left.
  template <class T>
  T take() {
    if constexpr (std::is_same_v<T, std::string>) {
      const auto size = take<std::size_t>();
      at_ += size;
      return bytes_.substr(at_ - size, size);
    } else {
      T value;
      std::memcpy(&value, bytes_.data() + at_, sizeof value);
      at_ += sizeof value;
      return value;
    }
  }

  const std::string& bytes() const { return bytes_; }  ///< all that were put

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace rmsnorm
