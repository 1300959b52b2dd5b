"""Operator library: computations and default schedules, under TVM's names.

`topi.nn.conv2d_nchw(data, kernel, ...)`, `topi.add(a, b)`,
`topi.default_schedule(out, target)`, ...
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_ELEMWISE = (
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atanh", "cast", "ceil", "clip",
    "cos", "cosh", "divide", "elemwise_sum", "equal", "erf", "exp", "exp2", "floor",
    "floor_divide", "floor_mod", "full", "full_like",
    "greater", "greater_equal", "identity", "isfinite", "isinf", "isnan", "less", "less_equal",
    "log", "log10", "log2", "maximum", "minimum", "multiply", "negative", "not_equal", "power",
    "round", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "subtract", "tan", "tanh", "trunc",
    "where",
)  # fmt: skip
_TRANSFORM = (
    "broadcast_to", "take",
    "concatenate", "expand_dims", "flatten", "pack_channels", "pad", "reshape", "squeeze",
    "strided_slice", "transpose", "unpack_channels",
)  # fmt: skip
_HOMES = {
    **dict.fromkeys(_ELEMWISE, "elemwise"),
    **dict.fromkeys(_TRANSFORM, "transform"),
    **dict.fromkeys(("argmax", "argmin", "max", "mean", "min", "prod", "sum"), "reduction"),
    "batch_matmul": "nn.dense",
    "matmul": "nn.dense",
    "default_schedule": "schedules.default",
}

__all__ = [*_HOMES, "cuda", "generic", "nn", "schedules", "tensor_intrin", "testing", "utils"]


def __getattr__(name: str) -> Any:
    rooms = ("cuda", "generic", "nn", "schedules", "tensor_intrin", "testing", "utils")
    if name in rooms:
        return import_module(f"{__name__}.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    own = "plain_matmul" if name == "matmul" else name
    value = getattr(import_module(f"{__name__}.{home}"), own)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
