"""float16 in CUDA, without headers.

NVRTC as pip installs it brings no cuda_fp16.h, so the generated source defines what it uses of it
under the same names, by PTX instructions (PTX ISA, "Half Precision Floating-Point Instructions"):
a kernel text means the same with NVIDIA's header in place of this.
"""

from __future__ import annotations

_D = "__device__ __forceinline__"

HALF = f"""\
struct __align__(2) half {{
  unsigned short x;
}};
{_D} half __ushort_as_half(unsigned short x) {{
  half r;
  r.x = x;
  return r;
}}
{_D} unsigned short __half_as_ushort(half x) {{ return x.x; }}
{_D} float __half2float(half x) {{
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.x));
  return r;
}}
{_D} half __float2half_rn(float x) {{
  half r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.x) : "f"(x));
  return r;
}}
{_D} half __double2half(double x) {{
  half r;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(r.x) : "d"(x));
  return r;
}}
{_D} half __ll2half_rn(long long x) {{
  half r;
  asm("cvt.rn.f16.s64 %0, %1;" : "=h"(r.x) : "l"(x));
  return r;
}}
{_D} half __ull2half_rn(unsigned long long x) {{
  half r;
  asm("cvt.rn.f16.u64 %0, %1;" : "=h"(r.x) : "l"(x));
  return r;
}}
{_D} half __hfma(half a, half b, half c) {{
  half r;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r.x) : "h"(a.x), "h"(b.x), "h"(c.x));
  return r;
}}
{_D} half operator+(half a, half b) {{
  half r;
  asm("add.rn.f16 %0, %1, %2;" : "=h"(r.x) : "h"(a.x), "h"(b.x));
  return r;
}}
{_D} half operator-(half a, half b) {{
  half r;
  asm("sub.rn.f16 %0, %1, %2;" : "=h"(r.x) : "h"(a.x), "h"(b.x));
  return r;
}}
{_D} half operator*(half a, half b) {{
  half r;
  asm("mul.rn.f16 %0, %1, %2;" : "=h"(r.x) : "h"(a.x), "h"(b.x));
  return r;
}}
{_D} half operator/(half a, half b) {{
  return __float2half_rn(__half2float(a) / __half2float(b));
}}
"""

HALF_COMPARE = "".join(
    f"{_D} bool operator{op}(half a, half b) {{\n"
    f"  return __half2float(a) {op} __half2float(b);\n}}\n"
    for op in ("==", "!=", "<", "<=", ">", ">=")
)

HALF_MATH = {
    "hexp": "__expf(x)",
    "hexp2": "exp2f(x)",
    "hexp10": "__exp10f(x)",
    "hlog": "logf(x)",
    "hlog2": "log2f(x)",
    "hlog10": "log10f(x)",
    "hsin": "sinf(x)",
    "hcos": "cosf(x)",
    "hsqrt": "sqrtf(x)",
    "hrsqrt": "rsqrtf(x)",
    "hfloor": "floorf(x)",
    "hceil": "ceilf(x)",
    "htrunc": "truncf(x)",
    "hrint": "rintf(x)",
}
"""cuda_fp16.h's functions of one half, computed in float32 and rounded."""


def half_math(name: str) -> str:
    """The definition of one of HALF_MATH."""
    body = HALF_MATH[name].replace("(x)", "(__half2float(x))")
    return f"{_D} half {name}(half x) {{ return __float2half_rn({body}); }}\n"


HABS = f"{_D} half __habs(half x) {{ return __ushort_as_half(x.x & 0x7fff); }}\n"

HALF_EXTREMES = f"""\
{_D} half tw_min_float16(half a, half b) {{
  float x = __half2float(a), y = __half2float(b);
  return x < y || x != x ? a : b;
}}
{_D} half tw_max_float16(half a, half b) {{
  float x = __half2float(a), y = __half2float(b);
  return x > y || x != x ? a : b;
}}
"""

HALF_VECTORS = """\
template <int N>
struct __align__(2 * N >= 16 ? 16 : 2 * N >= 8 ? 8 : 4) tw_halves {
  half s[N];
};
"""


def packed_operator(symbol: str, name: str) -> str:
    """An operator on vectors of halves, two lanes an instruction."""
    return f"""\
template <int N>
{_D} tw_halves<N> operator{symbol}(tw_halves<N> a, tw_halves<N> b) {{
  tw_halves<N> r;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {{
    asm("{name}.rn.f16x2 %0, %1, %2;"
        : "=r"(((unsigned int*)r.s)[i])
        : "r"(((unsigned int*)a.s)[i]), "r"(((unsigned int*)b.s)[i]));
  }}
  return r;
}}
"""


PACKED_FMA = f"""\
template <int N>
{_D} tw_halves<N> tw_hfma(tw_halves<N> a, tw_halves<N> b, tw_halves<N> c) {{
  tw_halves<N> r;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {{
    asm("fma.rn.f16x2 %0, %1, %2, %3;"
        : "=r"(((unsigned int*)r.s)[i])
        : "r"(((unsigned int*)a.s)[i]), "r"(((unsigned int*)b.s)[i]),
          "r"(((unsigned int*)c.s)[i]));
  }}
  return r;
}}
"""

# Rounding to odd, so that the second rounding is right: Boldo and Melquiond, "Emulation of a FMA
# and correctly rounded sums", 2008.
TO_ODD = f"""\
{_D} float tw_odd_float64(double x) {{
  float r = __double2float_rz(x);
  return (double)r == x || x != x ? r : __uint_as_float(__float_as_uint(r) | 1);
}}
{_D} float tw_odd_int64(long long x) {{
  float r = __ll2float_rz(x);
  return r < 9223372036854775808.0f && (long long)r == x
             ? r : __uint_as_float(__float_as_uint(r) | 1);
}}
{_D} float tw_odd_uint64(unsigned long long x) {{
  float r = __ull2float_rz(x);
  return r < 18446744073709551616.0f && (unsigned long long)r == x
             ? r : __uint_as_float(__float_as_uint(r) | 1);
}}
"""
