"""How operators are written, in Python and in languages like C, and what Python's stand for."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from . import expr as E

_ARITHMETIC: dict[type, str] = {E.Add: "+", E.Sub: "-", E.Mul: "*", E.Div: "/"}
COMPARE: dict[type, str] = {
    E.EQ: "==", E.NE: "!=", E.LT: "<", E.LE: "<=", E.GT: ">", E.GE: ">=",
}  # fmt: skip
IN_C = {**_ARITHMETIC, E.Mod: "%", **COMPARE}
IN_PYTHON = {
    **_ARITHMETIC, E.FloorDiv: "//", E.FloorMod: "%", **COMPARE, E.And: "and", E.Or: "or",
}  # fmt: skip
BITS = {
    "tir.bitwise_and": "&", "tir.bitwise_or": "|", "tir.bitwise_xor": "^",
    "tir.shift_left": "<<", "tir.shift_right": ">>",
}  # fmt: skip
"""Of calls, in both."""

Function = Callable[[Any, Any], Any]
OF_PYTHON: dict[type, Function] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
"""Operators in the text of programs."""
