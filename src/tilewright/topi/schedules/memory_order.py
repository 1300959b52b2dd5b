"""In which order element-wise work goes through the memory that it reads.

Neighbouring axes that are one run in all that is read and written are one loop. Where a stage
writes rows of memory and reads columns of it, as a transpose does, each element along the last axis
comes from another line of the cache: lines are fetched as often as they have elements, unless the
axis along which they lie is near. Both axes are cut into tiles of whole lines, and these into
squares of vectors, which lowering turns in registers (lowering/turn_loads.py). So it is where
blocks of channels become planes: the axis of channels is cut into the digits that are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Any

from ...arith import Analyzer, detect_linear_equation
from ...base.dtype import parse
from ...loopir.expr import FloorDiv, FloorMod, PrimExpr, Var, const, const_int
from ...loopir.iter import IterVar, ProducerLoad, Range
from ...loopir.subst import substitute
from ...loopir.visit import CHILDREN, free_vars, walk
from ...schedule.api import Stage
from ...schedule.auto_inline import is_injective
from ...schedule.state import INLINE
from ...target.capability import OWN_BYTES
from ...tensor.op import domain
from ...tensor.tensor import Tensor
from .machine import LINE, PIECES, Machine, extent_of


@dataclass
class Uses:
    """What a stage reads, and where, behind the stages that are inlined into it; and variables that
    it uses otherwise."""

    reads: list[tuple[Tensor, Sequence[PrimExpr]]] = field(default_factory=list)
    bare: set[Var] = field(default_factory=set)


def uses_of(stage: Stage, inlined: Sequence[Stage] = ()) -> Uses:
    """The uses of a stage's axes in its body, as if other stages were inlined too."""
    found, op = Uses(), stage.op
    stack: list[Any] = list(getattr(op, "body", ()))
    while stack:
        e = stack.pop()
        if type(e) is Var:
            found.bare.add(e)
        elif type(e) is not ProducerLoad:
            stack.extend(CHILDREN[type(e)](e))
        else:
            _add_read(found, stage.schedule, e, inlined)
    return found


def _add_read(found: Uses, s: Any, load: ProducerLoad, inlined: Sequence[Stage]) -> None:
    before = s.stage_of.get(load.producer.op)
    is_inlined = before is not None and (before.attach_type == INLINE or before in inlined)
    if not is_inlined or not is_injective(before.op):
        found.reads.append((load.producer, load.indices))
        return
    table = {a.var: i for a, i in zip(before.op.axis, load.indices)}
    inner = uses_of(before, inlined)
    found.reads += [(t, [substitute(i, table) for i in indices]) for t, indices in inner.reads]
    for v in inner.bare:
        found.bare.update(free_vars(table.get(v, v)))


def steps_of(t: Tensor, indices: Sequence[PrimExpr], axes: Sequence[IterVar]) -> list[int] | None:
    """Elements between what neighbours along each axis read; None where that is not known."""
    at: Any = const(0)
    for index, extent in zip(indices, t.shape):
        size = const_int(extent)
        if size is None:
            return None
        at = at * size + index
    factors = detect_linear_equation(_within(axes).simplify(at), [a.var for a in axes])
    found = [const_int(f) for f in factors[:-1]]
    return None if not found or None in found else [n or 0 for n in found]


def _within(axes: Sequence[IterVar]) -> Analyzer:
    """An analyzer that knows the domains of axes."""
    analyzer = Analyzer()
    for a in axes:
        analyzer.bind(a.var, domain(a))
    return analyzer


@dataclass
class Run:
    """Axes that are one loop, its extent (0: not known), and the step of each read along it."""

    axes: list[IterVar]
    size: int
    steps: list[int]
    alone: bool = False

    def takes(self, axis: IterVar, steps: Sequence[int], alone: bool) -> bool:
        """Whether the axis in front of it continues it."""
        if extent_of(axis) == 1 or self.size == 1:
            return True
        on = all(n == m * self.size for n, m in zip(steps, self.steps))
        return self.size > 0 and extent_of(axis) > 0 and on and not alone and not self.alone

    def add(self, axis: IterVar, steps: Sequence[int], alone: bool) -> None:
        if self.size == 1:
            self.steps, self.alone = list(steps), alone
        self.axes.insert(0, axis)
        self.size *= extent_of(axis)


def runs_of(stage: Stage, axes: Sequence[IterVar]) -> tuple[list[Run], int | None]:
    """The axes, neighbours together that are one run in all that is read and written; and which of
    these some input lies along that is not read in order of the last one, None for none. To find
    one, axes are cut into the digits that something is read by."""
    uses = uses_of(stage)
    runs, across = _runs(axes, uses)
    if across is None:
        digits = digits_of(axes, uses)
        if digits.table:
            finer, across = _runs(digits.axes, digits.uses(uses))
            if across is not None:
                loops = digits.split(stage)
                return [replace(r, axes=[loops[a] for a in r.axes]) for r in finer], across
    return runs, across


