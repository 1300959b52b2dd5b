"""Sampling at places that the data says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ..elemwise import accumulator
from ..transform import INJECTIVE
from ..utils import get_const_int

_STEPS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
"""The neighbours of a place, counted from the one below it."""


def _place(
    grid: Tensor, i: Sequence[Any], number: int, size: int, how: tuple[str, str, bool]
) -> tuple[Any, float, float]:
    """Where a place lies along a dimension of `size` elements, the last number of the grid but
    `number`; and the borders of that dimension."""
    method, padding, align_corners = how
    x = cast(accumulator(grid.dtype), grid(i[0], *i[2:], const(number)))
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    x = (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2
    if method == "nearest":
        x = O.nearbyint(x)
    if padding == "reflection":  # at borders each neighbour is limited by itself
        x = _reflected(x, low, high)
    return x, low, high


def _table(grid: Tensor, method: str, element: Any, name: str) -> Tensor:
    shape = (grid.shape[0], len(_STEPS[method]), *grid.shape[1:-1])
    result: Tensor = compute(shape, element, name, INJECTIVE)
    return result


def grid_places(
    grid: Tensor, number: int, size: int, method: str, padding_mode: str, align_corners: bool
) -> Tensor:
    """The indices of the neighbours of each place along one dimension of `size` elements, of which
    the grid (N, ..., dimensions) has number `number`: (N, neighbours, ...); -1 for what is zero."""
    if method not in _STEPS:
        raise TilewrightError(f"grid_sample: method {method!r} is unknown")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise TilewrightError(f"grid_sample: padding_mode {padding_mode!r} is unknown")

    def element(*i: Any) -> Any:
        x, low, high = _place(grid, i, number, size, (method, padding_mode, align_corners))
        near = O.floor(x) + cast(x.dtype, i[1] + _STEPS[method][0])
        if padding_mode == "reflection":
            near = _reflected(near, low, high)
        # far places are limited before they become integers, which have not room for all
        near = O.max(O.min(near, const(size, x.dtype)), const(-1, x.dtype))
        index = cast("int32", O.trunc(near))
        if padding_mode == "zeros":
            return O.select(O.all(index >= 0, index < size), index, -1)
        return O.max(O.min(index, size - 1), 0)

    return _table(grid, method, element, "T_grid_places")


def grid_weights(
    grid: Tensor,
    number: int,
    size: int,
    method: str,
    padding_mode: str,
    align_corners: bool,
    dtype: str,
) -> Tensor:
    """What the neighbours count of which grid_places gives the indices."""

    def element(*i: Any) -> Any:
        x, _, _ = _place(grid, i, number, size, (method, padding_mode, align_corners))
        away = O.abs(x - O.floor(x) - cast(x.dtype, i[1] + _STEPS[method][0]))
        return cast(dtype, 1 - away if method == "linear" else _cubic(away))

    return _table(grid, method, element, "T_grid_weights")


def _cubic(x: Any) -> Any:
    """Keys' kernel."""
    a = const(-0.75, x.dtype)
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return O.select(x <= 1, inner, outer)


def grid_sample(data: Tensor, places: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """data (N, C, ...) at places of which each dimension has the neighbours' indices (N,
    neighbours, ...), and their weights (none: the only neighbour counts 1)."""
    sizes = [get_const_int(d) for d in data.shape[2:]]
    wide = accumulator(data.dtype)
    steps = range(get_const_int(places[0].shape[1]))

    def element(*i: Any) -> Any:
        total: Any = None
        for chosen in product(steps, repeat=len(sizes)):
            at = [table(i[0], k, *i[2:]) for table, k in zip(places, chosen)]
            inside = [p >= 0 for p in at]
            value = cast(wide, data(i[0], i[1], *(O.max(p, 0) for p in at)))
            for table, k in zip(weights, chosen):
                value = value * cast(wide, table(i[0], k, *i[2:]))
            value = O.if_then_else(O.all(*inside), value, const(0, wide))
            total = value if total is None else total + value
        return cast(data.dtype, total)

    shape = (*data.shape[:2], *places[0].shape[2:])
    result: Tensor = compute(shape, element, "T_grid_sample", INJECTIVE)
    return result


def _reflected(x: Any, low: float, high: float) -> Any:
    """A place mirrored at both borders until it lies between them."""
    span = high - low
    if span <= 0:
        return x * 0 + low
    away = O.abs(x - const(low, x.dtype))
    rest = away - O.floor(away / (2 * span)) * (2 * span)
    return const(low, x.dtype) + O.min(rest, 2 * span - rest)


def affine_grid(theta: Tensor, places: Tensor) -> Tensor:
    """theta (N, D, D + 1) times each of `places` (count, D + 1): (N, count, D)."""
    depth = get_const_int(places.shape[1])
    wide = accumulator(theta.dtype)

    def element(b: Any, i: Any, d: Any) -> Any:
        total: Any = const(0, wide)
        for k in range(depth):
            total = total + cast(wide, theta(b, d, k)) * cast(wide, places(i, k))
        return cast(theta.dtype, total)

    shape = (theta.shape[0], places.shape[0], theta.shape[1])
    result: Tensor = compute(shape, element, "T_affine_grid", INJECTIVE)
    return result
