#pragma once
/// \file
/// CUDA's small vectors. Where the device watches, a vector is copied by a function that
/// reports one access of the whole size, as it is on a GPU; a plain struct would be copied part by
/// part.

#include <cstring>

#include "common/cpu_device/scheduler/source_location.hpp"

namespace rmsnorm::cpu_device {

/// Copies a vector of `bytes` bytes and reports a load from `from` and a store to `to`. `caller` is
/// an address in the kernel, which leads to the source line.
void copy_vector(const void* caller, void* to, const void* from, int bytes);

}  // namespace rmsnorm::cpu_device

#ifdef RMSNORM_CPU_WATCHES
#define RMSNORM_COPIES_WHOLE(Vector)                                                        \
  Vector() = default;                                                                       \
  __attribute__((no_sanitize("thread"), noinline)) Vector(const Vector& other) {            \
    rmsnorm::cpu_device::copy_vector(                                                       \
        __builtin_return_address(0), this, &other, static_cast<int>(sizeof(Vector)));       \
  }                                                                                         \
  __attribute__((no_sanitize("thread"), noinline)) Vector& operator=(const Vector& other) { \
    rmsnorm::cpu_device::copy_vector(                                                       \
        __builtin_return_address(0), this, &other, static_cast<int>(sizeof(Vector)));       \
    return *this;                                                                           \
  }
#else
#define RMSNORM_COPIES_WHOLE(Vector) Vector() = default;
#endif

#define RMSNORM_VECTOR_OF_1(Vector, T) \
  struct Vector {                      \
    T x;                               \
  };                                   \
  inline Vector make_##Vector(T x) {   \
    return {x};                        \
  }
#define RMSNORM_VECTOR_OF_2(Vector, T, alignment) \
  struct alignas(alignment) Vector {              \
    T x, y;                                       \
    Vector(T x_, T y_) : x(x_), y(y_) {}          \
    RMSNORM_COPIES_WHOLE(Vector)                  \
  };                                              \
  inline Vector make_##Vector(T x, T y) {         \
    return Vector(x, y);                          \
  }
// A GPU, too, loads three parts one by one.
#define RMSNORM_VECTOR_OF_3(Vector, T)         \
  struct Vector {                              \
    T x, y, z;                                 \
  };                                           \
  inline Vector make_##Vector(T x, T y, T z) { \
    return {x, y, z};                          \
  }
#define RMSNORM_VECTOR_OF_4(Vector, T, alignment)                            \
  struct alignas(alignment) Vector {                                         \
    T x, y, z, w;                                                            \
    Vector(T x_, T y_, T z_ = {}, T w_ = {}) : x(x_), y(y_), z(z_), w(w_) {} \
    RMSNORM_COPIES_WHOLE(Vector)                                             \
  };                                                                         \
  inline Vector make_##Vector(T x, T y, T z, T w) {                          \
    return Vector(x, y, z, w);                                               \
  }
/// All vectors of a type of so many bytes. No vector is aligned to more than 16.
#define RMSNORM_VECTORS_OF(name, T, bytes)   \
  RMSNORM_VECTOR_OF_1(name##1, T)            \
  RMSNORM_VECTOR_OF_2(name##2, T, 2 * bytes) \
  RMSNORM_VECTOR_OF_3(name##3, T)            \
  RMSNORM_VECTOR_OF_4(name##4, T, (4 * bytes < 16 ? 4 * bytes : 16))

RMSNORM_VECTORS_OF(char, signed char, 1)
RMSNORM_VECTORS_OF(uchar, unsigned char, 1)
RMSNORM_VECTORS_OF(short, short, 2)
RMSNORM_VECTORS_OF(ushort, unsigned short, 2)
RMSNORM_VECTORS_OF(int, int, 4)
RMSNORM_VECTOR_OF_1(uint1, unsigned)
RMSNORM_VECTOR_OF_2(uint2, unsigned, 8)
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) {
  return {x, y, z};
}
RMSNORM_VECTOR_OF_4(uint4, unsigned, 16)
RMSNORM_VECTORS_OF(long, long, 8)
RMSNORM_VECTORS_OF(ulong, unsigned long, 8)
RMSNORM_VECTORS_OF(longlong, long long, 8)
RMSNORM_VECTORS_OF(ulonglong, unsigned long long, 8)
RMSNORM_VECTORS_OF(float, float, 4)
RMSNORM_VECTORS_OF(double, double, 8)
