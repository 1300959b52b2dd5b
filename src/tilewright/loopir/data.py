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

# the attribute of a kernel that names those of its parameters which may be anything
FREE_SCALARS = "tir.kernel_free_scalars"
_LEAVES = frozenset((E.Var, E.SizeVar))
_READS = frozenset((E.BufferLoad, ProducerLoad, Reduce, E.StringImm, E.FloatImm))


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
            if not x.op.row.index:
                return True
            stack += x.args[1:] if x.op.name == "tir.if_then_else" else x.args
        else:
            stack += CHILDREN[kind](x)
    return False


def data_lets(body: Any, known: Container[E.Var] = ()) -> set[E.Var]:
    """The variables of lets in a statement or expression that stand for data, or for what is
    computed from variables in `known`."""
    found: set[E.Var] = set()
    for x in nodes(body):
        if type(x) in (S.LetStmt, E.Let) and (is_data(x.value, found) or is_data(x.value, known)):
            found.add(x.var)
    return found


def unknown_divisors(func: S.PrimFunc) -> set[E.Var]:
    """The variables that may be zero, or -1, where a program divides by them: data, scalar
    arguments that are no size or stride of an array, and what is computed from these."""
    free = _free_scalars(func)
    return free | data_lets(func.body, free)


def _free_scalars(func: S.PrimFunc) -> set[E.Var]:
    named = func.attrs.get(FREE_SCALARS)
    if named is not None:
        return {p for p in func.params if p.name in named}
    sizes: set[Any] = set()
    for b in func.buffer_map.values():
        for e in (*b.shape, *b.strides, b.elem_offset):
            sizes.update(nodes(E.convert(e)))
    return {p for p in func.params if parse(p.dtype).is_integer and p not in sizes}


def divides(e: Any, unknown: Container[E.Var]) -> bool:
    """Whether the divisor of a division is neither 0, nor -1 (by which the smallest value has no
    quotient).

    So are constants, and indices by which indices are divided, but for variables in `unknown`: a
    program that divides by an index of 0 is wrong.
    """
    b = e.b.value if type(e.b) is E.Broadcast else e.b
    if type(b) is E.IntImm:
        return b.value not in (0, -1)
    return not is_data(e, unknown)
