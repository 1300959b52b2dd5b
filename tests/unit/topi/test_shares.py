"""Which loops share the rows of an image that lies in blocks of channels."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.loopir import stmt as S
from tilewright.loopir.expr import const_int
from tilewright.loopir.visit import nodes
from tilewright.topi.nn.blocked import conv_nchwc

CPU = "llvm -mcpu=skylake-avx512"


def image(blocks: int, side: int, images: int = 1, channels: int = 16) -> Any:
    return te.placeholder((images, blocks, side, side, channels), "float32", "x")


def conv(blocks: int, filters: int, side: int, taps: int = 1, images: int = 1) -> Any:
    x = image(blocks, side, images)
    w = te.placeholder((filters, blocks, taps, taps, 16, 16), "float32", "w")
    pads = (taps // 2,) * 4
    return [x, w, topi.nn.relu(conv_nchwc(x, w, (1, 1), pads))]


def scaled(blocks: int, side: int) -> Any:
    x = image(blocks, side)
    scale = te.placeholder((blocks, 16), "float32", "scale")
    return [x, scale, te.compute(x.shape, lambda n, c, h, w, i: x[n, c, h, w, i] * scale[c, i])]


def element_wise(*shape: int) -> Any:
    x = te.placeholder(shape, "float32", "x")
    return [x, topi.nn.relu(x)]


def pooled(*shape: int) -> Any:
    x = te.placeholder(shape, "float32", "x")
    if len(shape) == 3:
        return [x, topi.nn.pool1d(x, [2], [1], [1], [0, 0], "max")]
    one, none = [1, 1], [0] * 4
    return [x, topi.nn.pool2d(x, [2, 2], one, one, none, "max", layout="NCHW16c")]


def rows_of(tensors: list[Any]) -> tuple[list[int], list[int]]:
    """What parallel_rows says, and the extents of the parallel loops."""
    with tw.target.Target(CPU):
        s = topi.default_schedule(tensors[-1], tw.target.Target(CPU))
    body = tw.lower(s, tensors)["main"].body
    found = list(nodes(body))
    rows = [const_int(x.value) or 0 for x in found
            if isinstance(x, S.AttrStmt) and x.attr_key == "pragma_parallel_rows"]  # fmt: skip
    loops = [const_int(x.extent) or 0 for x in found
             if isinstance(x, S.For) and x.kind == S.ForKind.PARALLEL]  # fmt: skip
    return rows, loops


@pytest.mark.parametrize(
    "tensors, rows",
    [
        (conv(4, 4, 56), [56]),
        (conv(4, 4, 56, images=2), []),  # a thread has an image of its own
        (conv(4, 4, 7), []),  # a few lines of each block are fetched with their neighbours
        (conv(64, 64, 14), []),  # 4 MB of weights for 0.8 MB of data
        (scaled(6, 56), []),  # the parallel loop goes over parts of the rows itself
        (element_wise(1, 6, 56, 56, 16), [56 * 56]),
        (element_wise(2, 6, 56, 56, 16), []),
        (element_wise(1, 6, 56, 56, 64), []),  # no blocks of channels
        (element_wise(1, 96, 56, 56), []),
        (pooled(1, 4, 57, 57, 16), [56]),
        (pooled(2, 4, 57, 57, 16), []),
        (pooled(1, 300, 300), []),  # a line, whose vectors are a loop
    ],
)
def test_which_loops_share_rows(tensors: Any, rows: list[int]) -> None:
    assert rows_of(tensors)[0] == rows


def test_scaled_channels_are_shared_by_rows() -> None:
    assert rows_of(scaled(6, 56)) == ([], [16])
    assert rows_of(scaled(60, 7)) == ([], [60])
