"""How many operations of each class one run of a statement does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir.effects import CallEffectKind, effect_of
from ...loopir.iter import ProducerLoad
from ...loopir.visit import children
from .columns import OPERATIONS

Counts = dict[str, int]

_CLASS: dict[type, str] = {
    **dict.fromkeys((E.Add, E.Sub), "addsub"),
    E.Mul: "mul",
    **dict.fromkeys((E.Div, E.Mod, E.FloorDiv, E.FloorMod), "divmod"),
    **dict.fromkeys((E.Min, E.Max), "cmp"),
}
_COMPARE = (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE)
_BOOL = (E.And, E.Or, E.Not)


def count_operations(value: Any) -> Counts:
    """Operations of a stored value, by class (see columns.OPERATIONS).

    Arithmetic on loop variables alone is left out, in indices and elsewhere: it depends on how
    loops are split, and most of it leaves the loop when code is made.
    """
    counts = dict.fromkeys(OPERATIONS, 0)
    reads: dict[int, bool] = {}
    stack = [value]
    while stack:
        e = stack.pop()
        _count(e, counts, lambda x: _reads(x, reads))
        if not isinstance(e, (ProducerLoad, E.BufferLoad)):
            stack.extend(children(e))
    return counts


def _count(e: Any, counts: Counts, reads: Callable[[Any], bool]) -> None:
    kind = _CLASS.get(type(e))
    if kind is not None:
        if parse(e.dtype).is_float:
            counts[f"float_{kind}"] += 1
        elif reads(e):
            counts[f"int_{kind}"] += 1
    elif isinstance(e, _COMPARE):
        counts["float_cmp" if parse(e.a.dtype).is_float else "int_cmp"] += 1
    elif isinstance(e, _BOOL):
        counts["bool_op"] += 1
    elif isinstance(e, E.Select):
        counts["select_op"] += 1
    elif isinstance(e, E.Call):
        _count_call(e, counts)


def _count_call(e: E.Call, counts: Counts) -> None:
    if e.op.name == "tir.if_then_else":
        counts["select_op"] += 1
        return
    if e.op.name == "tir.likely":
        return
    number = "float" if parse(e.dtype).is_float else "int"
    pure = effect_of(e.op) <= CallEffectKind.Pure
    counts[f"{number}_{'math' if pure else 'other'}_func"] += 1


def _reads(e: Any, known: dict[int, bool]) -> bool:
    """Whether an expression reads a tensor."""
    found = known.get(id(e))
    if found is None:
        is_read = isinstance(e, (ProducerLoad, E.BufferLoad))
        found = known[id(e)] = is_read or any(_reads(c, known) for c in children(e))
    return found
