"""Reads that are surely out of bounds, found before any code is made.

An operation is judged by the part of it that its readers need: what it declares beyond that, and
could not compute, is left out. A read is reported only with a witness: a place of the iteration
domain where every guard around the read holds and an index lies outside. What cannot be decided is
left to the run-time checks.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from ..arith import Analyzer, ConstIntBound, IntervalSet, union
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.expr import IntImm, PrimExpr, Var, const, const_int
from ..loopir.iter import IterVar, ProducerLoad, Range, Reduce
from ..loopir.operators import logical_not
from ..loopir.subst import substitute
from ..loopir.visit import children, free_vars
from .analysis import scan_body, scan_get_body
from .op import ComputeOp, Operation, ScanOp, domain, post_order
from .regions import finite, read_by, reads_of
from .tensor import Tensor

Domains = Mapping[IterVar, Range]
Ends = Mapping[Var, tuple[PrimExpr, PrimExpr]]  # the first and last value of axes
_CORNERS = 6  # variables of an index whose corners are all tried
_LARGE = 64  # symbolic extents are taken to be as large at least, where a guard depends on them
_POINTS = 256  # places of its variables that are all tried


class Guard:
    """A condition under which something is evaluated, with those around it."""

    def __init__(self, condition: PrimExpr, outer: Guard | None) -> None:
        self.condition = condition
        self.outer = outer
        self.depth: int = 1 if outer is None else outer.depth + 1

    def conditions(self) -> list[PrimExpr]:
        """The outermost first."""
        found = []
        guard: Guard | None = self
        while guard is not None:
            found.append(guard.condition)
            guard = guard.outer
        return found[::-1]


def check_program(outputs: Iterable[Tensor | Operation]) -> Domains:
    """Raise TilewrightError if some read of what the outputs need is provably out of bounds.

    Gives the domains of the axes that must run over less than their own: those of operations which
    declare more elements than they could compute, and of which less is needed. Scans start after
    their first rows.
    """
    ops = post_order(outputs)
    if not ops:
        return {}
    known = ops[-1]._checked
    if known is not None and known[0] == ops:
        return dict(known[1])
    first_rows = first_rows_of(ops)
    narrowed: dict[IterVar, Range] = {}
    needed: Domains | None = None
    for op in ops:
        doms = domains_of(op, first_rows.get(op))
        if not _doubtful(op, doms, narrowed):
            continue
        if needed is None:
            needed = needed_domains(ops, outputs, first_rows)
        if isinstance(op, ComputeOp) and op not in first_rows:
            less = {a: needed[a] for a in op.axis if a in needed}
            narrowed.update(less)
            doms.update({a.var: r for a, r in less.items()})
            if _empty(doms):  # nothing of it is needed
                continue
        _check_domains(op, Analyzer(), doms)
    for op in ops:
        if isinstance(op, ScanOp):
            _check_steps(op)
    ops[-1]._checked = (ops, narrowed)
    return dict(narrowed)


def first_rows_of(ops: Iterable[Operation]) -> dict[Operation, Range]:
    """The domains of the first axes of operations that are steps of scans."""
    scans = [op for op in ops if isinstance(op, ScanOp)]
    return {step: domain(scan.scan_axis) for scan in scans for step in scan_body(scan)}


def check_reads(op: Operation, analyzer: Analyzer | None = None) -> None:
    """Raise TilewrightError if some read of a compute operation is provably out of bounds.

    The message names the tensor, the index and its range. Conditions of if_then_else, select and of
    reductions count as guards.
    """
    _check_domains(op, analyzer or Analyzer(), domains_of(op, None))


def _check_steps(scan: ScanOp) -> None:
    """Raise TilewrightError if a step of a scan provably reads rows of a state that are not yet
    computed: its own, or later ones."""
    first = domain(scan.scan_axis)
    body = scan_get_body(scan)
    ahead: dict[Operation, set[int]] = {step: set() for step in body}  # of the step computed
    for update in scan.update:
        ahead[update.op].add(0)
    for op, lead in ((step, k) for step in reversed(body) for k in sorted(ahead[step])):
        doms = domains_of(op, Range.from_min_extent(first.min + lead, first.extent))
        if not doms:
            continue
        own, analyzer = next(iter(doms)), Analyzer()
        before = [Range.from_min_extent(const(0, own.dtype), own - lead)]
        valid = defaultdict[Tensor, list[Range]](
            list, dict.fromkeys(scan.state_placeholder, before)
        )
        for load, _, _, place in _outside_reads(op, analyzer, doms, valid.__getitem__):
            _refuse_step(op, load, place, place[own] - lead)
        for load, _ in reads(op, analyzer, doms):
            if load.indices and load.producer.op in ahead:
                further = const_int(analyzer.simplify(load.indices[0] - own))
                ahead[load.producer.op] |= set() if further is None else {lead + further}


def domains_of(op: Operation, first_axis: Range | None) -> dict[Var, Range]:
    """The domains of an operation's axes; nothing where it is none that is checked, or empty."""
    if not isinstance(op, ComputeOp):
        return {}
    doms = {a.var: domain(a) for a in (*op.axis, *op.reduce_axis)}
    if first_axis is not None and op.axis:
        doms[op.axis[0].var] = first_axis
    return {} if _empty(doms) else doms


