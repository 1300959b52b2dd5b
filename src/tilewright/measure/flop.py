"""How many arithmetic operations a computation needs, read off its tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.iter import ProducerLoad, Reduce
from ..loopir.visit import CHILDREN
from ..tensor.op import (
    BaseComputeOp,
    ComputeOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    domain,
    post_order,
)

_ARITHMETIC = frozenset(
    (E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max)
    + (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE)
)


def count_flop(outputs: Iterable[Operation]) -> int:
    """Operations on elements that computing `outputs` takes, each element of each stage once.

    Arithmetic, comparisons and calls of functions count one each, a multiply-add two; of float
    results only float operations count, so that indices and bounds cost nothing. A matrix product
    of n, m, k counts 2 n m k. An operation's attribute "FLOP" says how many it takes instead.
    TilewrightError for extents that are not constant and for computations that are not written as
    expressions (give the attribute, or `cfg.add_flop(...)`, there).
    """
    return sum(map(op_flop, post_order(list(outputs))))


def op_flop(op: Operation) -> int:
    """The operations that `op` itself takes; see `count_flop`."""
    given = op.attrs.get("FLOP")
    if given is not None:
        return _given(op, given)
    if isinstance(op, ComputeOp):
        return _size(op) * _op_cost(op)
    if isinstance(op, (PlaceholderOp, ScanOp)):  # a scan's steps are stages of their own
        return 0
    raise TilewrightError(
        f"cannot count the operations of {op.name}, a {op.kind} operation; say how many there are "
        'with its attribute "FLOP" or with cfg.add_flop(...)'
    )


def _given(op: Operation, given: Any) -> int:
    value = getattr(given, "value", given)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise TilewrightError(
            f'{op.name}: the attribute "FLOP" is a number of operations, got {given!r}'
        )
    return int(value)


def _size(op: BaseComputeOp) -> int:
    size = 1
    for axis in (*op.axis, *op.reduce_axis):
        extent = domain(axis).extent
        if not isinstance(extent, E.IntImm):
            raise TilewrightError(
                f"cannot count the operations of {op.name}: the extent {extent} of "
                f"{axis.var.name} is not constant"
            )
        size *= extent.value
    return size


def _op_cost(op: ComputeOp) -> int:
    floats = parse(op.output_dtype(0)).is_float
    first = op.body[0]
    if isinstance(first, Reduce):
        parts: list[Any] = [*first.combiner.result, *first.source]
        if not (isinstance(first.condition, E.IntImm) and first.condition.value):
            parts.append(first.condition)
    else:
        parts = list(op.body)
    seen: set[int] = set()
    total = 0
    while parts:
        e = parts.pop()
        if id(e) in seen:  # a shared part is computed once
            continue
        seen.add(id(e))
        kind = type(e)
        if kind is ProducerLoad:
            continue  # indices are for the compiler to compute
        children = CHILDREN[kind](e)
        if kind in _ARITHMETIC:
            total += parse(children[0].dtype).is_float or not floats
        elif kind is E.Call:
            total += e.op.row.cost > 0 and (parse(e.dtype).is_float or not floats)
        parts.extend(children)
    return total
