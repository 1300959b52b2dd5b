"""Winograd's three operations and the transform of filters, by themselves and as a convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.run import check, floats
from tests.unit.topi.test_nn import convolve
from tilewright import te, topi
from tilewright.base.errors import TilewrightError
from tilewright.topi import nn
from tilewright.topi.nn.winograd import ERRORS, transforms

Array = np.ndarray[Any, Any]


def blocked(x: Array, block: int) -> Array:
    n, c, h, w = x.shape
    return x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2).copy()


def places(x: Array, tile: int, pads: Any, size: Any) -> Array:
    """B' d B of every tile: (a * a, C / b, tiles, b) of blocked data."""
    th, tw_ = (-(-s // tile) for s in size)
    reach = (th * tile + 2 - x.shape[2] - pads[0], tw_ * tile + 2 - x.shape[3] - pads[1])
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], reach[0]), (pads[1], reach[1]), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(x, (tile + 2, tile + 2), axis=(2, 3))
    rows = np.asarray(transforms(tile).input, np.float64)
    moved = np.einsum("pi,ncyxvij,qj->pqcnyxv", rows, view[:, :, ::tile, ::tile], rows)
    return moved.reshape(rows.shape[0] ** 2, x.shape[1], -1, x.shape[-1])


def image(product: Array, tile: int, n: int, size: Any) -> Array:
    """A' m A of every tile, put together: (N, F / f, OH, OW, f)."""
    th, tw_ = (-(-s // tile) for s in size)
    rows = np.asarray(transforms(tile).output, np.float64)
    side = rows.shape[1]
    m = product.reshape(side, side, product.shape[1], n, th, tw_, -1)
    tiles = np.einsum("ip,pqknyxv,jq->nkyixjv", rows, m, rows)
    whole = tiles.reshape(n, product.shape[1], th * tile, tw_ * tile, -1)
    return whole[:, :, : size[0], : size[1]]


@pytest.mark.parametrize("tile", [2, 4, 6])
@pytest.mark.parametrize(
    "n, c, f, h, w, pads, block",
    [
        (1, 32, 48, 8, 12, (1, 1, 1, 1), 16),
        (2, 16, 16, 7, 5, (1, 1, 1, 1), 16),  # tiles that are cut
        (1, 8, 16, 9, 6, (0, 0, 0, 0), 8),
        (1, 16, 32, 3, 14, (0, 2, 1, 0), 16),
        (1, 4, 4, 1, 1, (1, 1, 1, 1), 4),
    ],
)
def test_the_three_operations_are_a_convolution(
    tile: int, n: int, c: int, f: int, h: int, w: int, pads: Any, block: int
) -> None:
    x, k = floats(n, c, h, w), floats(f, c, 3, 3)
    expected = convolve(x, k, (1, 1), pads, (1, 1), 1)
    size = expected.shape[2:]
    data, kernel = blocked(x, block), nn.winograd_kernel(k, tile, block)
    moved = places(data.astype(np.float64), tile, pads, size).astype(np.float32)
    check(lambda t: nn.winograd_input(t, tile, pads), [data], moved)
    product = np.einsum("pctv,pkcvf->pktf", moved.astype(np.float64), kernel.astype(np.float64))
    product = product.astype(np.float32)
    check(lambda a, b: nn.winograd_product(a, b), [moved, kernel], product)
    result = image(product.astype(np.float64), tile, n, size).astype(np.float32)
    check(lambda t: nn.winograd_output(t, tile, n, size), [product], result)
    np.testing.assert_allclose(
        result, blocked(expected, block), rtol=0, atol=ERRORS[tile] * np.abs(expected).max()
    )


@pytest.mark.parametrize("tile", [2, 4, 6])
def test_the_transforms_compute_a_correlation_exactly(tile: int) -> None:
    t = transforms(tile)
    rows = [np.asarray(m) for m in (t.output, t.filter, t.input)]
    x, g = floats(tile + 2).astype(np.float64), floats(3).astype(np.float64)
    np.testing.assert_allclose(
        rows[0] @ ((rows[1] @ g) * (rows[2] @ x)), np.correlate(x, g, "valid"), rtol=1e-12
    )


def test_what_follows_is_computed_on_the_tiles() -> None:
    product, bias = floats(36, 2, 4, 16), floats(2, 16)
    size = (7, 8)

    def build(a: Any, b: Any) -> Any:
        return nn.relu(nn.bias_add(nn.winograd_output(a, 4, 1, size), b, 1))

    wanted = image(product.astype(np.float64), 4, 1, size) + bias[None, :, None, None, :]
    check(build, [product, bias], np.maximum(wanted, 0).astype(np.float32))
    tensors = [te.placeholder(a.shape, "float32", n) for a, n in ((product, "m"), (bias, "b"))]
    with tw.target.Target("llvm") as target:
        out = build(*tensors)
        text = str(tw.lower(topi.default_schedule(out, target), [*tensors, out]))
    halves = text.count("winograd_columns = T.allocate([384]")  # of one tile
    assert halves and halves == text.count("T.allocate")


def test_shapes_that_do_not_fit_are_refused() -> None:
    data = te.placeholder((16, 2, 4, 16), "float32", "v")
    with pytest.raises(TilewrightError, match="do not fit filters"):
        nn.winograd_product(data, te.placeholder((16, 1, 3, 16, 16), "float32", "u"))
    with pytest.raises(TilewrightError, match="is not the product for 1 images of 9 x 8"):
        nn.winograd_output(te.placeholder((36, 2, 4, 16), "float32", "m"), 4, 1, (9, 8))
    with pytest.raises(TilewrightError, match="have to be constant"):
        nn.winograd_input(te.placeholder((te.var("n"), 1, 8, 8, 16), "float32", "x"), 2, [1] * 4)
