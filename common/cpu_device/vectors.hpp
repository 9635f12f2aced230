#pragma once
/// \file
/// CUDA's small vectors. Where the device observes, a vector is copied by a function that
/// reports one access of the whole size, as it is on a GPU; a plain struct would be copied part by
/// part.

#include <cstring>

namespace rmsnorm::cpu_device {

/// Copies a vector of `bytes` bytes and reports a load from `from` and a store to `to`. `caller` is
/// an address in the kernel, which leads to the source line.
void copy_vector(const void* caller, void* to, const void* from, int bytes);

}  // namespace rmsnorm::cpu_device

#ifdef RMSNORM_CPU_OBSERVES
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

#define RMSNORM_VECTOR_OF_2(Vector, T, alignment) \
  struct alignas(alignment) Vector {              \
    T x, y;                                       \
    Vector(T x_, T y_) : x(x_), y(y_) {}          \
    RMSNORM_COPIES_WHOLE(Vector)                  \
  };                                              \
  inline Vector make_##Vector(T x, T y) {         \
    return Vector(x, y);                          \
  }
#define RMSNORM_VECTOR_OF_4(Vector, T, alignment)                  \
  struct alignas(alignment) Vector {                               \
    T x, y, z, w;                                                  \
    Vector(T x_, T y_, T z_, T w_) : x(x_), y(y_), z(z_), w(w_) {} \
    RMSNORM_COPIES_WHOLE(Vector)                                   \
  };                                                               \
  inline Vector make_##Vector(T x, T y, T z, T w) {                \
    return Vector(x, y, z, w);                                     \
  }

RMSNORM_VECTOR_OF_2(float2, float, 8)
RMSNORM_VECTOR_OF_2(int2, int, 8)
RMSNORM_VECTOR_OF_2(uint2, unsigned, 8)
RMSNORM_VECTOR_OF_2(double2, double, 16)
RMSNORM_VECTOR_OF_4(float4, float, 16)
RMSNORM_VECTOR_OF_4(int4, int, 16)
RMSNORM_VECTOR_OF_4(uint4, unsigned, 16)

#undef RMSNORM_VECTOR_OF_4

/// A place in a block or a grid.
struct uint3 {
  unsigned x, y, z;
};

/// The size of a block or a grid.
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
