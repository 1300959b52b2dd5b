"""Which lines of a function cost how much, estimated from its loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.expr import const_int
from ..loopir.iter import THREAD_KEYS
from ..loopir.visit import children, nodes

_FREE = (E.Var, E.SizeVar, E.IntImm, E.FloatImm, E.StringImm, E.Broadcast, E.Ramp)
_FLOPS = (E.Add, E.Sub, E.Mul, E.Div, E.Min, E.Max)


def work_text(flops: float) -> str:
    """Operations with the unit that suits them: "3.86 GFLOP", "307 kFLOP"."""
    return _amount(flops, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"))


def size_text(count: float) -> str:
    """Bytes with the unit that suits them: "97.5 MiB", "32 KiB"."""
    return _amount(count, 1024, ("bytes", "KiB", "MiB", "GiB", "TiB"))


def counted(number: float) -> str:
    """A number that people read: "950", "27,600", "62.3 million"."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{round(number):,}"


def _amount(value: float, step: int, units: Sequence[str]) -> str:
    k = 0
    while k + 1 < len(units) and value >= 0.9995 * step:
        value, k = value / step, k + 1
    return f"{value:.4g} {units[k]}" if value >= 1000 else f"{value:.3g} {units[k]}"


def line_weights(
    func: S.PrimFunc, places: Mapping[int, int], lines: int
) -> tuple[list[float], float]:
    """The share of each line (the first is at 0) in all operations of a function, and these.

    An operation is a node of an expression that is no constant or variable; a vector's counts one.
    A loop whose extent is not known counts one step, both sides of a condition count whole.
    """
    found = [0.0] * lines
    for s, times in executions(func.body):
        place = places.get(id(s), 0)
        if place:
            found[place - 1] += times * _operations(s)
    total = sum(found)
    return [w / total for w in found] if total else found, total


def executions(body: S.Stmt) -> list[tuple[S.Stmt, float]]:
    """Each statement below `body` with the number of times that it runs, as far as extents are
    constant."""
    found: list[tuple[S.Stmt, float]] = []
    stack: list[tuple[S.Stmt, float, frozenset[str]]] = [(body, 1.0, frozenset())]
    while stack:
        s, times, threads = stack.pop()
        found.append((s, times))
        inner = times
        if isinstance(s, S.For):
            inner *= const_int(s.extent) or 1
        elif isinstance(s, S.AttrStmt) and s.attr_key in THREAD_KEYS:
            tag = str(getattr(s.node, "thread_tag", ""))
            if tag not in threads:  # an axis that several parts bind is one
                inner *= const_int(s.value) or 1
                threads |= {tag}
        below = [c for c in children(s) if isinstance(c, S.Stmt)]
        stack.extend((c, inner, threads) for c in reversed(below))
    return found


def _operations(s: S.Stmt) -> int:
    own = [c for c in children(s) if isinstance(c, E.PrimExpr)]
    count = sum(1 for e in own for x in nodes(e) if not isinstance(x, _FREE))
    return count + (2 if isinstance(s, S.For) else 1 if isinstance(s, S.BufferStore) else 0)


def work_of_loops(func: S.PrimFunc) -> tuple[int, int]:
    """Operations on floats (on integers, where the function stores no floats) that the loops of a
    function carry out, and the bytes of its arguments, each once. (0, bytes) where extents are not
    constant."""
    stores = [(s, t) for s, t in executions(func.body) if isinstance(s, S.BufferStore)]
    floats = any(parse(s.value.dtype).is_float for s, _ in stores)
    total = 0.0
    for s, times in stores:
        total += times * sum(_flops(x, floats) for x in nodes(s.value))
    moved = 0
    for b in func.buffer_map.values():
        sizes = [const_int(d) for d in b.shape]
        if any(d is None for d in sizes):
            return 0, 0
        moved += math.prod(d or 0 for d in sizes) * parse(b.dtype).nbytes
    return int(total), moved


def _flops(e: Any, floats: bool) -> int:
    if type(e) not in _FLOPS:
        return 1 if isinstance(e, E.Call) and e.op.row.cost > 0 and _counts(e, floats) else 0
    return parse(e.dtype).lanes if _counts(e, floats) else 0


def _counts(e: Any, floats: bool) -> bool:
    return parse(e.dtype).is_float or not floats
