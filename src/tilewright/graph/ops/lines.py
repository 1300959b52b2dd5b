"""Operations on the lines of a tensor, one element after another, and on triangles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add, mul
from typing import Any

import numpy as np

from ... import topi
from ...base.dtype import parse
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ...topi.scan import running
from .spec import INJECTIVE, MOVED, OPAQUE, ORDER, WIDE, Array, OpSpec


def _topk_places(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """A number of elements that is not known is that of a whole line."""
    count = a["k"] if isinstance(a["k"], int) else 0
    places: Tensor = topi.topk(t[0], count, a["axis"], "indices", not a["largest"], "int64")
    return places


def _numpy_topk_places(x: Sequence[Array], a: Mapping[str, Any]) -> Array:
    data, axis = x[0], a["axis"]
    if data.dtype.kind not in "iufb":
        data = data.astype(np.float32)
    if not a["largest"]:
        order = np.argsort(data, axis, kind="stable")
    elif data.dtype.kind == "f":
        odd = np.isnan(data)
        order = np.lexsort((np.where(odd, 0, -data), ~odd), axis)
    else:
        order = np.argsort(~data, axis, kind="stable")
    return order.take(range(a["k"]), axis).astype(np.int64)


def _take_along(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    x, places, axis = t[0], t[1], a["axis"]

    def element(*i: Any) -> Any:
        return x(*i[:axis], places(*i), *i[axis + 1 :])

    result: Tensor = compute(places.shape, element, "T_take_along", "injective")
    return result


def _log_add(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)), of which no exponential overflows; of infinities the larger one."""
    most = O.max(x, y)
    return O.select(O.isinf(most), most, most + O.log1p(O.exp(-O.abs(x - y))))


def _extreme(dtype: str, sign: int) -> float:
    """What is greater, or less, than any other number of a type."""
    kind = parse(dtype)
    if kind.is_float:
        return sign * float("inf")
    return kind.max_value if sign > 0 else kind.min_value


def _scan(name: str, join: Callable[[Any, Any], Any], start: Callable[[str], Any]) -> OpSpec:
    """What `join` makes of all elements up to each; `start`, by the type, changes nothing in it."""

    def apply(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
        how = (f"T_{name}", a["axis"], None, a["exclusive"], a["reverse"])
        return running(t[0], join, start(t[0].dtype), *how)

    def numpy(x: Sequence[Array], a: Mapping[str, Any]) -> Array:
        data, axis = x[0], a["axis"]
        wide = data.dtype if data.dtype.itemsize > 2 or data.dtype.kind in "iu" else np.float32
        data = np.flip(data, axis) if a["reverse"] else data
        scan = np.cumsum if name == "cumsum" else np.cumprod
        out = scan(data, axis, dtype=wide)
        if a["exclusive"]:
            first = np.full_like(out.take(range(1), axis), start(""))
            out = np.concatenate([first, out], axis).take(range(data.shape[axis]), axis)
        return (np.flip(out, axis) if a["reverse"] else out).astype(x[0].dtype)

    precision = "" if name in ("cummax", "cummin") else WIDE
    return OpSpec(apply, OPAQUE, numpy if name in ("cumsum", "cumprod") else None, precision)


def _trilu(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    x, k = t

    def element(*i: Any) -> Any:
        diagonal = cast("int64", i[-1]) - cast("int64", i[-2])
        inside = diagonal >= k() if a["upper"] else diagonal <= k()
        return O.select(inside, x(*i), const(0, x.dtype))

    result: Tensor = compute(x.shape, element, "T_trilu", "elemwise")
    return result


def _one_hot(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """indices, and the values (off, on). Indices below 0 count from the end."""
    indices, values = t
    axis, depth = a["axis"], a["depth"]

    def element(*i: Any) -> Any:
        place = cast("int64", indices(*i[:axis], *i[axis + 1 :]))
        here = cast("int64", i[axis])
        hit = O.any(place.equal(here), place.equal(here - const(depth, "int64")))
        return O.select(hit, values(1), values(0))

    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    result: Tensor = compute(shape, element, "T_one_hot", "injective")
    return result


def _diagonal(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """Dimension k of x has the index of dimension places[k] of the result: several may have one."""
    x, places = t[0], a["places"]
    shape = [x.shape[places.index(k)] for k in range(max(places) + 1)]
    result: Tensor = compute(
        shape, lambda *i: x(*(i[k] for k in places)), "T_diagonal", "injective"
    )
    return result


OPS: dict[str, OpSpec] = {
    "topk_places": OpSpec(_topk_places, OPAQUE, _numpy_topk_places, ORDER),
    "take_along": OpSpec(_take_along, INJECTIVE, precision=MOVED),
    "cumsum": _scan("cumsum", add, lambda _: 0),
    "cumprod": _scan("cumprod", mul, lambda _: 1),
    "cummax": _scan("cummax", O.max, lambda dtype: _extreme(dtype, -1)),
    "cummin": _scan("cummin", O.min, lambda dtype: _extreme(dtype, 1)),
    "logcumsumexp": _scan("logcumsumexp", _log_add, lambda _: float("-inf")),
    "trilu": OpSpec(_trilu),
    "one_hot": OpSpec(_one_hot, INJECTIVE),
    "diagonal": OpSpec(_diagonal, INJECTIVE, precision=MOVED),
}
