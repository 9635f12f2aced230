/// \file
/// What is compared: CUDA's functions of numbers and the PTX of numbers that the CPU device has.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>

#include "common/cpu_device/tests/arithmetic/arithmetic.hpp"

namespace {

using arithmetic::Bits;
using arithmetic::kValues;
using arithmetic::Type;

template <class T>
constexpr Type type_of = Type::whole;
template <>
constexpr Type type_of<float> = Type::f32;
template <>
constexpr Type type_of<double> = Type::f64;
template <>
constexpr Type type_of<__half> = Type::f16;
template <>
constexpr Type type_of<__nv_bfloat16> = Type::bf16;

/// Ends the program if CUDA reports an error.
void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

/// kValues values in the device's memory.
template <class T>
class Array {
 public:
  Array() { check(cudaMalloc(&data, kValues * sizeof(T))); }
  explicit Array(const Bits& bits) : Array() {
    std::vector<T> values(kValues);
    for (int i = 0; i < kValues; ++i) {
      std::memcpy(static_cast<void*>(&values[i]), &bits[i], sizeof(T));
    }
    check(cudaMemcpy(data, values.data(), kValues * sizeof(T), cudaMemcpyHostToDevice));
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { cudaFree(data); }
  Bits bits() const {
    std::vector<T> values(kValues);
    check(cudaMemcpy(values.data(), data, kValues * sizeof(T), cudaMemcpyDeviceToHost));
    Bits bits(kValues);
    for (int i = 0; i < kValues; ++i) std::memcpy(&bits[i], &values[i], sizeof(T));
    return bits;
  }
  T* data = nullptr;
};

template <class F, class R, class... A>
__global__ void evaluate(R* results, const A*... operands) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < kValues) results[i] = F::of(operands[i]...);
}

template <class F, class R, class... A, int... numbers>
Bits compute(std::integer_sequence<int, numbers...>) {
  constexpr int kThreads = 250;
  Array<R> results;
  const std::tuple<Array<A>...> operands(
      arithmetic::operand_bits(type_of<A>, numbers, sizeof...(numbers))...);
  evaluate<F, R, A...>
      <<<kValues / kThreads, kThreads>>>(results.data, std::get<numbers>(operands).data...);
  check(cudaGetLastError());
  return results.bits();
}

template <class F, class R, class... A>
bool add(const char* name, R (*)(A...)) {
  arithmetic::functions().push_back({name, type_of<R>, {type_of<A>...}, [] {
                                       return compute<F, R, A...>(
                                           std::make_integer_sequence<int, sizeof...(A)>());
                                     }});
  return true;
}

// FUNCTION("name", (float a, float b), float, return ...;)
#define FUNCTION(name, parameters, R, ...) \
  FUNCTION_OF(__COUNTER__, name, parameters, R, __VA_ARGS__)
#define FUNCTION_OF(number, name, parameters, R, ...) \
  FUNCTION_NAMED(number, name, parameters, R, __VA_ARGS__)
#define FUNCTION_NAMED(number, name, parameters, R, ...) \
  struct Function##number {                              \
    static __device__ R of parameters { __VA_ARGS__ }    \
  };                                                     \
  const bool kIsAdded##number = add<Function##number>(name, &Function##number::of);

