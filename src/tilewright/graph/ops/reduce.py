"""Reductions over dimensions.

Sums of narrow floats, and what is done to their elements before and after, are taken in float32 and
rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import topi
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.broadcast import broadcast
from ...tensor.tensor import Tensor
from ...topi.elemwise import accumulator, unary
from ...topi.reduction import sum_in
from .spec import ANCHOR, INSIDE, OPAQUE, ORDER, OpSpec, rounded_once


def _sum(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    return sum_in(a.get("out_dtype") or t[0].dtype, t[0], a["axes"], a["keepdims"])


_SUM = rounded_once(_sum)


def _plain(name: str) -> Callable[..., Tensor]:
    def apply(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
        result: Tensor = getattr(topi, name)(t[0], a["axes"], a["keepdims"])
        return result

    return apply


def _prod(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    dtype = t[0].dtype
    wide = _converted(t[0], accumulator(dtype))
    return _converted(topi.prod(wide, a["axes"], a["keepdims"]), dtype)


def _converted(t: Tensor, dtype: str) -> Tensor:
    return t if t.dtype == dtype else topi.cast(t, dtype)


def _summed(before: Callable[[Any], Any], after: Callable[[Any], Any] | None) -> Any:
    """A sum of a function of each element. `after`: a function of the sum, which of integers is
    taken in float64."""

    def apply(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
        dtype = t[0].dtype
        wide = accumulator(dtype)
        terms = unary(lambda v: before(cast(wide, v)), t[0], "T_terms")
        total = topi.sum(terms, a["axes"], a["keepdims"])
        if after is None:
            return _converted(total, dtype)
        last = wide if "float" in dtype else "float64"
        return unary(lambda v: cast(dtype, after(cast(last, v))), total, "T_after")

    return apply


def _log_sum_exp(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """The largest element is taken out of the sum, so that no exponential overflows; an infinity is
    not, of which the difference would be none."""
    dtype = t[0].dtype
    wide = accumulator(dtype) if "float" in dtype else "float64"
    x = _converted(t[0], wide)
    top = topi.max(x, a["axes"], True)
    zero = const(0, wide)
    moved = unary(lambda v: O.select(O.isfinite(v), v, zero), top, "T_largest")
    terms = broadcast(lambda v, m: O.exp(v - m), x, moved, name="T_exponentials")
    total = topi.sum(terms, a["axes"], True)
    out = broadcast(lambda s, m: cast(dtype, O.log(s) + m), total, moved, name="T_log_sum_exp")
    if a["keepdims"]:
        return out
    axes = {k % x.ndim for k in a["axes"]}
    return topi.reshape(out, [d for k, d in enumerate(x.shape) if k not in axes])


_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "sum": _SUM.compute,
    "mean": _plain("mean"),
    "max": _plain("max"),
    "min": _plain("min"),
    "prod": _prod,
    "l1": _summed(O.abs, None),
    "l2": _summed(lambda v: v * v, O.sqrt),
    "sum_square": _summed(lambda v: v * v, None),
    "log_sum": _summed(lambda v: v, O.log),
}


def _reduce(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    return _REDUCTIONS[a["type"]](t, a)


def _arg(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    find = topi.argmax if a["type"] == "max" else topi.argmin
    place = find(t[0], a["axes"], a["keepdims"], a["last"])
    result: Tensor = topi.cast(place, "int64")
    return result


def _lp_normalize(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """x over its norm along an axis; 0 where the norm is."""
    x, axis = t[0], a["axis"]
    norm = _summed(O.abs, None) if a["p"] == 1 else _summed(lambda v: v * v, O.sqrt)
    wide = _converted(x, accumulator(x.dtype))
    total = norm([wide], {"axes": (axis,), "keepdims": True})

    def element(v: Any, n: Any) -> Any:
        zero = const(0, n.dtype)
        return cast(x.dtype, O.select(n.equal(zero), zero, v / n))

    return broadcast(element, wide, total, name="T_lp_normalize")


def _mean_variance(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """(x - mean) / (deviation + epsilon), the deviation of differences, which does not cancel."""
    dtype, axes = t[0].dtype, a["axes"]
    x = _converted(t[0], accumulator(dtype))
    middle = topi.mean(x, axes, True)
    moved = broadcast(lambda v, m: v - m, x, middle, name="T_moved")
    spread = topi.mean(unary(lambda v: v * v, moved, "T_squares"), axes, True)

    def element(v: Any, s: Any) -> Any:
        return cast(dtype, v / (O.sqrt(s) + const(1e-9, s.dtype)))

    return broadcast(element, moved, spread, name="T_mean_variance")


OPS: dict[str, OpSpec] = {
    "reduce": OpSpec(_reduce, ANCHOR, precision=INSIDE, reads_computed=True),
    "log_sum_exp": OpSpec(_log_sum_exp, OPAQUE),
    "arg": OpSpec(_arg, ANCHOR, precision=ORDER),
    "lp_normalize": OpSpec(_lp_normalize, OPAQUE),
    "mean_variance": OpSpec(_mean_variance, OPAQUE),
}
