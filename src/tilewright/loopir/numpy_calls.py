"""What NumPy's functions do where an expression stands among their operands.

`np.float32(2) * x` asks here first, and so does `np.exp(x)`, which has no answer: NumPy computes
with numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_OPERATORS = {
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "true_divide": ("__truediv__", "__rtruediv__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__"),
    "remainder": ("__mod__", "__rmod__"),
    "left_shift": ("__lshift__", "__rlshift__"),
    "right_shift": ("__rshift__", "__rrshift__"),
    "bitwise_and": ("__and__", "__rand__"),
    "bitwise_or": ("__or__", "__ror__"),
    "bitwise_xor": ("__xor__", "__rxor__"),
}
_COMPARISONS = {
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
}
_OF_OBJECTS = (*_OPERATORS, *_COMPARISONS, "negative", "invert", "bitwise_not")


def by_operator(
    own: Any, ufunc: Any, method: str, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """The operator of `own`, one of two operands, with the other as it is: a scalar of NumPy's
    brings its type along. TypeError for functions that are no operators."""
    names = _OPERATORS.get(ufunc.__name__) or _COMPARISONS.get(ufunc.__name__)
    if names is None or method != "__call__" or options or len(inputs) != 2:
        raise _no_number(ufunc)
    left, right = inputs
    found = getattr(own, names[0])(right) if left is own else getattr(own, names[1])(left)
    if found is not NotImplemented:
        return found
    if ufunc.__name__ in ("equal", "not_equal"):
        return ufunc.__name__ == "not_equal"  # as Python has it of things that do not compare
    raise _no_number(ufunc)


def by_element(
    own: Any, ufunc: Any, method: str, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """What NumPy makes of objects: operators of each element of an array with `own`; a comparison
    with a scalar is an expression, which NumPy would take for a truth value. TypeError for
    functions that are no operators."""
    if ufunc.__name__ not in _OF_OBJECTS:
        raise _no_number(ufunc)
    if ufunc.__name__ in _COMPARISONS and all(np.ndim(x) == 0 for x in inputs if x is not own):
        return by_operator(own, ufunc, method, inputs, options)
    return getattr(ufunc, method)(*(_box(x) if x is own else x for x in inputs), **options)


def _box(value: Any) -> np.ndarray[Any, Any]:
    """An array without dimensions that holds an object, whatever it is like."""
    box = np.empty((), object)
    box[()] = value
    return box


def _no_number(ufunc: Any) -> TypeError:
    return TypeError(
        f"np.{ufunc.__name__} computes with numbers, and an expression has none yet. Functions of "
        "expressions are those of te and tir (te.exp, te.sqrt, te.if_then_else, tir.max, ...), of "
        "whole tensors those of topi"
    )
