// What CUDA C++ has and C++ lacks, for source that runs on a CPU: see the CUDA C++ Programming Guide
// and the CUDA Math API.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

#define VECTORS(T, N, two, four)                                       \
  struct __align__(two) N##2 { T x, y; };                              \
  struct N##3 { T x, y, z; };                                          \
  struct __align__(four) N##4 { T x, y, z, w; };                       \
  static N##2 make_##N##2(T a, T b) { return {a, b}; }                 \
  static N##3 make_##N##3(T a, T b, T c) { return {a, b, c}; }         \
  static N##4 make_##N##4(T a, T b, T c, T d) { return {a, b, c, d}; }
VECTORS(signed char, char, 2, 4)
VECTORS(unsigned char, uchar, 2, 4)
VECTORS(short, short, 4, 8)
VECTORS(unsigned short, ushort, 4, 8)
VECTORS(int, int, 8, 16)
VECTORS(unsigned int, uint, 8, 16)
VECTORS(float, float, 8, 16)
VECTORS(double, double, 16, 16)
VECTORS(long long, longlong, 16, 16)
VECTORS(unsigned long long, ulonglong, 16, 16)

template <class To, class From>
static To bits_as(From x) {
  To r;
  static_assert(sizeof r == sizeof x, "");
  memcpy(&r, &x, sizeof r);
  return r;
}
static float __int_as_float(int x) { return bits_as<float>(x); }
static float __uint_as_float(unsigned int x) { return bits_as<float>(x); }
static int __float_as_int(float x) { return bits_as<int>(x); }
static unsigned int __float_as_uint(float x) { return bits_as<unsigned int>(x); }
static double __longlong_as_double(long long x) { return bits_as<double>(x); }

// towards zero and clamped; what NaN gives is left open here as there, but for floats in 32 bits
template <class To, class From>
static To towards_zero(From x) {
  typedef std::numeric_limits<To> limits;
  if (x != x) return sizeof(To) + sizeof(From) == 8 ? 0 : limits::min();
  if (x <= (From)limits::min()) return limits::min();
  return x >= (From)limits::max() ? limits::max() : (To)x;
}
#define CONVERSIONS(F, T)                                                          \
  static int __##F##2int_rz(T x) { return towards_zero<int>(x); }                  \
  static unsigned int __##F##2uint_rz(T x) { return towards_zero<unsigned>(x); }   \
  static long long __##F##2ll_rz(T x) { return towards_zero<long long>(x); }       \
  static unsigned long long __##F##2ull_rz(T x) { return towards_zero<unsigned long long>(x); }
CONVERSIONS(float, float)
CONVERSIONS(double, double)
static float shorter(float x, bool further) { return further ? nextafterf(x, 0) : x; }
static float __double2float_rz(double x) {
  float r = (float)x;
  return shorter(r, fabs((double)r) > fabs(x) && !std::isinf(x));
}
static float __ll2float_rz(long long x) {
  float r = (float)x;
  return shorter(r, x > 0 ? (__int128)r > x : (__int128)r < x);
}
static float __ull2float_rz(unsigned long long x) {
  float r = (float)x;
  return shorter(r, (__int128)r > x);
}
static int __popc(unsigned int x) { return __builtin_popcount(x); }
static int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static unsigned int __byte_perm(unsigned int a, unsigned int b, unsigned int s) {
  unsigned long long v = (unsigned long long)b << 32 | a;
  unsigned int r = 0;
  for (int i = 0; i < 4; ++i) r |= (unsigned int)(v >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
  return r;
}
static int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += (int)(signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
  return c;
}
static unsigned int __dp4a(unsigned int a, unsigned int b, unsigned int c) {
  for (int i = 0; i < 4; ++i) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
  return c;
}
static int __dp4a(char4 a, char4 b, int c) {
  return __dp4a(bits_as<int>(a), bits_as<int>(b), c);
}
static unsigned int __dp4a(uchar4 a, uchar4 b, unsigned int c) {
  return __dp4a(bits_as<unsigned int>(a), bits_as<unsigned int>(b), c);
}
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf(x, y)
static float rsqrtf(float x) { return (float)(1 / sqrt((double)x)); }
static double rsqrt(double x) { return 1 / sqrt(x); }
static float rcbrtf(float x) { return (float)(1 / cbrt((double)x)); }
