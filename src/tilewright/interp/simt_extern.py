"""What functions known by name mean: those of CUDA, OpenCL and C, and users' own.

`register_simt` adds to the table. Names are looked up as they stand in the program: the first
argument of `call_extern` or `call_pure_extern`, or the name of a user's op with or without "tir.".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import numpy_forms as forms
from . import np_ops
from .simt_integers import INTEGERS

Function = Callable[..., Any]

_table: dict[str, Function] = {}


def register_simt(name: str, f: Function | None = None) -> Any:
    """Say what a function or op means in simt: `f(*values)`, or a decorator without `f`.

    Values are NumPy scalars, or arrays with one element for each thread (for vectors of n, of shape
    (n, threads)), in the types of the program; `f` works on each element alone and gives a value
    that broadcasts against them. The result is converted to the type of the call. A later
    registration replaces an earlier one, and a built-in meaning.

    >>> register_simt("my_relu", lambda x: np.maximum(x, 0))  # doctest: +SKIP

    Raises TilewrightError where name is not text.
    """
    if not isinstance(name, str):
        raise TilewrightError(f"register_simt takes the name of a function, got {name!r}")

    def register(function: Function) -> Function:
        if not callable(function):
            raise TilewrightError(f"register_simt of {name!r} takes a function, got {function!r}")
        _table[name] = function
        return function

    return register if f is None else register(f)


def find(name: str) -> Function | None:
    """What users registered for a name, with or without "tir."."""
    own = _table.get(name)
    return own if own is not None else _table.get(name.removeprefix("tir."))


def lookup(name: str, dtype: str, where: str) -> Function:
    """The meaning of a function by name; raises TilewrightError, which says how to add it."""
    own = find(name) or _PLAIN.get(name)
    if own is not None:
        return own
    plain = canonical_math(name)
    if plain is not None and parse(dtype).is_float:
        element = parse(dtype).element
        return lambda *values: np_ops.call(plain, list(values), element)
    if name in _LOWERED:
        raise TilewrightError(
            f"simt runs kernels as the device passes leave them, without {name}: {where}"
        )
    raise TilewrightError(
        f"simt does not know the function {name!r} in {where}; say what it means on NumPy arrays: "
        f"tilewright.register_simt({name!r}, lambda *values: ...)"
    )


_LOWERED = ("tir.tvm_thread_allreduce", "tir.call_kernel", "tir.ret", "tir.thread_return")
_PREFIXES = ("__n", "__", "native_", "half_", "fast_", "fast", "h2", "h")
_OTHER_NAMES = {
    "rint": "nearbyint",
    "rintf": "nearbyint",
    "hrint": "nearbyint",
    "h2rint": "nearbyint",
    "fabsf": "fabs",
    "__habs": "fabs",
    "mad": "fma",
    "powr": "pow",
    "pown": "pow",
    "__hfma": "fma",
    "__fmaf_rn": "fma",
    "__fsqrt_rn": "sqrt",
    "__frsqrt_rn": "rsqrt",
}


def canonical_math(name: str) -> str | None:
    """The operation of np_ops.MATH that a C, CUDA or OpenCL function computes, or None."""
    for candidate in _spellings(name):
        if candidate in np_ops.MATH:
            return candidate
    return None


def _spellings(name: str) -> list[str]:
    other = _OTHER_NAMES.get(name)
    if other is not None:
        return [other]
    found = [name]
    found += [name[len(p) :] for p in _PREFIXES if name.startswith(p)]
    found += [n[:-1] for n in list(found) if n.endswith("f")]
    return found


def _isnan(x: Any) -> Any:
    return np.isnan(np.asarray(x, np.float64))


def _exp2(x: Any) -> Any:
    """2 to the power of x, with zeros for denormal results."""
    power = np.exp2(np.asarray(x, np.float32))
    return np.where(power < np.finfo(np.float32).tiny, np.float32(0), power)


_PLAIN: dict[str, Function] = {
    **INTEGERS,
    **dict.fromkeys(("fmaxf", "fmax", "__hmax"), np.fmax),
    **dict.fromkeys(("fminf", "fmin", "__hmin"), np.fmin),
    **dict.fromkeys(("max", "__hmax_nan"), np.maximum),
    **dict.fromkeys(("min", "__hmin_nan"), np.minimum),
    "abs": np.abs,
    **dict.fromkeys(("__fdividef", "fdividef", "__hdiv", "native_divide"), np.true_divide),
    **dict.fromkeys(("__frcp_rn", "native_recip", "half_recip"), lambda x: 1 / x),
    **dict.fromkeys(("__hadd", "__fadd_rn"), np.add),
    **dict.fromkeys(("__hsub", "__fsub_rn"), np.subtract),
    **dict.fromkeys(("__hmul", "__fmul_rn"), np.multiply),
    "isnan": _isnan,
    **dict.fromkeys(("__float2half", "__float2half_rn", "__half2float"), lambda x: x),
    **dict.fromkeys(("__popc", "__popcll"), forms.popcount),
    **dict.fromkeys(("__clz", "__clzll"), forms.clz),
    "tw_exp2": _exp2,
    **dict.fromkeys(("__saturatef",), lambda x: np.clip(x, 0, 1)),
}
