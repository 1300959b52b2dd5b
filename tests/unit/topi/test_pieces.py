"""How many pieces there are for threads, of shapes whose outer loops are few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.loopir import stmt as S
from tilewright.loopir.expr import const_int
from tilewright.loopir.visit import nodes
from tilewright.topi.nn.blocked import conv_nchwc, depthwise_nchwc
from tilewright.topi.schedules.conv2d import _runs_of_columns

RNG = np.random.default_rng(4)


def line(channels: int, width: int, taps: int) -> list[Any]:
    """A convolution over one row, in blocks of 16 channels."""
    blocks = channels // 16
    x = te.placeholder((1, blocks, 1, width, 16), "float32", "x")
    w = te.placeholder((blocks, blocks, 1, taps, 16, 16), "float32", "w")
    return [x, w, conv_nchwc(x, w, (1, 1), (0, taps // 2, 0, taps // 2))]


def line_of_channels(channels: int, width: int, taps: int) -> list[Any]:
    blocks = channels // 16
    x = te.placeholder((1, blocks, 1, width, 16), "float32", "x")
    w = te.placeholder((blocks, 1, taps, 16), "float32", "w")
    return [x, w, depthwise_nchwc(x, w, (1, 1), (0, taps // 2, 0, taps // 2))]


def images(n: int, side: int, channels: int, filters: int) -> list[Any]:
    x = te.placeholder((n, side, side, channels), "float32", "x")
    w = te.placeholder((3, 3, channels, filters), "float32", "w")
    return [x, w, topi.nn.conv2d_nhwc(x, w, 1, 1, 1)]


def batches(n: int, rows: int, depth: int, columns: int) -> list[Any]:
    x = te.placeholder((n, rows, depth), "float32", "x")
    w = te.placeholder((depth, columns), "float32", "w")
    k = te.reduce_axis((0, depth), "k")
    y = te.compute(
        (n, rows, columns), lambda b, i, j: te.sum(x[b, i, k] * w[k, j], axis=k), name="y"
    )
    return [x, w, y]


SHAPES = {
    "line": lambda: line(32, 40960, 11),
    "line of channels": lambda: line_of_channels(64, 3000, 5),
    "two images": lambda: images(2, 56, 64, 64),
    "three images": lambda: images(3, 28, 64, 32),
    "two matrices": lambda: batches(2, 500, 300, 64),
}


@pytest.mark.parametrize("cores", [2, 16])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_threads_have_pieces(shape: str, cores: int) -> None:
    tensors = SHAPES[shape]()
    target = tw.target.Target(f"llvm -mcpu=skylake-avx512 -num-cores={cores}")
    with target:
        s = topi.default_schedule(tensors[-1], target)
    loops = [
        const_int(x.extent) or 0
        for x in nodes(tw.lower(s, tensors)["main"].body)
        if isinstance(x, S.For) and x.kind == S.ForKind.PARALLEL
    ]
    assert loops and loops[-1] >= cores


@pytest.mark.parametrize(
    "tensors",
    [line(32, 203, 3), line_of_channels(48, 131, 5), images(3, 9, 5, 37), batches(3, 29, 31, 50)],
)
def test_pieces_make_all_of_the_output(tensors: list[Any]) -> None:
    """Beside the same sums on one thread."""
    target = tw.target.Target("llvm -num-cores=5")
    with target:
        s = topi.default_schedule(tensors[-1], target)
    plain = te.create_schedule(tensors[-1].op)
    arrays = [RNG.standard_normal([int(d) for d in t.shape]).astype("float32") for t in tensors]
    results = []
    for schedule in (s, plain):
        arrays[-1] = np.full_like(arrays[-1], 77)
        tw.build(schedule, tensors, target)(*arrays)
        results.append(arrays[-1])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("width", "most", "wanted"),
    [(56, 16, 14), (7, 16, 7), (112, 8, 8), (19, 8, 7), (37, 16, 13), (17, 8, 6), (74, 16, 15)],
)
def test_runs_of_columns(width: int, most: int, wanted: int) -> None:
    """Few of the columns that a run makes lie beyond the image."""
    found = _runs_of_columns(width, most)
    assert found[0] == wanted and max(found[:3]) <= most * 3 // 2


@pytest.mark.parametrize("transposed", [False, True])
def test_rows_of_which_the_number_is_not_known(transposed: bool) -> None:
    m, k, n = te.var("m"), 65, 50
    x = te.placeholder((m, k), "float32", "x")
    w = te.placeholder((n, k) if transposed else (k, n), "float32", "w")
    out = topi.nn.dense(x, w) if transposed else topi.matmul(x, w)
    f = tw.build(topi.default_schedule(out, "llvm"), [x, w, out], "llvm")
    weights = RNG.standard_normal([int(d) for d in w.shape]).astype("float32")
    for rows in (1, 7, 131):
        a = RNG.standard_normal((rows, k)).astype("float32")
        y = np.full((rows, n), 77, "float32")
        f(a, weights, y)
        wanted = a @ (weights.T if transposed else weights)
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cpu", ["x86-64-v2", "haswell"])
@pytest.mark.parametrize("reduce", [topi.sum, topi.max, topi.argmax])
def test_doubles_are_reduced_in_vectors(cpu: str, reduce: Any) -> None:
    """Of two elements, where vectors have 16 bytes."""
    x = te.placeholder((6, 101), "float64", "x")
    out, target = reduce(x, -1), tw.target.Target(f"llvm -mcpu={cpu}")
    with target:
        s = topi.default_schedule(out, target)
    body = tw.lower(s, [x, out])["main"].body
    assert any(parse(getattr(e, "dtype", "int32")).lanes > 1 for e in nodes(body))
    a = RNG.standard_normal((6, 101))
    y = np.zeros(6, out.dtype)
    tw.build(s, [x, out], target)(a, y)
    wanted = {topi.sum: a.sum(-1), topi.max: a.max(-1), topi.argmax: a.argmax(-1)}[reduce]
    np.testing.assert_allclose(y, wanted, rtol=1e-12)