def _empty(doms: Mapping[Var, Range]) -> bool:
    return any(isinstance(d.extent, IntImm) and d.extent.value <= 0 for d in doms.values())


def reads(
    op: Operation,
    analyzer: Analyzer,
    doms: Mapping[Var, Range],
    kinds: Container[type] = (ProducerLoad,),
) -> Iterator[tuple[Any, Guard | None]]:
    """The reads (or other nodes) of an operation, and what guards each.

    The analyzer is told the domains, and knows what guards a read while that is looked at.
    """
    if not isinstance(op, ComputeOp) or (op.axis and not doms):
        return
    for v, d in doms.items():
        analyzer.bind(v, d)
    for t in (*op.outputs, *op.input_tensors):
        for e in t.shape:
            if isinstance(e, Var):
                analyzer.const_int_bound_update(e, ConstIntBound(0, ConstIntBound.POS_INF))
    bodies = op.body[:1] if isinstance(op.body[0], Reduce) else op.body
    for body in bodies:
        yield from guarded(body, analyzer, kinds)


def _doubtful(op: Operation, doms: Mapping[Var, Range], narrowed: Domains) -> bool:
    """Whether some read is not proved to be of an element that is computed."""
    analyzer = Analyzer()
    return not all(
        inside(analyzer, index, valid)
        for load, _ in reads(op, analyzer, doms)
        for index, valid in zip(load.indices, _valid(load.producer, narrowed))
    )


def _valid(t: Tensor, narrowed: Domains) -> list[Range]:
    """The indices of a tensor that are computed."""
    whole = [Range.from_min_extent(const(0, e.dtype), e) for e in t.shape]
    axes = t.op.axis if isinstance(t.op, ComputeOp) else ()
    return [narrowed.get(a, r) for a, r in zip(axes, whole)] if axes else whole


def _check_domains(op: Operation, analyzer: Analyzer, doms: Mapping[Var, Range]) -> None:
    for load, k, ends, place in _outside_reads(op, analyzer, doms, lambda t: _valid(t, {})):
        _refuse(op, load, k, ends, place)


def _outside_reads(
    op: Operation,
    analyzer: Analyzer,
    doms: Mapping[Var, Range],
    valid_of: Callable[[Tensor], Sequence[Range]],
) -> Iterator[tuple[ProducerLoad, int, Ends, Mapping[Var, PrimExpr]]]:
    """Indices of reads that lie outside of the valid ones: the read, the index's number, the ends
    of the axes under the guards, and a place there."""
    found = []
    for load, guard in reads(op, analyzer, doms):
        valid = valid_of(load.producer)
        doubtful = [
            k
            for k, (index, r) in enumerate(zip(load.indices, valid))
            if not inside(analyzer, index, r)
        ]
        if doubtful:
            ends = {v: _ends(analyzer, v, d) for v, d in doms.items()}
            found += [(load, guard, k, ends, valid[k].extent) for k in doubtful]
    for load, guard, k, ends, extent in found:  # where no guard is assumed: at places of the domain
        index = load.indices[k]
        conditions = [] if guard is None else guard.conditions()
        for place in _places(doms, ends, index - extent):
            if _outside(analyzer, place, conditions, index, extent):
                yield load, k, ends, place
                break


