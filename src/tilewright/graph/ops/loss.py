"""Losses of classifiers: what each element adds, and what it weighs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ...topi.elemwise import accumulator
from .spec import INJECTIVE, OpSpec


def _counted(target: Tensor, a: Mapping[str, Any], i: Any) -> Any:
    """Whether an element is none of those to be ignored."""
    ignored = a["ignore"]
    return const(True) if ignored is None else target(*i) != const(ignored, target.dtype)


def _class_of(target: Tensor, classes: Any, i: Any) -> Any:
    """A class that there is, also where the target names none."""
    t = target.dtype
    return O.max(O.min(target(*i), cast(t, classes) - const(1, t)), const(0, t))


def _nll(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """-x of each element's class, times the class' weight."""
    x, target, *weights = t
    wide = accumulator(x.dtype)

    def element(*i: Any) -> Any:
        c = _class_of(target, x.shape[1], i)
        value = -cast(wide, x(i[0], c, *i[1:]))
        if weights:
            value = value * cast(wide, weights[0](c))
        return O.select(_counted(target, a, i), value, const(0, wide))

    result: Tensor = compute(target.shape, element, "T_nll", "injective")
    return result


def _nll_weight(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """The weight of each element's class, 0 of those to be ignored."""
    target, *weights = t
    wide = accumulator(weights[0].dtype if weights else a["dtype"])

    def element(*i: Any) -> Any:
        one = const(1, wide)
        if weights:
            one = cast(wide, weights[0](_class_of(target, weights[0].shape[0], i)))
        return O.select(_counted(target, a, i), one, const(0, wide))

    result: Tensor = compute(target.shape, element, "T_nll_weight", "injective")
    return result


OPS: dict[str, OpSpec] = {
    "nll": OpSpec(_nll, INJECTIVE),
    "nll_weight": OpSpec(_nll_weight, INJECTIVE),
}
