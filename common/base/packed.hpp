#pragma once
/// \file
/// Values as bytes, for another copy of this process.

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

namespace rmsnorm {

/// A text, or a list of values that can be packed.
template <class T>
concept Sequence = requires(T all) {
  all.push_back(all.front());
};

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
    if constexpr (Sequence<T>) {
      put(value.size());
      for (const auto& one : value) put(one);
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }

  /// Adds several.
  template <class First, class Second, class... More>
  void put(const First& first, const Second& second, const More&... more) {
    put(first);
    put(second, more...);
  }

  /// Takes the first that is left.
  template <class T>
  T take() {
    if constexpr (Sequence<T>) {
      T all;
      for (auto left = take<std::size_t>(); left > 0; --left)
        all.push_back(take<typename T::value_type>());
      return all;
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
