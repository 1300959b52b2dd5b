"""What types and shapes functions of expressions and of tensors take and give: found by calling
them, so that the reference cannot say anything else than what they do."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

from tilewright import te, tir
from tilewright.loopir.expr import PrimExpr
from tilewright.tensor.tensor import Tensor

DTYPES = ("float16", "float32", "float64", "int8", "int32", "uint8", "bool")
_EXPRESSIONS = ("tilewright.te", "tilewright.tir")
_OPERATORS = ("tilewright.topi", "tilewright.topi.nn", "tilewright.topi.image")
_OPERANDS = ("Any", "ExprLike", "Tensor")
_SHAPES = ((2, 3), (4,), (1, 4, 6, 6), (1, 4, 6), (1, 4, 6, 6, 6))
"""Of tensors, in the order in which they are tried."""
_GIVEN: dict[str, Any] = {
    "axis": 0, "block_size": 2, "data_layout": "NCHW", "depth": 4, "dilation": 1, "epsilon": 1e-5,
    "groups": 1, "kernel": (2, 2), "kernel_layout": "OIHW", "layout": "NCHW", "newshape": (6,),
    "off_value": 0, "on_value": 1, "output_padding": (0, 0), "output_size": (1, 1), "padding": 0,
    "pool_size": (2, 2), "pool_type": "avg", "repeats": 2, "reps": (2, 2), "shape": (2, 3),
    "size": 3, "stride": 1, "strides": 1,
}  # fmt: skip
"""Values of other parameters."""


def types_of(module: str, function: Any) -> str:
    """A paragraph that says what comes of operands of each type, and of a shape; nothing of
    functions that need something else than `_GIVEN` has, or that none of the types fit."""
    name = getattr(function, "__name__", "")
    if not inspect.isfunction(function) or name.startswith("schedule"):
        return ""
    # functions of te and tir are described where they are first met, among others that write
    if module in _EXPRESSIONS or any(getattr(m, name, None) is function for m in (te, tir)):
        operands, others = _parameters(function, _OPERANDS)
        return "" if others else _paragraph(function, operands, {}, None)
    if module in _OPERATORS:
        operands, others = _parameters(function, ("Tensor",))
        if not operands and not others:
            return ""
        if not operands or not all(n in _GIVEN for n in others):
            operands, others = _parameters(function, _OPERANDS)
        if operands and all(n in _GIVEN for n in others):
            given = {n: _GIVEN[n] for n in others}
            texts = (_paragraph(function, operands, given, shape) for shape in _SHAPES)
            return next(filter(None, texts), "")
    return ""


def _parameters(function: Any, operands: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The parameters that have to be given: those that are operands by their type, and others."""
    needed = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    own = [p.name for p in needed if p.annotation in operands and p.name not in _GIVEN]
    return own, [p.name for p in needed if p.name not in own]


def _paragraph(
    function: Any, operands: list[str], given: dict[str, Any], shape: tuple[int, ...] | None
) -> str:
    if not operands:
        return ""
    found: dict[tuple[str, str], list[str]] = {}
    refused: list[str] = []
    for dtype in DTYPES:
        result = _called(function, {n: _operand(n, dtype, shape) for n in operands} | given)
        if result is None:
            refused.append(dtype)
        else:
            what = "the same type" if result[0] == dtype else result[0]
            found.setdefault((what, result[1]), []).append(dtype)
    if not found:
        return ""
    parts = [
        f"{', '.join(taken)} give{'s' * (len(taken) == 1)} {what}"
        for (what, _), taken in found.items()
    ]
    parts += [f"refused: {', '.join(refused)}"] if refused else []
    shapes = {made for _, made in found if made}
    parts += [f"shape {shape} gives {shapes.pop()}"] if len(shapes) == 1 else []
    how = ", ".join(f"{n}={value!r}" for n, value in given.items())
    return f"*Types{f' (with {how})' if how else ''}: {'; '.join(parts)}.*"


def _operand(name: str, dtype: str, shape: tuple[int, ...] | None) -> Any:
    return te.var(name, dtype) if shape is None else te.placeholder(shape, dtype, name=name)


def _called(function: Any, arguments: dict[str, Any]) -> tuple[str, str] | None:
    """The type and the shape of what comes of operands; None where they are refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(**arguments)
    except Exception:  # whatever it does not take; tests/errors has how that is said
        return None
    if isinstance(result, Tensor):
        return result.dtype, f"({', '.join(map(str, result.shape))}{',' * (result.ndim == 1)})"
    return (result.dtype, "") if isinstance(result, PrimExpr) and result.dtype else None
