"""tir.if_then_else: only the side that is chosen may be evaluated.

What is read beside zero for all lanes of a vector, as at the edges of images, needs no branch: an
address is chosen.
"""

from __future__ import annotations

from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir.expr import const_int
from ...loopir.op_table import CHEAP
from ...loopir.visit import CHILDREN
from .emitter import Emitter
from .memory import load_or_zero

_CHEAP = 16  # nodes that are rather evaluated in vain than branched around
_ADDRESS = 64  # nodes of an index, most of which its neighbours share
_DIVISIONS = (E.Div, E.Mod, E.FloorDiv, E.FloorMod)


def if_then_else(f: Emitter, e: E.Call) -> str:
    """A select where both sides are harmless; else a branch, or masked reads for vector
    conditions."""
    condition, a, b = e.args
    if isinstance(condition, E.IntImm):
        return f.expr(a if condition.value else b)
    test = f.expr(condition)
    lanes = parse(condition.dtype).lanes
    kind = f.type(e.dtype)
    if _harmless(a) and _harmless(b):
        return f.op(
            f"select {f.type(condition.dtype)} {test}, {kind} {f.expr(a)}, {kind} {f.expr(b)}"
        )
    if lanes == 1:
        spread = e is f.spread  # others are passed over, or LLVM takes them out of loops
        value = _beside_zero(f, test, a, b) if spread else None
        return _branch(f, test, a, b, kind) if value is None else value
    outer = f.mask
    bits = f"<{lanes} x i1>"
    ones = f.splat("true", "i1", lanes)
    f.mask = (_and(f, test, outer, bits, lanes), lanes)
    yes = f.expr(a)
    f.mask = (_and(f, f.op(f"xor {bits} {test}, {ones}"), outer, bits, lanes), lanes)
    no = f.expr(b)
    f.mask = outer
    return f.op(f"select {bits} {test}, {kind} {yes}, {kind} {no}")


def _and(f: Emitter, test: str, outer: tuple[str, int] | None, bits: str, lanes: int) -> str:
    if outer is None:
        return test
    operand = outer[0] if outer[1] == lanes else f.splat(outer[0], "i1", lanes)
    return f.op(f"and {bits} {test}, {operand}")


def _beside_zero(f: Emitter, test: str, a: E.PrimExpr, b: E.PrimExpr) -> str | None:
    """A number that is read, or zero, without a branch; None where it is something else."""
    if type(a) is not E.BufferLoad or not _is_zero(b):
        return None
    return load_or_zero(f, a, test) if all(_harmless(i, _ADDRESS) for i in a.indices) else None


def _branch(f: Emitter, test: str, a: E.PrimExpr, b: E.PrimExpr, kind: str) -> str:
    then, other, after = f.label("then"), f.label("else"), f.label("join")
    f.branch_if(test, then, other)
    f.block(then)
    with f.scope(expression=True):
        yes = f.expr(a)
    yes_end = f.current
    f.branch(after)
    f.block(other)
    with f.scope(expression=True):
        no = f.expr(b)
    no_end = f.current
    f.branch(after)
    f.block(after)
    return f.effect(f"phi {kind} [ {yes}, %{yes_end} ], [ {no}, %{no_end} ]")


def _is_zero(e: E.PrimExpr) -> bool:
    """Whether an expression is the number of which all bits are zero, in each lane."""
    while type(e) is E.Broadcast:
        e = e.value
    return isinstance(e, (E.IntImm, E.FloatImm)) and e.value == 0 and str(float(e.value)) == "0.0"


def _defined(e: E.Div | E.Mod | E.FloorDiv | E.FloorMod) -> bool:
    """Whether a division has a result whatever its operands are."""
    return parse(e.dtype).is_float or (const_int(e.b) or 0) > 0


def _harmless(e: E.PrimExpr, left: int = _CHEAP) -> bool:
    """Whether an expression may be evaluated although it is not needed: short, without reads,
    integer divisions by what may be zero, and calls that cost or do something."""
    stack = [e]
    while stack:
        x = stack.pop()
        left -= 1
        kind = type(x)
        if left < 0 or kind is E.BufferLoad:
            return False
        if isinstance(x, _DIVISIONS) and not _defined(x):
            return False
        if isinstance(x, E.Call) and (x.op.row.cost > CHEAP or x.op.name == "tir.if_then_else"):
            return False
        stack.extend(CHILDREN[kind](x))
    return True
