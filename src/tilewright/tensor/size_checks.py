"""What the sizes of a call must fulfil so that every read is in bounds and no divisor is zero.

Sizes without relation (`A[i] + B[i]` over n elements, where B has m) are accepted when a program is
made, and compared when it is called. A check is exact: it fails only if a read that is made lies
outside, or a division by zero is made. Left unchecked is what depends on data, what is under
conditions that are no limits of single axes, and what has choices in its indices, or an axis twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..arith import Analyzer, IntervalSet, detect_clip_bound, eval_set
from ..arith.linear import conjuncts
from ..loopir import expr as E
from ..loopir.data import is_data
from ..loopir.expr import IntImm, PrimExpr, Var
from ..loopir.iter import ProducerLoad, Range
from ..loopir.operators import logical_and, logical_not, logical_or
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import children, free_vars, nodes
from .bounds import Guard, check_program, domains_of, first_rows_of, inside, reads
from .op import ComputeOp, Operation, post_order
from .regions import finite
from .tensor import Tensor

Ends = dict[Var, tuple[PrimExpr, PrimExpr]]
Check = tuple[str, PrimExpr]
_LEAVES = (Var, E.SizeVar, IntImm)
_ORDERED = (*_LEAVES, E.Cast, E.Add, E.Sub, E.Mul, E.Min, E.Max, E.FloorDiv, E.FloorMod)
_CHECKED = (ProducerLoad, E.FloorDiv, E.FloorMod, E.Div, E.Mod)


def size_checks(
    outputs: Collection[Tensor | Operation],
    given: Collection[Var],
    repeated: Collection[Tensor] = (),
) -> dict[str, PrimExpr]:
    """Conditions on the variables of `given` without which some read is out of bounds or some
    divisor zero, each under the text that says so. A dimension of size 1 of the tensors of
    `repeated` is as long as it needs to be."""
    narrowed = check_program(outputs)
    ops = post_order(outputs)
    first_rows = first_rows_of(ops)
    found: dict[str, PrimExpr] = {}
    for op in ops:
        doms = domains_of(op, first_rows.get(op))
        if isinstance(op, ComputeOp) and doms:
            doms.update({a.var: narrowed[a] for a in op.axis if a in narrowed})
        analyzer = Analyzer()
        doubtful = []
        for node, guard in reads(op, analyzer, doms, _CHECKED):
            if type(node) is ProducerLoad:
                left = _doubtful_indices(analyzer, node)
                if left:
                    broadcast = node.producer in repeated
                    doubtful.append(
                        _read_checks(analyzer, doms, node, left, _all_of(guard), broadcast)
                    )
            elif _doubtful_divisor(analyzer, doms, node.b):
                doubtful.append(_divisor_checks(analyzer, doms, node.b, _all_of(guard)))
        for checks in doubtful:  # where no guard is assumed
            for text, condition in checks:
                if set(given).issuperset(free_vars(condition)):
                    found[f"{op.name} {text} with the sizes of this call"] = condition
    return found


def _all_of(guard: Guard | None) -> list[PrimExpr]:
    return [] if guard is None else guard.conditions()


def _doubtful_divisor(analyzer: Analyzer, doms: Mapping[Var, Range], b: Any) -> bool:
    """Whether a divisor depends on sizes alone, and may be zero."""
    if isinstance(b, IntImm) or is_data(b) or any(v in doms for v in free_vars(b)):
        return False
    return not analyzer.can_prove(b != 0)


def _divisor_checks(
    analyzer: Analyzer, doms: Mapping[Var, Range], b: Any, guards: Sequence[PrimExpr]
) -> Iterator[Check]:
    """The condition on which a divisor is not zero."""
    idle = _narrow(analyzer, _ends(analyzer, doms), guards)
    if idle is not None:
        yield f"makes a division by zero, by {b},", _any([*idle, b != 0])


def _doubtful_indices(analyzer: Analyzer, load: ProducerLoad) -> list[int]:
    """The dimensions that a read may leave."""
    return [
        k
        for k, (index, extent) in enumerate(zip(load.indices, load.producer.shape))
        if not inside(analyzer, index, Range.from_min_extent(E.const(0, extent.dtype), extent))
    ]


def _read_checks(
    analyzer: Analyzer,
    doms: Mapping[Var, Range],
    load: ProducerLoad,
    doubtful: Sequence[int],
    guards: Sequence[PrimExpr],
    broadcast: bool,
) -> Iterator[Check]:
    """For each dimension that a read may leave the condition on which it does not; `broadcast`: one
    of size 1 is never left."""
    shape = load.producer.shape
    ends = _ends(analyzer, doms)
    idle = _narrow(analyzer, ends, guards)
    if idle is None:
        return
    prove = analyzer.can_prove
    indices = ", ".join(str(i) for i in load.indices)
    for k in doubtful:
        index, extent, fits = load.indices[k], shape[k], []
        while type(index) is E.FloorDiv and not any(v in ends for v in free_vars(index.b)):
            fits.append(index.b >= 1)  # x // b < extent where x < extent * b
            index, extent = index.a, extent * index.b
        if not _has_exact_ends(analyzer.simplify(index), ends):
            continue
        reached = _reached(analyzer, index, ends)
        low, high = reached.min_value, reached.max_value
        if not (finite(low) and finite(high)):
            continue
        fits = [c for c in (*fits, low >= 0, high < extent) if not prove(c)]
        if fits:
            always = [*idle, shape[k].equal(1)] if broadcast else idle
            yield (
                f"reads {load.producer.name}[{indices}] out of bounds: index {k} leaves the range "
                f"[0, {shape[k]})",
                _any([*always, _all(fits)]),
            )


def _ends(analyzer: Analyzer, doms: Mapping[Var, Range]) -> Ends:
    """The first and last value of each axis."""
    return {v: (d.min, analyzer.simplify(d.min + d.extent - 1)) for v, d in doms.items()}


def _has_exact_ends(index: PrimExpr, ends: Ends) -> bool:
    """Whether an index takes the values at the ends of its interval: it is no data, and made of
    axes, each once, by operations that keep their order."""
    stack: list[PrimExpr] = [index]
    axes: list[Var] = []
    while stack:
        e = stack.pop()
        if type(e) not in _ORDERED:
            return False
        if isinstance(e, Var) and e in ends:
            axes.append(e)
        stack += children(e)
    return len(axes) == len(set(axes))


def _narrow(analyzer: Analyzer, ends: Ends, guards: Sequence[PrimExpr]) -> list[PrimExpr] | None:
    """Move the ends of axes to where the guards hold; the conditions on sizes alone under which
    there is no such place. None where the guards say something else."""
    never: list[PrimExpr] = []
    for guard in (part for g in guards for part in conjuncts(g)):
        own = [v for v in free_vars(guard) if v in ends]
        if not own and not any(isinstance(e, ProducerLoad) for e in nodes(guard)):
            never.append(logical_not(guard))
            continue
        limits = detect_clip_bound(guard, own, analyzer) if len(own) == 1 else []
        if not limits:
            return None
        low, high = limits
        first, last = ends[own[0]]
        ends[own[0]] = (
            first if low is None else analyzer.simplify(E.Max(first, low)),
            last if high is None else analyzer.simplify(E.Min(last, high)),
        )
    prove = analyzer.can_prove
    never += [last < first for first, last in ends.values() if not prove(first <= last)]
    return never


def _reached(analyzer: Analyzer, index: PrimExpr, ends: Ends) -> IntervalSet:
    """The indices from the least to the largest that is read."""
    sets = {v: IntervalSet(*e) for v, e in ends.items()}
    split = _Remainders(analyzer, sets)
    return eval_set(split.expr(index), sets, analyzer)


class _Remainders(Rewriter):
    """Gives remainders names, and bounds which know that a dividend may be small."""

    def __init__(self, analyzer: Analyzer, sets: dict[Var, IntervalSet]) -> None:
        super().__init__()
        self.analyzer = analyzer
        self.sets = sets

    @handles(E.FloorMod)
    def _mod(self, e: E.FloorMod) -> PrimExpr:
        taken = eval_set(e.a, self.sets, self.analyzer)
        if (
            any(v in self.sets for v in free_vars(e.b))
            or not finite(taken.max_value)
            or not finite(taken.min_value)
            or not self.analyzer.can_prove(taken.min_value >= 0)
        ):
            return e
        rest = Var("rest", e.dtype)
        last = self.analyzer.simplify(E.Min(taken.max_value, e.b - 1))
        self.sets[rest] = IntervalSet(IntImm(e.dtype, 0), last)
        return rest


def _all(conditions: Iterable[PrimExpr]) -> PrimExpr:
    first, *others = conditions
    for c in others:
        first = logical_and(first, c)
    return first


def _any(conditions: Iterable[PrimExpr]) -> PrimExpr:
    first, *others = conditions
    for c in others:
        first = logical_or(first, c)
    return first
