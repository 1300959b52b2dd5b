"""What types and shapes functions of expressions and of tensors take and give: found by calling
them, so that the reference cannot say anything else than what they do."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from tilewright import te, tir
from tilewright.base.errors import TilewrightError
from tilewright.loopir.expr import PrimExpr
from tilewright.tensor.tensor import Tensor

DTYPES = ("float16", "float32", "float64", "int8", "int32", "uint8", "bool")
SHAPE = (2, 3)
_EXPRESSIONS = ("tilewright.te", "tilewright.tir")
_TENSORS = ("tilewright.topi", "tilewright.topi.nn")
_OPERANDS = ("Any", "ExprLike", "Tensor")
_MOST = 3


def types_of(module: str, function: Any) -> str:
    """A paragraph that says what comes of each type, and of a shape; nothing of functions that do
    not take operands alone, or that none of the types fit."""
    operand = _operand(module, function)
    if operand is None or not inspect.isfunction(function):
        return ""
    count = _operands(function)
    if not 1 <= count <= _MOST:
        return ""
    found: dict[tuple[str, str], list[str]] = {}
    refused: list[str] = []
    for dtype in DTYPES:
        result = _called(function, [operand(dtype, k) for k in range(count)])
        if result is None:
            refused.append(dtype)
        else:
            given = "the same type" if result[0] == dtype else result[0]
            found.setdefault((given, result[1]), []).append(dtype)
    if not found:
        return ""
    parts = [
        f"{', '.join(taken)} give{'s' * (len(taken) == 1)} {given}"
        for (given, _), taken in found.items()
    ]
    parts += [f"refused: {', '.join(refused)}"] if refused else []
    shapes = {shape for _, shape in found if shape}
    parts += [f"shape {SHAPE} gives {shapes.pop()}"] if len(shapes) == 1 else []
    return f"*Types: {'; '.join(parts)}.*"


def _operand(module: str, function: Any) -> Callable[[str, int], Any] | None:
    """What makes an operand of a type for a function of a module. Functions of te and tir are
    described where they are first met, among others that write statements."""
    name = getattr(function, "__name__", "")
    if module in _EXPRESSIONS or any(getattr(m, name, None) is function for m in (te, tir)):
        return lambda dtype, k: te.var(f"x{k}", dtype)
    if module in _TENSORS:
        return lambda dtype, k: te.placeholder(SHAPE, dtype, name=f"x{k}")
    return None


def _operands(function: Any) -> int:
    """How many operands a function has; 0 where it needs something else, too."""
    empty = inspect.Parameter.empty
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is empty]
    plain = all(
        p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and p.annotation in _OPERANDS
        for p in needed
    )
    return len(needed) if plain else 0


def _called(function: Any, operands: list[Any]) -> tuple[str, str] | None:
    """The type and the shape of what comes of operands; None where they are refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*operands)
    except (TilewrightError, TypeError, ValueError):
        return None
    if isinstance(result, Tensor):
        return result.dtype, f"({', '.join(map(str, result.shape))}{',' * (result.ndim == 1)})"
    return (result.dtype, "") if isinstance(result, PrimExpr) and result.dtype else None