def needed_domains(
    ops: Sequence[Operation],
    outputs: Iterable[Tensor | Operation],
    first_rows: Mapping[Operation, Range],
) -> Domains:
    """The domains of axes of which provably less is needed than their own, for operations in the
    order of computation."""
    whole = {t.op if isinstance(t, Tensor) else t for t in outputs}
    regions: dict[Tensor, list[list[IntervalSet]]] = {
        t: [[] for _ in t.shape] for op in ops for t in op.outputs if isinstance(op, ComputeOp)
    }
    found: dict[IterVar, Range] = {}
    for op in reversed(ops):
        analyzer = Analyzer()
        doms = domains_of(op, first_rows.get(op))
        if isinstance(op, ComputeOp) and op not in whole and doms:
            for d, axis in enumerate(op.axis):
                sets = [s for t in op.outputs for s in regions[t][d]]
                less = _less(axis, union(sets, analyzer), analyzer) if sets else _none_of(axis)
                if less is not None:
                    doms[axis.var] = found[axis] = less
        for load, _ in reads(op, analyzer, {} if _empty(doms) else doms):
            ends = {v: IntervalSet(*_ends(analyzer, v, d)) for v, d in doms.items()}
            if any(_never(e, analyzer) for e in ends.values()):
                continue  # what guards the read does not hold anywhere
            _add(regions, load.producer, read_by(load, ends, analyzer))
        if not isinstance(op, ComputeOp):
            own = getattr(op, "axis", ())
            ends = {a.var: IntervalSet.from_range(domain(a)) for a in own}
            for t, intervals in reads_of(op, ends, analyzer, regions):
                _add(regions, t, intervals)
    return found


def _add(regions: Any, t: Tensor, intervals: Sequence[IntervalSet]) -> None:
    for dim, interval in zip(regions.get(t, ()), intervals):
        dim.append(interval)


def _never(ends: IntervalSet, analyzer: Analyzer) -> bool:
    """Whether an axis takes no value at all between its ends."""
    known = finite(ends.min_value) and finite(ends.max_value)
    return known and analyzer.can_prove(ends.min_value > ends.max_value)


def _none_of(axis: IterVar) -> Range:
    return Range.from_min_extent(domain(axis).min, const(0, axis.dtype))


def _less(axis: IterVar, needed: IntervalSet, analyzer: Analyzer) -> Range | None:
    """The part of a domain that is needed, where it is proved to be less than all."""
    dom = domain(axis)
    low, last = dom.min, analyzer.simplify(dom.min + dom.extent - 1)
    inside = False
    if finite(needed.min_value) and analyzer.can_prove(needed.min_value > low):
        low, inside = needed.min_value, True
    if finite(needed.max_value) and analyzer.can_prove(needed.max_value < last):
        last, inside = needed.max_value, True
    return Range.from_min_extent(low, analyzer.simplify(last - low + 1)) if inside else None


def guarded(
    e: PrimExpr, analyzer: Analyzer, kinds: Container[type] = (ProducerLoad,)
) -> Iterator[tuple[Any, Guard | None]]:
    """The reads (or other nodes) in an expression, each with the conditions under which it is
    evaluated, which the analyzer knows while it is looked at; none whose conditions never hold."""
    stack: list[tuple[Any, Guard | None]] = [(e, None)]
    seen: set[tuple[int, Guard | None]] = set()
    entered: list[tuple[Guard, ExitStack, bool]] = []
    while stack:
        node, guard = stack.pop()
        if (id(node), guard) in seen:
            continue
        seen.add((id(node), guard))
        if type(node) in kinds and _enter(analyzer, guard, entered):
            yield node, guard
        if type(node) is Reduce:
            inner = guard if E.is_const(node.condition, 1) else Guard(node.condition, guard)
            stack += [(s, inner) for s in node.source]
            stack += [(x, guard) for x in (*node.init, node.condition)]
            continue
        parts = _branches(node)
        if parts is None:
            stack += [(c, guard) for c in children(node)]
        else:
            condition, a, b = parts
            stack += [(condition, guard), (a, Guard(condition, guard))]
            stack.append((b, Guard(logical_not(condition), guard)))
    _enter(analyzer, None, entered)


def _enter(
    analyzer: Analyzer, guard: Guard | None, entered: list[tuple[Guard, ExitStack, bool]]
) -> bool:
    """Let the analyzer know what guards a read; whether that may hold. What guarded the read before
    too stays known: so nests of conditions take time in proportion to their depth."""
    new: list[Guard] = []
    while guard is not None:
        if guard.depth <= len(entered) and entered[guard.depth - 1][0] is guard:
            break
        new.append(guard)
        guard = guard.outer
    while len(entered) > (0 if guard is None else guard.depth):
        entered.pop()[1].close()
    for inner in reversed(new):
        holds = not E.is_const(analyzer.simplify(inner.condition), 0)
        scope = ExitStack()
        scope.enter_context(analyzer.enter_constraint(inner.condition))
        entered.append((inner, scope, holds and (not entered or entered[-1][2])))
    return not entered or entered[-1][2]


