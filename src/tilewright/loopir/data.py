"""Data and indices: which integer expressions may wrap (SEMANTICS.md, "Integers").

Data is what a program reads from memory or computes with floats, and what is computed from it.
All else is an index: loop variables, sizes, scalar arguments, constants, and what is computed from
these.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from ..base.dtype import parse
from . import expr as E
from . import stmt as S
from .iter import ProducerLoad, Reduce
from .visit import CHILDREN, nodes

_LEAVES = frozenset((E.Var, E.SizeVar))
_READS = frozenset((E.BufferLoad, ProducerLoad, Reduce, E.StringImm, E.FloatImm))
_NAMES = """
    likely if_then_else shift_left shift_right bitwise_and bitwise_or bitwise_xor bitwise_not
    popcount clz
"""
_INDEX_CALLS = frozenset(f"tir.{n}" for n in _NAMES.split())


def is_data(e: Any, lets: Container[E.Var] = ()) -> bool:
    """Whether an expression is data; `lets` are the variables that stand for data.

    A choice between indices by a condition on data is an index: it is one of them.
    """
    stack, seen = [e], set()
    while stack:
        x: Any = stack.pop()
        kind = type(x)
        if kind is E.IntImm or id(x) in seen:
            continue
        if kind in _LEAVES:
            if x in lets or parse(x.dtype).is_float:
                return True
            continue
        if kind in _READS or parse(x.dtype).is_float:
            return True
        seen.add(id(x))
        if kind is E.Select:
            stack += (x.true_value, x.false_value)
        elif kind is E.Call:
            if x.op.name not in _INDEX_CALLS:
                return True
            stack += x.args[1:] if x.op.name == "tir.if_then_else" else x.args
        else:
            stack += CHILDREN[kind](x)
    return False


def data_lets(body: Any) -> set[E.Var]:
    """The variables of lets in a statement or expression that stand for data."""
    found: set[E.Var] = set()
    for x in nodes(body):
        if type(x) in (S.LetStmt, E.Let) and is_data(x.value, found):
            found.add(x.var)
    return found


def free_scalars(func: S.PrimFunc) -> set[E.Var]:
    """Scalar arguments that are no size or stride of an array: they may be anything, zero too."""
    sizes: set[Any] = set()
    for b in func.buffer_map.values():
        for e in (*b.shape, *b.strides, b.elem_offset):
            sizes.update(nodes(E.convert(e)))
    return {p for p in func.params if parse(p.dtype).is_integer and p not in sizes}


def divides(b: Any, unknown: Container[E.Var]) -> bool:
    """Whether a divisor is neither 0, nor -1 (by which the smallest value has no quotient).

    So are constants, and indices but for variables in `unknown`: a program that divides by an index
    of 0 is wrong.
    """
    b = b.value if type(b) is E.Broadcast else b
    if type(b) is E.IntImm:
        return b.value not in (0, -1)
    return not is_data(b, unknown)
