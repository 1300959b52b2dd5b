"""What a hybrid script calls when it runs as Python on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from ...target.target import Target


def bind(_: str, ext: int) -> range:
    """The steps of a loop that threads of a tag would share out."""
    return range(int(ext))


def allocate(shape: Any, dtype: Any = "float32", scope: str = "global") -> np.ndarray[Any, Any]:
    """An array for values on the way."""
    return np.zeros(tuple(int(d) for d in shape), dtype)


def output_tensor(shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """An array of results."""
    return allocate(shape, dtype)


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""
    return 1.0 / np.sqrt(x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + np.exp(-x))


def popcount(x: Any) -> int:
    """How many bits of an integer are set."""
    return int(x).bit_count() if x >= 0 else (int(x) & 0xFFFFFFFF).bit_count()


def likely(cond: Any) -> Any:
    """The condition itself."""
    return cond


def ceil_div(a: Any, b: Any) -> Any:
    """a / b, rounded up."""
    return -(-a // b)


def max_num_threads(allow_none: bool = True) -> int:
    """Most threads of a block of the current target; 1 without one (if that is allowed)."""
    target = Target.current(allow_none=bool(allow_none))
    return 1 if target is None else target.max_num_threads


_TYPES = (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
)
HYBRID_GLOBALS: dict[str, Any] = {
    **dict.fromkeys(("unroll", "vectorize", "parallel", "serial", "const_range"), range),
    "bind": bind,
    "allocate": allocate,
    "output_tensor": output_tensor,
    "sqrt": np.sqrt,
    "rsqrt": rsqrt,
    "log": np.log,
    "tanh": np.tanh,
    "power": np.power,
    "exp": np.exp,
    "sigmoid": sigmoid,
    "popcount": popcount,
    "round": np.round,
    "likely": likely,
    "ceil_div": ceil_div,
    "max_num_threads": max_num_threads,
    **{name: getattr(np, name) for name in _TYPES if name != "bool"},
}
"""Names that a script may use, as they run in Python."""


def emulate(
    function: Callable[..., Any], args: tuple[Any, ...], more: Mapping[str, Any] | None = None
) -> Any:
    """Call a script as Python, with the names above known to it; its own module stays as it is."""
    if not isinstance(function, FunctionType):
        return function(*args)
    known = {**function.__globals__, **HYBRID_GLOBALS, **(more or {})}
    made = FunctionType(
        function.__code__, known, function.__name__, function.__defaults__, function.__closure__
    )
    return made(*args)