def _branches(node: Any) -> tuple[Any, Any, Any] | None:
    if type(node) is E.Select:
        return node.condition, node.true_value, node.false_value
    if type(node) is E.Call and node.op.name == "tir.if_then_else":
        return node.args[0], node.args[1], node.args[2]
    return None


def inside(analyzer: Analyzer, index: PrimExpr, valid: Range) -> bool:
    past = index - valid.min
    return analyzer.can_prove_greater_equal(past, 0) and analyzer.can_prove_less(past, valid.extent)


def _ends(analyzer: Analyzer, v: Var, dom: Range) -> tuple[PrimExpr, PrimExpr]:
    """The first and last value of an axis, narrowed by the guards where these are constants; the
    last before the first where the guards hold nowhere."""
    last = dom.min + (dom.extent - 1)
    if isinstance(dom.min, IntImm) and isinstance(last, IntImm):
        bound = analyzer.const_int_bound(v)
        low, high = max(dom.min.value, bound.min_value), min(last.value, bound.max_value)
        return IntImm(v.dtype, low), IntImm(v.dtype, high)
    return dom.min, analyzer.simplify(last)


def _places(
    doms: Mapping[Var, Range],
    ends: Ends,
    index: PrimExpr,
) -> Iterator[dict[Var, PrimExpr]]:
    """Corners of the domain in the axes of `index`, then all places where these are few.

    Other axes are at their first or last value.
    """
    own = [v for v in free_vars(index) if v in doms]
    for other in (0, 1):
        base = {v: ends[v][other] for v in doms}
        for corner in itertools.product((0, 1), repeat=min(len(own), _CORNERS)):
            yield {**base, **{v: ends[v][c] for v, c in zip(own, corner)}}
    for v in own:  # guards on symbolic axes often leave out the first or last few
        if not isinstance(ends[v][1], IntImm):
            for inner in (ends[v][0] + 1, ends[v][0] + 2, ends[v][1] - 1, ends[v][1] - 2):
                yield {**{w: ends[w][0] for w in doms}, v: inner}
    spans = [_span(*ends[v]) for v in own]
    if math.prod(len(s) or _POINTS + 1 for s in spans) <= _POINTS:
        for point in itertools.product(*spans):
            yield {**base, **{v: IntImm(v.dtype, x) for v, x in zip(own, point)}}


def _span(first: PrimExpr, last: PrimExpr) -> range:
    if isinstance(first, IntImm) and isinstance(last, IntImm):
        return range(first.value, last.value + 1)
    return range(0)


def _outside(
    analyzer: Analyzer,
    place: Mapping[Var, PrimExpr],
    guards: Sequence[PrimExpr],
    index: PrimExpr,
    extent: PrimExpr,
) -> bool:
    at, extent = substitute(index, place), substitute(extent, place)
    if not (analyzer.can_prove(at < 0) or analyzer.can_prove(at >= extent)):
        return False
    holds = [substitute(g, place) for g in guards]
    sizes = {v for g in holds for v in free_vars(g)}
    with ExitStack() as large:
        for v in sizes:
            if v.dtype.startswith("int"):
                large.enter_context(analyzer.enter_constraint(v >= _LARGE))
        return all(analyzer.can_prove(g) for g in holds)


def _refuse(
    op: Operation,
    load: ProducerLoad,
    k: int,
    ends: Ends,
    place: Mapping[Var, PrimExpr],
) -> None:
    tensor, index = load.producer, load.indices[k]
    own = [v for v in free_vars(index) if v in ends]
    ranges = ", ".join(f"{v.name} from {ends[v][0]} to {ends[v][1]}" for v in own)
    value = Analyzer().simplify(substitute(index, place))
    where = ", ".join(f"{v.name} = {Analyzer().simplify(place[v])}" for v in own)
    raise TilewrightError(
        f"out of bounds: {op.name} reads {tensor.name}[{', '.join(str(i) for i in load.indices)}], "
        f"and index {k}, {index}, is {value}"
        + (f" at {where} (with {ranges})" if own else "")
        + f"; dimension {k} of {tensor.name} has the range [0, {tensor.shape[k]}). "
        "Guard the read with te.if_then_else, or correct the shape"
    )


def _refuse_step(
    op: Operation, load: ProducerLoad, place: Mapping[Var, PrimExpr], step: PrimExpr
) -> None:
    state, analyzer = load.producer, Analyzer()
    row = analyzer.simplify(substitute(load.indices[0], place))
    raise TilewrightError(
        f"out of bounds: {op.name} reads {state.name}[{', '.join(str(i) for i in load.indices)}] "
        f"in a scan, which is row {row} at step {analyzer.simplify(step)}. A step computes its row "
        "of the state from those before it: read these"
    )
