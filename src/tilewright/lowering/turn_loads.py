"""Turn squares of memory in registers: vectors of columns become vectors of rows and shuffles.

    y[0:4] = f(a[0:4*n:n])            r0 = a[0:4]; r1 = a[n:n+4]; r2 = ...; r3 = ...
    y[m:m+4] = f(a[1:1+4*n:n])   =>   t0, t1, t2, t3 = the columns of r0, r1, r2, r3
    ...                               y[0:4] = f(t0); y[m:m+4] = f(t1); ...

A strided vector is loaded element by element. Of n vectors of n lanes, side by side, the rows are
as many whole vectors, and log2(n) shuffles of pairs of them give the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arith.analyzer import Analyzer
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.effects import CallEffectKind, side_effect
from ..loopir.expr import const, const_int
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import walk
from ..target.capability import OWN_BYTES
from .options import LowerOptions
from .store_runs import RunsOfStores

LEAST = 4
"""Lanes: of fewer, the loads of single elements are as many as the shuffles."""


def turn_loads(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Rewrite runs of n stores that read a[b + k:b + k + n * s:s] in the k-th one, n being a power
    of two and s > 1 known. Such a run writes no buffer that is read so, loads have no predicates,
    and what it computes has no effects. The same elements are read.

    Needs flat buffers, constant strides and arguments that do not overlap. Stands after
    unroll_loops, which puts the stores side by side, and before eliminate_common, whose names would
    hide that places are neighbours. GPUs turn squares through their shared memory.
    """
    on_gpu = options.target is not None and "gpu" in options.target.keys
    if options.simple_mode or on_gpu or not func.attrs.get("tir.noalias", True):
        return func
    return func.with_body(_Turner().stmt(func.body))


class _Turner(RunsOfStores):
    def __init__(self) -> None:
        self.analyzer = Analyzer()

    def length(self, first: S.Stmt) -> int:
        return _strided_lanes(first)

    def replaced(self, run: Sequence[Any], lanes: int) -> S.Stmt | None:
        """A run of stores with all squares in it turned; None where there is none."""
        if len(run) < lanes or any(type(x) is not S.BufferStore for x in run):
            return None
        stores: list[Any] = list(run)
        if any(side_effect(x.value) > CallEffectKind.ReadState for x in stores):
            return None
        written = {x.buffer.data for x in stores}
        names: dict[E.BufferLoad, E.Var] = {}
        bindings: list[tuple[E.Var, Any]] = []
        for first in _strided(stores[0], lanes):
            square = None if first.buffer.data in written else self._square(first, stores)
            if square is not None:
                bindings += _columns(first, square, names)
        if not names:
            return None
        replace = _Named(names)
        body: S.Stmt = S.seq([replace.stmt(x) for x in stores])
        for var, value in reversed(bindings):
            body = S.LetStmt(var, value, body)
        return body

    def _square(self, first: Any, stores: Sequence[Any]) -> list[list[Any]] | None:
        """The loads of each store that are the column so many places behind that of `first`."""
        lanes, found = first.indices[0].lanes, []
        for k, x in enumerate(stores):
            mine = [e for e in _strided(x, lanes) if self._behind(first, e) == k]
            if not mine:
                return None
            found.append(mine)
        return found

    def _behind(self, first: Any, other: Any) -> int | None:
        """Elements between the beginnings of two vectors of one stride in one buffer."""
        a, b = first.indices[0], other.indices[0]
        if first.buffer.data is not other.buffer.data or first.dtype != other.dtype:
            return None
        if const_int(a.stride) != const_int(b.stride):
            return None
        return const_int(self.analyzer.simplify(b.base - a.base))


def _strided_lanes(s: S.Stmt) -> int:
    """Lanes of the first strided vector that a store reads; 0 where it reads none."""
    if type(s) is not S.BufferStore:
        return 0
    for e in walk(s.value):
        if _is_strided(e):
            lanes: int = e.indices[0].lanes
            return lanes if lanes >= LEAST and lanes & (lanes - 1) == 0 else 0
    return 0


def _strided(store: Any, lanes: int) -> list[Any]:
    return [e for e in walk(store.value) if _is_strided(e) and e.indices[0].lanes == lanes]


def _is_strided(e: Any) -> bool:
    if type(e) is not E.BufferLoad or e.predicate is not None or len(e.indices) != 1:
        return False
    at: Any = e.indices[0]
    plain = type(at) is E.Ramp and parse(e.buffer.dtype).lanes == 1
    return plain and (const_int(at.stride) or 0) > 1


def _columns(
    first: Any, square: Sequence[Sequence[Any]], names: dict[E.BufferLoad, E.Var]
) -> list[tuple[E.Var, Any]]:
    """What is computed in front of the stores; `names` gets the column of each load."""
    at: Any = first.indices[0]
    lanes = len(square)
    bindings: list[tuple[E.Var, Any]] = []

    def bind(name: str, value: Any) -> E.Var:
        bindings.append((E.Var(name, value.dtype), value))
        return bindings[-1][0]

    rows = []
    one = const(1, at.base.dtype)
    for k in range(lanes):
        row = E.Ramp(at.base + at.stride * k, one, lanes)
        rows.append(bind(f"{first.buffer.name}_row", E.BufferLoad(first.buffer, [row])))
    own = min(lanes, max(1, OWN_BYTES // parse(first.buffer.dtype).nbytes))

    def pair(a: Any, b: Any, low: Sequence[int], high: Sequence[int]) -> tuple[Any, Any]:
        name = f"{first.buffer.name}_turned"
        return bind(name, E.Shuffle([a, b], low)), bind(name, E.Shuffle([a, b], high))

    half = lanes // 2
    while (
        half >= own
    ):  # squares of so many change places across the diagonal of those twice as large
        low = [k if not k & half else lanes + k - half for k in range(lanes)]
        high = [k + half if not k & half else lanes + k for k in range(lanes)]
        for k in range(lanes):
            if not k & half:
                rows[k], rows[k + half] = pair(rows[k], rows[k + half], low, high)
        half //= 2

    def interleaved(part: list[Any], unit: int) -> list[Any]:
        """The columns of squares of `own` lanes, of whose rows every so many are together."""
        if len(part) == 1:
            return part
        at = [b + t for b in range(0, lanes, own) for t in range(0, own // 2, unit)]
        low = [x + u for t in at for x in (t, lanes + t) for u in range(unit)]
        high = [k + own // 2 for k in low]
        both = [pair(a, b, low, high) for a, b in zip(part[::2], part[1::2])]
        return [c for side in zip(*both) for c in interleaved(list(side), 2 * unit)]

    rows = [c for k in range(0, lanes, own) for c in interleaved(rows[k : k + own], 1)]
    for loads, column in zip(square, rows):
        names.update((e, column) for e in loads)
    return bindings


class _Named(Rewriter):
    def __init__(self, names: dict[E.BufferLoad, E.Var]) -> None:
        self.names = names

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        name = self.names.get(e)
        return super()._load(e) if name is None else name
