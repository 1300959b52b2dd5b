"""Operations that move elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import topi
from ...loopir import op as O
from ...loopir.expr import cast, const_int, convert
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ...topi.joined import joined
from .spec import INJECTIVE, MOVED, OPAQUE, Array, OpSpec


def _slice(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """Here an end of -1 means up to and with the first element, where steps go backwards."""
    steps = a["strides"]
    if any(const_int(convert(d)) is None for d in (*a["begin"], *a["end"], *t[0].shape)):
        return _open_slice(t[0], a["begin"], a["end"], steps)
    ends = [-(1 << 31) if e == -1 and s < 0 else e for e, s in zip(a["end"], steps)]
    result: Tensor = topi.strided_slice(t[0], a["begin"], ends, steps)
    return result


def _open_slice(x: Tensor, begin: Sequence[Any], end: Sequence[Any], steps: Any) -> Tensor:
    """A slice whose ends, within the tensor, are not known; not empty where it goes backwards."""

    def count(b: Any, e: Any, s: int) -> Any:
        away, step = (e - b, s) if s > 0 else (b - e, -s)
        return (away + step - 1) // step if step > 1 else away

    shape = list(map(count, begin, end, steps))
    result: Tensor = compute(
        shape,
        lambda *i: x(*(j * s + b for j, b, s in zip(i, begin, steps))),
        "T_strided_slice",
        "injective",
    )
    return result


def _extents(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """Whole numbers, some of which are known only when the network runs."""
    values = [cast("int64", convert(d)) for d in a["values"]]

    def element(*i: Any) -> Any:
        if not i:
            return values[0]
        chosen = values[-1]
        for k, value in reversed(list(enumerate(values[:-1]))):
            chosen = O.select(i[0].equal(k), value, chosen)
        return chosen

    result: Tensor = compute((len(values),) * a["rank"], element, "T_extents", "injective")
    return result


def _arange(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """start, start + step, ...: `count` whole numbers."""
    result: Tensor = compute(
        (a["count"],),
        lambda i: cast(a["dtype"], i * a["step"] + a["start"]),
        "T_arange",
        "injective",
    )
    return result


def _roll(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """All elements along a dimension from `first` on, then those before it."""
    x, axis, first = t[0], a["axis"], a["first"]
    ahead = x.shape[axis] - first  # elements from `first` to the end

    def element(*i: Any) -> Any:
        k = i[axis]
        return x(*i[:axis], O.select(k < ahead, k + first, k - ahead), *i[axis + 1 :])

    result: Tensor = compute(x.shape, element, "T_roll", "injective")
    return result


def _numpy_slice(x: Sequence[Array], a: Mapping[str, Any]) -> Array:
    ends = [None if e == -1 and s < 0 else e for e, s in zip(a["end"], a["strides"])]
    return x[0][tuple(map(slice, a["begin"], ends, a["strides"]))]


OPS: dict[str, OpSpec] = {
    "reshape": OpSpec(
        lambda t, a: topi.reshape(t[0], a["shape"]),
        INJECTIVE,
        lambda x, a: x[0].reshape(a["shape"]),
        MOVED,
    ),
    "transpose": OpSpec(
        lambda t, a: topi.transpose(t[0], a["axes"]),
        INJECTIVE,
        lambda x, a: x[0].transpose(a["axes"]),
        MOVED,
    ),
    "concat": OpSpec(
        lambda t, a: joined(t, a["axis"]),
        OPAQUE,
        lambda x, a: np.concatenate(x, a["axis"]),
        MOVED,
    ),
    "pad": OpSpec(lambda t, a: topi.pad(t[0], a["before"], a["after"], a["value"]), INJECTIVE),
    "take": OpSpec(
        lambda t, a: topi.take(t[0], t[1], a["axis"], mode="from_end"),
        INJECTIVE,
        lambda x, a: np.take(x[0], x[1], a["axis"]),
        MOVED,
    ),
    "broadcast_to": OpSpec(
        lambda t, a: topi.broadcast_to(t[0], a["shape"]),
        INJECTIVE,
        lambda x, a: np.broadcast_to(x[0], a["shape"]),
        MOVED,
    ),
    "pad_by": OpSpec(
        lambda t, a: topi.pad(t[0], a["before"], a["after"], t[1]()), INJECTIVE
    ),  # the second input is what to pad with
    "mirror_pad": OpSpec(
        lambda t, a: topi.mirror_pad(t[0], a["before"], a["after"], a["mode"]), INJECTIVE
    ),
    "tile": OpSpec(
        lambda t, a: topi.tile(t[0], a["repeats"]),
        INJECTIVE,
        lambda x, a: np.tile(x[0], a["repeats"]),
        MOVED,
    ),
    "reverse_sequence": OpSpec(
        lambda t, a: topi.reverse_sequence(t[0], t[1], a["seq_axis"], a["batch_axis"]),
        INJECTIVE,
        precision=MOVED,
    ),
    "extents": OpSpec(_extents, INJECTIVE),
    "arange": OpSpec(_arange, INJECTIVE),
    "roll": OpSpec(_roll, INJECTIVE, lambda x, a: np.roll(x[0], -a["first"], a["axis"]), MOVED),
    "slice": OpSpec(_slice, INJECTIVE, _numpy_slice, MOVED),
    "pack_channels": OpSpec(lambda t, a: topi.pack_channels(t[0], a["block"]), INJECTIVE),
    "unpack_channels": OpSpec(lambda t, a: topi.unpack_channels(t[0], a["channels"]), INJECTIVE),
}
