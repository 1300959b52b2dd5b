"""On a device, some of many elements put one behind another, in their order: running sums say where
each goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..loopir import op as O
from ..loopir.expr import cast
from ..loopir.ir_builder import IRBuilder
from ..tensor.compute import compute
from ..tensor.tensor import Tensor
from .lines import each
from .scan import cumsum


def ranked(shape: tuple[Any, Any], holds: Callable[[Any, Any], Any]) -> list[Tensor]:
    """Of lines (count, length): 1 where an element is chosen, else 0; and how many are chosen
    before each; int32."""
    flags: Tensor = compute(shape, lambda b, j: cast("int32", holds(b, j)), "chosen", "injective")
    return [flags, cumsum(flags, 1, "int32", exclusive=True)]


def gather_chosen(
    ib: IRBuilder,
    shape: tuple[Any, Any, Any],
    ranks: tuple[Any, Any],
    move: Callable[[Any, Any, Any, Any], None],
    fill: Callable[[Any, Any, Any], None] | None = None,
    count: Callable[[Any, Any], None] | None = None,
) -> None:
    """A kernel that moves the numbers of chosen elements: `move(line, from, to, number)`.
    `fill(line, to, number)` is for what is behind them, `count(line, total)` learns how many there
    are. `shape`: lines, elements of each, numbers of an element; `ranks`: what `ranked` made."""
    lines, length, numbers = shape
    flags, before = ranks
    size = lines * length * numbers
    # a thread for each number: they write neighbours, and only one element each
    with each(ib, size, size) as n:
        b, j, k = n // (length * numbers), n // numbers % length, n % numbers
        with ib.if_scope(flags[b, j] > 0):
            move(b, j, before[b, j], k)
        total = before[b, length - 1] + flags[b, length - 1]
        if fill:
            with ib.if_scope(j >= total):
                fill(b, j, k)
        if count:
            with ib.if_scope(O.all(j < 1, k < 1)):
                count(b, total)
