"""Calls of copies by tensor maps: what they hold, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.base.errors import TilewrightError
from tilewright.base.tensor_map import Pixels
from tilewright.loopir import expr as E
from tilewright.loopir import hopper_calls as H

MAP, TILE = E.Var("M", "handle"), E.Var("tile", "handle")


def _ints(values: Any) -> list[int | None]:
    return [E.const_int(x) for x in values]


def test_a_tiled_map_and_its_copies_have_the_calls_that_they_had() -> None:
    call = H.tensor_map(MAP, (1000, 197), (2000,), (64, 128), 128)
    assert _ints(call.args[1:]) == [128, 2, 1000, 197, 2000, 64, 128]
    assert H.map_parts(call).pixels is None
    copy = H.ptx_cp_async_bulk_tensor("float16", TILE, MAP, (64, 8), 1)
    assert (copy.op.name, _ints(copy.args[2:])) == ("tir.ptx_cp_async_bulk_tensor", [1, 64, 8])
    several = H.ptx_cp_async_bulk_tensor("float16", TILE, MAP, (64, 8), 1, 3)
    assert several.op.name == "tir.ptx_cp_async_bulk_tensor_multicast"
    assert _ints(several.args[2:]) == [1, 3, 64, 8]


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_a_map_of_images_is_taken_apart_as_it_was_made(rank: int) -> None:
    n = E.Var("n", "int32")
    dims, strides = (64, *range(7, 5 + rank), n), tuple(range(128, 128 * rank, 128))
    k = rank - 2
    pixels = Pixels((-1, -2, -3)[:k], (-4, 0, 5)[:k], (1, 2, 3)[:k])
    parts = H.map_parts(H.tensor_map(MAP, dims, strides, (32, 100), 64, pixels))
    assert (parts.pixels, parts.box, parts.swizzle) == (pixels, (32, 100), 64)
    assert parts.dims[-1] is n and _ints(parts.dims[:-1]) == list(dims[:-1])
    assert _ints(parts.strides) == list(strides)


@pytest.mark.parametrize("blocks", [None, 5])
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_a_copy_of_pixels_is_taken_apart_as_it_was_made(rank: int, blocks: int | None) -> None:
    at, offsets = range(10, 10 + rank), range(20, 18 + rank)
    call = H.ptx_cp_async_bulk_tensor("int8", TILE, MAP, at, 7, blocks, offsets)
    assert call.op.name == H.COPIES[True, blocks is not None]
    parts = H.copy_parts(call)
    assert (parts.shared_ptr, parts.tensor_map) == (TILE, MAP)
    assert E.const_int(parts.barrier_id) == 7
    assert (None if blocks is None else E.const_int(parts.blocks)) == blocks
    assert _ints(parts.coordinates) == list(at) and _ints(parts.offsets) == list(offsets)


def test_what_does_not_fit_is_told() -> None:
    images = ((64, 14, 9, 8), (128, 1792, 16128))
    pixels = Pixels((0, 0), (0, 0), (1, 1))
    for dims, strides, box, given, text in (
        (*images, (64, 14, 9, 8), pixels, "and a column has channels and pixels"),
        (*images, (64, 8), None, "4 dims, 2 of a box, 3 strides"),
        (*images, (64, 8), Pixels((0,), (0, 0), (1, 1)), "4 dims, of pixels 1, 2, 2; images"),
        ((64, 8), (128,), (64, 8), Pixels((), (), ()), "2 dims, of pixels 0, 0, 0; images"),
    ):
        with pytest.raises(TilewrightError, match=text):
            H.tensor_map(MAP, dims, strides, box, 0, given)
    for at, offsets in (((0, 0, 0), (1, 2)), ((0, 0), ()), (range(6), range(4))):
        with pytest.raises(TilewrightError, match="all but the first and the last have an offset"):
            H.ptx_cp_async_bulk_tensor("int8", TILE, MAP, at, 7, None, offsets)
