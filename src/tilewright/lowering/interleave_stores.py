"""Store in whole vectors what several strided ones store between each other.

    y[b:b + 4 * n:4] = r0
    y[b + 1:b + 1 + 4 * n:4] = r1      =>      t0, t1 = lanes of r0 and r2, of r1 and r3, by turns
    y[b + 2:b + 2 + 4 * n:4] = r2              y[b:b + 4 * n] = lanes of t0 and t1, by turns
    y[b + 3:b + 3 + 4 * n:4] = r3

A strided vector is stored element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arith.analyzer import Analyzer
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.effects import CallEffectKind, side_effect
from ..loopir.equal import structural_equal
from ..loopir.expr import const, const_int
from ..loopir.visit import walk
from .options import LowerOptions
from .store_runs import RunsOfStores


def interleave_stores(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Rewrite runs of n stores of which the k-th is to y[b + k:b + k + n * m:n], n being a power of
    two above 1. They store the same lanes (all of them, where the target has no instruction for
    some lanes of bytes), and what they store has no effects and reads nothing of the buffer.

    Needs flat buffers, constant strides and arguments that do not overlap. Stands with turn_loads,
    which does the same for loads, where stores are side by side. GPUs store what threads hold.
    """
    on_gpu = options.target is not None and "gpu" in options.target.keys
    if options.simple_mode or on_gpu or not func.attrs.get("tir.noalias", True):
        return func
    masks = options.target is not None and options.target.capabilities.masked_bytes == 1
    return func.with_body(_Interleaver(masks).stmt(func.body))


class _Interleaver(RunsOfStores):
    def __init__(self, masks: bool) -> None:
        self.analyzer, self.masks = Analyzer(), masks

    def length(self, first: S.Stmt) -> int:
        return _stride(first)

    def replaced(self, run: Sequence[Any], length: int) -> S.Stmt | None:
        return _together(run) if len(run) == length and self._is_run(run, length) else None

    def _is_run(self, run: Sequence[Any], stride: int) -> bool:
        """Whether stores of one stride go side by side."""
        if any(_stride(x) != stride for x in run):
            return False
        first, mask = run[0].indices[0], run[0].predicate
        if mask is not None and not self.masks:
            return False
        if not all(x.predicate is mask or _same(x.predicate, mask) for x in run):
            return False
        for k, x in enumerate(run):
            at = x.indices[0]
            alike = x.buffer is run[0].buffer and at.lanes == first.lanes
            if not alike or const_int(self.analyzer.simplify(at.base - first.base)) != k:
                return False
            if side_effect(x.value) > CallEffectKind.ReadState:
                return False
        data = run[0].buffer.data
        loads = [e for x in run for e in walk(x.value) if type(e) is E.BufferLoad]
        return all(e.buffer.data is not data for e in loads)


def _stride(s: Any) -> int:
    """The stride of a vector that a statement stores, if it is a power of two above 1; or 0."""
    if type(s) is not S.BufferStore or len(s.indices) != 1:
        return 0
    at: Any = s.indices[0]
    if type(at) is not E.Ramp or s.value.dtype == "bool":
        return 0
    stride = const_int(at.stride) or 0
    return stride if stride > 1 and stride & (stride - 1) == 0 else 0


def _same(a: Any, b: Any) -> bool:
    return a is not None and b is not None and structural_equal(a, b)


def _together(run: Sequence[Any]) -> S.Stmt:
    """One store in the place of several."""
    buffer, first = run[0].buffer, run[0].indices[0]
    bindings: list[tuple[E.Var, Any]] = []

    def bind(value: Any) -> E.Var:
        bindings.append((E.Var(f"{buffer.name}_lanes", value.dtype), value))
        return bindings[-1][0]

    parts = [bind(x.value) for x in run]
    lanes = first.lanes
    while len(parts) > 1:
        half = len(parts) // 2
        order = [x for k in range(lanes) for x in (k, lanes + k)]
        parts = [bind(E.Shuffle([parts[k], parts[k + half]], order)) for k in range(half)]
        lanes *= 2
    place = E.Ramp(first.base, const(1, first.base.dtype), lanes)
    mask = run[0].predicate
    if mask is not None:
        mask = E.Shuffle([mask], [k for k in range(first.lanes) for _ in run])
    body: S.Stmt = S.BufferStore(buffer, parts[0], [place], mask)
    for var, value in reversed(bindings):
        body = S.LetStmt(var, value, body)
    return body
