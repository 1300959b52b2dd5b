"""Whether a statement may write its result over its operand."""

from __future__ import annotations

from typing import Any

from ..arith.iter_affine_map import detect_iter_map
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.equal import structural_equal
from ..loopir.iter import Range
from ..loopir.visit import CHILDREN, walk


def may_write_over(s: Any, result: E.Var, operand: E.Var) -> bool:
    """Whether `s`, a store or a loop, computes each element of `result` once, from the element of
    `operand` at the same place alone: then both can be one memory."""
    loops: dict[E.Var, Range] = {}
    while type(s) is S.For and s.kind != S.ForKind.THREAD_BINDING:
        loops[s.loop_var] = Range.from_min_extent(s.min, s.extent)
        s = s.body
    if type(s) is not S.BufferStore or s.buffer.data is not result or len(s.indices) != 1:
        return False
    if s.predicate is not None or any(_touches(i, result, operand) for i in s.indices):
        return False
    if not _reads_there(s.value, result, operand, s.indices[0]):
        return False
    if all(E.const_int(r.extent) == 1 for r in loops.values()):
        return True
    return bool(detect_iter_map(s.indices, loops, True, "bijective").indices)


def _touches(e: Any, *memory: E.Var) -> bool:
    return any(x in memory or _data(x) in memory for x in walk(e))


def _data(x: Any) -> Any:
    return x.buffer.data if type(x) is E.BufferLoad else None


def _reads_there(e: Any, result: E.Var, operand: E.Var, place: Any) -> bool:
    """Whether `e` reads the operand at `place` only, and takes no address of either memory."""
    stack = [e]
    while stack:
        x = stack.pop()
        if x is result or x is operand or _data(x) is result:
            return False
        if _data(x) is operand:
            if len(x.indices) != 1 or not structural_equal(x.indices[0], place):
                return False
            continue
        stack.extend(CHILDREN[type(x)](x))
    return True
