"""CUDA source run on a CPU, as C++: what its text says, where no GPU can say it.

Kernels of threads that need nothing of each other. What CUDA has and C++ lacks is in `_CUDA`, as
the CUDA C++ Programming Guide and the CUDA Math API say it; what the source writes as PTX for
halves is in `_HALF`, by GCC's `_Float16`. Source for sm_70: newer architectures have instructions
as PTX in the same places.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.unit.codegen.device_kit import Case, source_of
from tilewright.codegen import cuda_half

_CUDA = r"""
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#define __CUDA_ARCH__ 700
#define __device__
#define __forceinline__ inline
#define __global__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
struct tw_place { int x, y, z; };
static tw_place threadIdx, blockIdx;
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
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf(x, y)
static float rsqrtf(float x) { return (float)(1 / sqrt((double)x)); }
static double rsqrt(double x) { return 1 / sqrt(x); }
"""

_HALF = """
struct __align__(2) half { unsigned short x; };
static half __ushort_as_half(unsigned short x) { return {x}; }
static unsigned short __half_as_ushort(half x) { return x.x; }
static float __half2float(half x) { return (float)bits_as<_Float16>(x.x); }
template <class T> static half nearest(T x) { return {bits_as<unsigned short>((_Float16)x)}; }
static half __float2half_rn(float x) { return nearest(x); }
static half __double2half(double x) { return nearest(x); }
static half __ll2half_rn(long long x) { return nearest((double)x); }
static half __ull2half_rn(unsigned long long x) { return nearest((double)x); }
static half __hfma(half a, half b, half c) {
  return nearest((double)__half2float(a) * __half2float(b) + __half2float(c));
}
static half operator+(half a, half b) { return nearest(__half2float(a) + __half2float(b)); }
static half operator-(half a, half b) { return nearest(__half2float(a) - __half2float(b)); }
static half operator*(half a, half b) { return nearest(__half2float(a) * __half2float(b)); }
static half operator/(half a, half b) { return nearest(__half2float(a) / __half2float(b)); }
"""

_LANES = """
template <int N> static tw_halves<N> {name}({params}) {{
  tw_halves<N> r;
  for (int i = 0; i < N; ++i) r.s[i] = {value};
  return r;
}}
"""
_PAIR = "tw_halves<N> a, tw_halves<N> b"


def as_cpp(text: str) -> str:
    """CUDA source as C++."""
    text = text.replace(cuda_half.HALF, _HALF)
    for symbol, name in (("+", "add"), ("-", "sub"), ("*", "mul")):
        lanes = _LANES.format(
            name=f"operator{symbol}", params=_PAIR, value=f"a.s[i] {symbol} b.s[i]"
        )
        text = text.replace(cuda_half.packed_operator(symbol, name), lanes)
    fma = _LANES.format(
        name="tw_hfma", params=f"{_PAIR}, tw_halves<N> c", value="__hfma(a.s[i], b.s[i], c.s[i])"
    )
    return _CUDA + text.replace(cuda_half.PACKED_FMA, fma)


def _entry(case: Case, text: str) -> str:
    """A function that runs all threads of a case's kernel."""
    found = re.search(rf"\b{case.name}\((.*?)\) \{{", text)
    assert found is not None
    types = [p.replace("__restrict__", "").rsplit(maxsplit=1)[0] for p in found[1].split(",")]
    given = ", ".join(f"({t})args[{i}]" for i, t in enumerate(types))
    return (
        f'extern "C" void run_{case.name}(void** args) {{\n'
        f"  for (blockIdx.x = 0; blockIdx.x < {case.groups}; ++blockIdx.x)\n"
        f"    for (threadIdx.x = 0; threadIdx.x < 4; ++threadIdx.x) {case.name}({given});\n}}\n"
    )


def run_cuda_text(cases: Sequence[Case], folder: Path) -> dict[str, np.ndarray]:
    """What the CUDA source of each case gives."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no GNU C++ compiler")
    text = source_of(cases, "cuda -arch=sm_70")
    path, library = folder / "source.cc", folder / "source.so"
    path.write_text(as_cpp(text) + "".join(_entry(c, text) for c in cases))
    # CUDA's integers wrap as its compiler does, and vectors are accessed through casts
    command = [compiler, "-std=c++17", "-O1", "-ffp-contract=off", "-fwrapv"]
    command += ["-fno-strict-aliasing", "-w", "-shared", "-fPIC", str(path), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "_Float16" in done.stderr:
        pytest.skip("this C++ compiler has no float16")
    assert done.returncode == 0, done.stderr[:3000]
    loaded, results = ctypes.CDLL(str(library)), {}
    for c in cases:
        out = np.zeros_like(c.arrays[-1])
        arrays = [np.ascontiguousarray(a) for a in (*c.arrays[:-1], out)]
        getattr(loaded, f"run_{c.name}")(
            (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        )
        results[c.name] = arrays[-1]
    return results
