"""Names of the C library: which of its files has a function, in which version, and how the loader
hashes names."""

from __future__ import annotations

from .elf import AARCH64, X86_64

_MATH = """
        acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10
    exp2 expm1     fabs fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint
    llround log log10 log1p     log2 logb lrint lround modf nearbyint nextafter pow remainder
    remquo rint round roundeven scalbln     scalbn sin sincos sinh sqrt tan tanh tgamma trunc
"""
_IN_LIBM = frozenset(name + kind for name in _MATH.split() for kind in ("", "f", "l"))

VERSIONS: dict[int, dict[str, str]] = {
    # x86-64 has two kinds of conditions, and of what says which cores a thread may use; a name
    # without a version gets the older one, which is slower, or takes other arguments
    X86_64: {
        f"pthread_cond_{what}": "GLIBC_2.3.2"
        for what in ("init", "destroy", "wait", "timedwait", "signal", "broadcast")
    }
    | {f"sched_{what}affinity": "GLIBC_2.3.4" for what in ("get", "set")},
    AARCH64: {},
}
"""Versions to ask for, of functions of which the C library has several that differ."""


def library_of(name: str) -> str:
    """The shared library that an undefined name is looked for in."""
    return "libm.so.6" if name in _IN_LIBM else "libc.so.6"


def hash_name(name: str) -> int:
    """The hash of a name in the tables of the System V ABI (figure 5-13)."""
    h = 0
    for c in name.encode():
        h = (h << 4) + c
        h = (h ^ (h & 0xF0000000) >> 24) & 0x0FFFFFFF
    return h
