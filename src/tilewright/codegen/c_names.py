"""Names in generated C-like text: legal in C, CUDA and OpenCL, unique in a function."""

from __future__ import annotations

import re
from typing import Any

_ILLEGAL = re.compile(r"[^0-9A-Za-z_]+")
_KEYWORDS = """
    alignas alignof and asm auto bitand bitor bool break case catch char class compl const
    constexpr continue decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto half if inline int long mutable namespace new noexcept not
    nullptr operator or private protected public register reinterpret_cast restrict return short
    signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    global local constant kernel generic uniform pipe image2d_t sampler_t event_t uint uchar ushort
    ulong size_t ptrdiff_t intptr_t uintptr_t NULL INFINITY NAN M_PI main linux unix warpSize
    threadIdx blockIdx blockDim gridDim min max abs select step mix dot cross length distance sign
    barrier radians degrees clamp any all isnan isinf isfinite popcount clz rotate mad fma exp exp2
    exp10 log log2 log10 log1p pow pown powr sqrt rsqrt cbrt sin cos tan asin acos atan sinh cosh
    tanh asinh acosh atanh atan2 erf erfc ceil floor trunc round rint fmod fmin fmax fabs hypot
    copysign nextafter ldexp tgamma lgamma j0 j1 jn y0 y1 yn gamma remainder signbit printf assert
    bitselect shuffle vec_step convert as_float as_int abs_diff hadd rhadd upsample maxmag minmag
    fract modf frexp ilogb logb fdim nan remquo sincos expm1 exp2f expf logf sinf cosf sqrtf powf
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t prefetch
"""
RESERVED = frozenset(_KEYWORDS.split())
_VECTOR_TYPE = re.compile(
    r"(?:u?(?:char|short|int|long|longlong)|float|double|half|bool)(?:2|3|4|8|16)\Z"
)


def legal(hint: str) -> str:
    """`hint` as an identifier: whatever is not a letter or digit becomes one `_`."""
    name = _ILLEGAL.sub("_", hint).strip("_") or "v"
    if name[0].isdigit():
        name = f"v{name}"
    if name in RESERVED or _VECTOR_TYPE.match(name) or name.startswith(("tw_", "get_", "__")):
        name += "_"
    return name


class UniqueNames:
    """One name for each object, by identity; no name is given twice."""

    __slots__ = ("counts", "of", "taken")

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self.taken: set[str] = set(taken)
        self.counts: dict[str, int] = {}
        self.of: dict[Any, str] = {}

    def fresh(self, hint: str) -> str:
        """A name like `hint` that no other has."""
        base = legal(hint)
        number = self.counts.get(base, 0)
        name = base if number == 0 else f"{base}_{number}"
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.counts[base] = number + 1
        self.taken.add(name)
        return name

    def define(self, obj: Any, hint: str) -> str:
        """The new name of `obj`."""
        name = self.of[obj] = self.fresh(hint)
        return name