#define OF_ONE(T, name) TO(T, T, name)
#define TO(R, T, name) FUNCTION(#name, (T a), R, return name(a);)
#define OF_TWO(T, name) FUNCTION(#name, (T a, T b), T, return name(a, b);)
#define OF_THREE(T, name) FUNCTION(#name, (T a, T b, T c), T, return name(a, b, c);)
#define ROUNDED(of, T, name) of(T, name##_rn) of(T, name##_rz) of(T, name##_ru) of(T, name##_rd)
#define ROUNDED_TO(R, T, name) \
  TO(R, T, name##_rn) TO(R, T, name##_rz) TO(R, T, name##_ru) TO(R, T, name##_rd)
#define ARITHMETIC(f, d, fma, T)  \
  ROUNDED(OF_TWO, T, __##f##add)  \
  ROUNDED(OF_TWO, T, __##f##sub)  \
  ROUNDED(OF_TWO, T, __##f##mul)  \
  ROUNDED(OF_TWO, T, __##d##div)  \
  ROUNDED(OF_ONE, T, __##d##rcp)  \
  ROUNDED(OF_ONE, T, __##d##sqrt) \
  ROUNDED(OF_THREE, T, __##fma)

FUNCTION("float + float", (float a, float b), float, return a + b;)
FUNCTION("float * float", (float a, float b), float, return a * b;)
FUNCTION("float / float", (float a, float b), float, return a / b;)
FUNCTION("double + double", (double a, double b), double, return a + b;)
FUNCTION("double / double", (double a, double b), double, return a / b;)
FUNCTION("float(double)", (double a), float, return static_cast<float>(a);)
FUNCTION("double(float)", (float a), double, return static_cast<double>(a);)
FUNCTION("int(float)", (float a), int, return static_cast<int>(a);)
FUNCTION("unsigned(float)", (float a), unsigned, return static_cast<unsigned>(a);)
ARITHMETIC(f, f, fmaf, float)
ARITHMETIC(d, d, fma, double)

OF_ONE(float, sqrtf)
OF_ONE(float, rsqrtf)
OF_ONE(float, cbrtf)
OF_ONE(float, rcbrtf)
OF_ONE(float, expf)
OF_ONE(float, exp2f)
OF_ONE(float, expm1f)
OF_ONE(float, logf)
OF_ONE(float, log2f)
OF_ONE(float, log1pf)
OF_ONE(float, sinf)
OF_ONE(float, cosf)
OF_ONE(float, tanhf)
OF_ONE(float, erff)
OF_ONE(float, fabsf)
OF_ONE(float, floorf)
OF_ONE(float, rintf)
OF_ONE(float, roundf)
OF_ONE(float, truncf)
OF_TWO(float, fminf)
OF_TWO(float, fmaxf)
OF_TWO(float, fmodf)
OF_TWO(float, powf)
OF_TWO(float, copysignf)
OF_TWO(float, fdimf)
FUNCTION("min(float, float)", (float a, float b), float, return min(a, b);)
FUNCTION("max(float, float)", (float a, float b), float, return max(a, b);)
OF_THREE(float, fmaf)
OF_ONE(double, sqrt)
OF_ONE(double, rsqrt)
OF_ONE(double, exp)
OF_ONE(double, log)

OF_ONE(float, __frsqrt_rn)
OF_ONE(float, __expf)
OF_ONE(float, __exp10f)
OF_ONE(float, __log2f)
OF_ONE(float, __logf)
OF_ONE(float, __log10f)
OF_ONE(float, __sinf)
OF_ONE(float, __cosf)
OF_ONE(float, __tanf)
OF_ONE(float, __saturatef)
OF_TWO(float, __fdividef)
OF_TWO(float, __powf)

ROUNDED_TO(int, float, __float2int)
ROUNDED_TO(unsigned, float, __float2uint)
ROUNDED_TO(long long, float, __float2ll)
ROUNDED_TO(unsigned long long, float, __float2ull)
ROUNDED_TO(int, double, __double2int)
ROUNDED_TO(long long, double, __double2ll)
TO(float, int, __int2float_rn)
TO(float, unsigned, __uint2float_rn)
TO(float, long long, __ll2float_rn)
TO(float, unsigned long long, __ull2float_rn)
ROUNDED_TO(float, double, __double2float)

TO(int, unsigned, __popc)
TO(int, unsigned long long, __popcll)
OF_ONE(int, __clz)
TO(int, long long, __clzll)
OF_ONE(int, __ffs)
TO(int, long long, __ffsll)
OF_ONE(unsigned, __brev)
OF_ONE(unsigned long long, __brevll)
OF_TWO(int, __mulhi)
OF_TWO(unsigned, __umulhi)
OF_TWO(int, __mul24)
OF_TWO(unsigned, __umul24)
OF_THREE(unsigned, __byte_perm)
OF_THREE(unsigned, __funnelshift_l)
OF_THREE(unsigned, __funnelshift_r)

// 16 bits. Each pair's function does the same twice.
#define SIXTEEN_BITS(T, name)                                                          \
  FUNCTION("__float2" #name "_rn", (float a), T, return __float2##name##_rn(a);)       \
  FUNCTION("__" #name "2float", (T a), float, return __##name##2float(a);)             \
  FUNCTION("__double2" #name, (double a), T, return __double2##name(a);)               \
  FUNCTION("__int2" #name "_rn", (int a), T, return __int2##name##_rn(a);)             \
  FUNCTION("__" #name "2int_rn", (T a), int, return __##name##2int_rn(a);)             \
  FUNCTION("__" #name "2int_rz", (T a), int, return __##name##2int_rz(a);)             \
  FUNCTION("__hadd(" #name ")", (T a, T b), T, return __hadd(a, b);)                   \
  FUNCTION("__hsub(" #name ")", (T a, T b), T, return __hsub(a, b);)                   \
  FUNCTION("__hmul(" #name ")", (T a, T b), T, return __hmul(a, b);)                   \
  FUNCTION("__hdiv(" #name ")", (T a, T b), T, return __hdiv(a, b);)                   \
  FUNCTION("__hfma(" #name ")", (T a, T b, T c), T, return __hfma(a, b, c);)           \
  FUNCTION("__hmin(" #name ")", (T a, T b), T, return __hmin(a, b);)                   \
  FUNCTION("__hmax(" #name ")", (T a, T b), T, return __hmax(a, b);)                   \
  FUNCTION("__hneg(" #name ")", (T a), T, return __hneg(a);)                           \
  FUNCTION("__habs(" #name ")", (T a), T, return __habs(a);)                           \
  FUNCTION("__hlt(" #name ")", (T a, T b), int, return static_cast<int>(__hlt(a, b));) \
  FUNCTION("__hne(" #name ")", (T a, T b), int, return static_cast<int>(__hne(a, b));) \
  FUNCTION("__hisnan(" #name ")", (T a), int, return static_cast<int>(__hisnan(a));)   \
  FUNCTION("hsqrt(" #name ")", (T a), T, return hsqrt(a);)                             \
  FUNCTION("hrsqrt(" #name ")", (T a), T, return hrsqrt(a);)                           \
  FUNCTION("hrcp(" #name ")", (T a), T, return hrcp(a);)                               \
  FUNCTION("hexp(" #name ")", (T a), T, return hexp(a);)                               \
  FUNCTION("hexp2(" #name ")", (T a), T, return hexp2(a);)                             \
  FUNCTION("hlog(" #name ")", (T a), T, return hlog(a);)                               \
  FUNCTION("hlog2(" #name ")", (T a), T, return hlog2(a);)
SIXTEEN_BITS(__half, half)
SIXTEEN_BITS(__nv_bfloat16, bfloat16)

// 8 bits.
#define EIGHT_BITS(format, overflow)                                                         \
  FUNCTION("__nv_cvt_float_to_fp8(" #format ", " #overflow ")", (float a), unsigned char,    \
           return __nv_cvt_float_to_fp8(a, overflow, format);)                               \
  FUNCTION("__nv_cvt_double_to_fp8(" #format ", " #overflow ")", (double a), unsigned char,  \
           return __nv_cvt_double_to_fp8(a, overflow, format);)                              \
  FUNCTION("__nv_cvt_halfraw_to_fp8(" #format ", " #overflow ")", (__half a), unsigned char, \
           return __nv_cvt_halfraw_to_fp8(a, overflow, format);)                             \
  FUNCTION("__nv_cvt_bfloat16raw_to_fp8(" #format ", " #overflow ")", (__nv_bfloat16 a),     \
           unsigned char, return __nv_cvt_bfloat16raw_to_fp8(a, overflow, format);)
EIGHT_BITS(__NV_E4M3, __NV_SATFINITE)
EIGHT_BITS(__NV_E4M3, __NV_NOSAT)
EIGHT_BITS(__NV_E5M2, __NV_SATFINITE)
EIGHT_BITS(__NV_E5M2, __NV_NOSAT)
#define FROM_EIGHT_BITS(format)                                          \
  FUNCTION("__nv_cvt_fp8_to_halfraw(" #format ")", (unsigned a), __half, \
           return __half(__nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(a), format));)
FROM_EIGHT_BITS(__NV_E4M3)
FROM_EIGHT_BITS(__NV_E5M2)

// PTX.
#define PTX(name, parameters, ...) \
  FUNCTION(name, parameters, float, float d; __VA_ARGS__; return d;)
PTX("add.f32", (float a, float b), asm("add.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b)))
PTX("add.ftz.f32", (float a, float b), asm("add.ftz.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b)))
PTX("sub.f32", (float a, float b), asm("sub.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b)))
PTX("sub.ftz.f32", (float a, float b), asm("sub.ftz.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b)))
PTX("mul.f32", (float a, float b), asm("mul.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b)))
PTX("mul.ftz.f32", (float a, float b), asm("mul.ftz.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b)))
PTX("div.rn.f32", (float a, float b), asm("div.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b)))
PTX("div.rn.ftz.f32", (float a, float b),
    asm("div.rn.ftz.f32 %0, %1, %2;"
        : "=f"(d)
        : "f"(a), "f"(b)))
PTX("div.full.f32", (float a, float b), asm("div.full.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b)))
PTX("div.full.ftz.f32", (float a, float b),
    asm("div.full.ftz.f32 %0, %1, %2;"
        : "=f"(d)
        : "f"(a), "f"(b)))
PTX("div.approx.f32", (float a, float b),
    asm("div.approx.f32 %0, %1, %2;"
        : "=f"(d)
        : "f"(a), "f"(b)))
PTX("div.approx.ftz.f32", (float a, float b),
    asm("div.approx.ftz.f32 %0, %1, %2;"
        : "=f"(d)
        : "f"(a), "f"(b)))
PTX("min.f32", (float a, float b), asm("min.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b)))
PTX("min.ftz.f32", (float a, float b), asm("min.ftz.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b)))
PTX("max.f32", (float a, float b), asm("max.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b)))
PTX("max.ftz.f32", (float a, float b), asm("max.ftz.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b)))
PTX("fma.rn.f32", (float a, float b, float c),
    asm("fma.rn.f32 %0, %1, %2, %3;"
        : "=f"(d)
        : "f"(a), "f"(b), "f"(c)))
PTX("fma.rn.ftz.f32", (float a, float b, float c),
    asm("fma.rn.ftz.f32 %0, %1, %2, %3;"
        : "=f"(d)
        : "f"(a), "f"(b), "f"(c)))
PTX("rsqrt.approx.f32", (float a), asm("rsqrt.approx.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("rsqrt.approx.ftz.f32", (float a), asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("sqrt.rn.f32", (float a), asm("sqrt.rn.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("sqrt.approx.f32", (float a), asm("sqrt.approx.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("sqrt.approx.ftz.f32", (float a), asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("rcp.rn.f32", (float a), asm("rcp.rn.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("rcp.approx.f32", (float a), asm("rcp.approx.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("rcp.approx.ftz.f32", (float a), asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("ex2.approx.f32", (float a), asm("ex2.approx.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("ex2.approx.ftz.f32", (float a), asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("lg2.approx.f32", (float a), asm("lg2.approx.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("lg2.approx.ftz.f32", (float a), asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("sin.approx.f32", (float a), asm("sin.approx.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("sin.approx.ftz.f32", (float a), asm("sin.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("cos.approx.f32", (float a), asm("cos.approx.f32 %0, %1;" : "=f"(d) : "f"(a)))
PTX("tanh.approx.f32", (float a), asm("tanh.approx.f32 %0, %1;" : "=f"(d) : "f"(a)))

}  // namespace