def _runs(axes: Sequence[IterVar], uses: Uses) -> tuple[list[Run], int | None]:
    known = [steps_of(t, indices, axes) for t, indices in uses.reads]
    table = [n for n in known if n is not None]
    runs: list[Run] = []
    for k in range(len(axes) - 1, -1, -1):
        steps, alone = [n[k] for n in table], len(table) < len(known) or axes[k].var in uses.bare
        if runs and runs[0].takes(axes[k], steps, alone):
            runs[0].add(axes[k], steps, alone)
        else:
            runs.insert(0, Run([axes[k]], extent_of(axes[k]), steps, alone))
    *outer, last = runs
    for r, step in enumerate(last.steps):
        ones = [k for k, run in enumerate(outer) if run.steps[r] == 1 and run.size > 1]
        if abs(step) > 1 and ones:
            return runs, ones[0]
    return runs, None


@dataclass
class Digits:
    """Axes, some of them cut: `table` says what those are, of the variables of what they are cut
    into, `places` at which multiples of the last digit."""

    axes: list[IterVar] = field(default_factory=list)
    table: dict[Var, PrimExpr] = field(default_factory=dict)
    places: dict[IterVar, tuple[list[int], list[IterVar]]] = field(default_factory=dict)

    def uses(self, uses: Uses) -> Uses:
        """The uses of these axes, for those of the ones that were cut."""
        found = Uses(bare=uses.bare)
        for t, indices in uses.reads:
            found.reads.append((t, [substitute(i, self.table) for i in indices]))
        return found

    def split(self, stage: Stage) -> dict[IterVar, IterVar]:
        """The loops of a stage for these axes, after it is split so."""
        loops = {a: a for a in self.axes}
        for axis, (places, digits) in self.places.items():
            rest = axis
            for place, digit in zip(places, digits):
                loops[digit], rest = stage.split(rest, factor=place)
            loops[digits[-1]] = rest
        return loops


def _is_digit(e: Any) -> bool:
    return type(e) in (FloorDiv, FloorMod)


def digits_of(axes: Sequence[IterVar], uses: Uses) -> Digits:
    """The axes but for the last one cut where something is read at v // k or v % k, k a constant,
    and a multiple of the next smaller one."""
    cuts: dict[Var, set[int]] = {}
    asked = [i for _, at in uses.reads for i in at if any(map(_is_digit, walk(i)))]
    if not asked:
        return Digits(list(axes))
    simplify = _within(axes).simplify
    for e in (x for i in asked for x in walk(simplify(i)) if _is_digit(x)):
        inner, size, below = e.a, const_int(e.b) or 0, 1
        if type(e) is FloorMod and type(inner) is FloorDiv:
            inner, below = inner.a, const_int(inner.b) or 0
        if type(inner) is Var:
            cuts.setdefault(inner, set()).update((below, below * size))
    found = Digits()
    for axis in axes:
        left = const_int(domain(axis).extent) or 0
        places = sorted((k for k in cuts.get(axis.var, ()) if k < left), reverse=True)
        places = places if places and places[-1] else []  # a place that is not known
        places = [k for k in places if k > 1]
        if axis is axes[-1] or any(high % low for high, low in pairwise(places)):
            places = []
        if not places:
            found.axes.append(axis)
            continue
        digits = []
        for step, place in zip([left, *places], [*places, 1]):
            extent = const(-(-step // place), axis.var.dtype)
            dom = Range.from_min_extent(const(0, axis.var.dtype), extent)
            digits.append(IterVar(dom, axis.var.name, IterVar.DataPar))
        value: Any = digits[-1].var
        for digit, place in zip(digits, places):
            value = value + digit.var * place
        found.table[axis.var] = value
        found.places[axis] = (places, digits)
        found.axes += digits
    return found


def side_of(size: int, dtype: str, machine: Machine) -> int:
    """Elements of the side of squares along a last axis: a vector, or the part of one that a short
    axis fills; 0 where that is less than lowering turns in registers as one."""
    side = min(machine.lanes(dtype), machine.registers, 1 << max(size, 1).bit_length() - 1)
    return side if side * parse(dtype).nbytes >= OWN_BYTES else 0


def in_squares(
    stage: Stage,
    axes: Sequence[IterVar],
    sizes: Sequence[int],
    across: int,
    side: int,
    machine: Machine,
) -> list[IterVar]:
    """Tiles of the axis at `across` and the last one; the loops whose steps threads may share."""
    dtype = stage.op.output_dtype(0)
    whole = max(side, LINE // parse(dtype).nbytes)
    others = [*axes[:across], *axes[across + 1 : -1]]
    tile, row = stage.split(axes[across], factor=whole)
    several, row = stage.split(row, factor=side)
    chunk, lane = stage.split(axes[-1], factor=side)
    shared = [*others, tile]
    steps = prod(sizes[:-1]) // sizes[across] * -(-sizes[across] // whole)
    if steps < PIECES * machine.cores:
        part, chunk = stage.split(chunk, nparts=PIECES * machine.cores)
        shared.append(part)
    stage.reorder(*shared, chunk, several, row, lane)
    stage.unroll(row)
    stage.vectorize(lane)
    return shared
