"""Boxes of indices that run with iterators: bounds from below, from above, and exact ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..loopir import expr as E
from ..loopir.iter import IterVar, Range
from .analyzer import Analyzer
from .int_set import IntervalSet, eval_set, neg_inf, pos_inf
from .iter_affine_map import detect_iter_map


def estimate_region_strict_bound(
    region: Sequence[Range], var_dom: Mapping[Any, Range], predicate: Any
) -> list[IntervalSet] | None:
    """The box that `region` runs through as its variables run through `var_dom` where `predicate`
    holds, if it is a box without gaps; else None. Raises OperandError where `predicate` is neither
    a number nor an expression."""
    if any(E.const_int(r.extent) is None for r in region):
        return None
    found = detect_iter_map([r.min for r in region], var_dom, predicate, "surjective")
    if len(found.indices) != len(region):
        return None
    boxes = []
    analyzer = Analyzer()
    for r, s in zip(region, found.indices):
        low: Any = s.base
        high: Any = s.base
        if s.args:
            (split,) = s.args
            scale, far = split.scale, s.base + (split.extent - 1) * split.scale
            if analyzer.can_prove_less(scale, 0):
                low, scale = far, 0 - scale
            else:
                high = far
            if not analyzer.can_prove_less_equal(scale, r.extent):
                return None  # there are gaps
        last = analyzer.simplify(high + r.extent - 1)
        boxes.append(IntervalSet(analyzer.simplify(low), last))
    return boxes


estimate_region_lower_bound = estimate_region_strict_bound


def estimate_region_upper_bound(
    region: Sequence[Range], var_dom: Mapping[Any, Range], predicate: Any
) -> list[IntervalSet]:
    """A box around all that `region` runs through: exact where `estimate_region_strict_bound` is,
    for all dimensions or for one by itself."""
    strict = estimate_region_strict_bound(region, var_dom, predicate)
    if strict is not None:
        return strict
    analyzer = Analyzer()
    boxes = []
    ranges = {(k.var if isinstance(k, IterVar) else k): r for k, r in var_dom.items()}
    for r in region:
        alone = estimate_region_strict_bound([r], var_dom, predicate)
        if alone is not None:
            boxes += alone
            continue
        with analyzer.enter_constraint(predicate):
            low = eval_set(r.min, ranges, analyzer).min_value
            high = eval_set(r.min + (r.extent - 1), ranges, analyzer).max_value
        boxes.append(IntervalSet(low, high))
    return boxes


def union_lower_bound(sets: Sequence[IntervalSet]) -> IntervalSet:
    """An interval inside the union of sets: those that do not touch the first are left out."""
    parts = [s for s in sets if not s.is_nothing()]
    if not parts:
        return IntervalSet.nothing()
    analyzer = Analyzer()
    low, high = parts[0].min_value, parts[0].max_value
    rest, grown = parts[1:], True
    while grown:
        grown = False
        for s in list(rest):
            if _reaches(analyzer, s.min_value, high) and _reaches(analyzer, low, s.max_value):
                rest.remove(s)
                grown = True
                if s.min_value is neg_inf or (
                    low is not neg_inf and _below(analyzer, s.min_value, low)
                ):
                    low = s.min_value
                if s.max_value is pos_inf or (
                    high is not pos_inf and _below(analyzer, high, s.max_value)
                ):
                    high = s.max_value
    return IntervalSet(low, high)


def _reaches(analyzer: Analyzer, low: Any, high: Any) -> bool:
    """Whether `low` is proved to lie at most one above `high`."""
    if low is neg_inf or high is pos_inf:
        return True
    if low is pos_inf or high is neg_inf:
        return False
    return analyzer.can_prove_less_equal(low, high + 1)


def _below(analyzer: Analyzer, a: Any, b: Any) -> bool:
    return analyzer.can_prove_less_equal(a, b)
