"""Convolutions done by another algorithm than the one written: known by their structure, however
their axes are ordered, and right at sizes that tiles do not divide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir, topi
from tilewright.interp.te_eval import te_eval
from tilewright.topi.algorithms import algorithms_of, apply_algorithm, best_algorithm, window_of
from tilewright.topi.nn.winograd import ERRORS

Tensors = list[Any]


def channels_last(n: int, h: int, w: int, c: int, f: int, pad: int = 1, k: int = 3) -> Tensors:
    x, g = te.placeholder((n, h, w, c), name="x"), te.placeholder((k, k, c, f), name="g")
    padded = topi.nn.pad(x, (0, pad, pad, 0), (0, pad, pad, 0)) if pad else x
    ry, rx, rc = (te.reduce_axis((0, d), name) for d, name in ((k, "ry"), (k, "rx"), (c, "rc")))
    y = te.compute(
        (n, h + 2 * pad - k + 1, w + 2 * pad - k + 1, f),
        lambda b, i, j, o: te.sum(padded[b, i + ry, j + rx, rc] * g[ry, rx, rc, o], [ry, rx, rc]),
        name="y",
    )
    return [x, g, y]


def blocked(n: int, h: int, w: int, c: int, f: int) -> Tensors:
    """(N, C / 4, H, W, 4) and filters (F / 8, C / 4, 3, 3, 4, 8), the window's columns first."""
    x = te.placeholder((n, c // 4, h, w, 4), name="x")
    g = te.placeholder((f // 8, c // 4, 3, 3, 4, 8), name="g")
    rx, co, ry, ci = (
        te.reduce_axis((0, d), name)
        for d, name in ((3, "rx"), (c // 4, "co"), (3, "ry"), (4, "ci"))
    )
    y = te.compute(
        (n, f // 8, h - 2, w - 2, 8),
        lambda b, o, i, j, v: te.sum(
            g[o, co, ry, rx, ci, v] * x[b, co, ry + i, rx + j, ci], axis=[rx, co, ry, ci]
        ),
        name="y",
    )
    return [x, g, y]


def swapped(n: int, h: int, w: int, c: int, f: int) -> Tensors:
    """The output's rows are the image's columns, and two axes are images."""
    x, g = te.placeholder((2, w, n, h, c), name="x"), te.placeholder((c, 3, f, 3), name="g")
    ry, rx, rc = te.reduce_axis((0, 3)), te.reduce_axis((0, 3)), te.reduce_axis((0, c))
    y = te.compute(
        (w - 2, n, h - 2, 2, f),
        lambda j, b, i, a, o: te.sum(x[a, j + rx, b, i + ry, rc] * g[rc, ry, o, rx], [rc, ry, rx]),
        name="y",
    )
    return [x, g, y]


def with_stages_around(n: int, h: int, w: int, c: int, f: int) -> Tensors:
    """What reads the convolution, and what it reads, stay as they are."""
    x, g, y = channels_last(n, h, w, c, f)
    z = te.compute(y.shape, lambda *i: tir.max(y(*i) * 2.0 + 1.0, 0.0), name="z")
    return [x, g, te.compute(z.shape, lambda *i: z(*i) + z(*i), name="out")]


FORMS: dict[str, tuple[Callable[..., Tensors], tuple[int, ...]]] = {
    "channels last": (channels_last, (1, 8, 8, 16, 16)),
    "sizes that divide nothing": (channels_last, (2, 7, 9, 5, 13)),
    "no padding": (channels_last, (1, 11, 6, 24, 7, 0)),
    "one pixel": (channels_last, (1, 3, 3, 4, 40, 0)),
    "one channel": (channels_last, (1, 9, 10, 1, 19)),
    "blocked": (blocked, (2, 9, 8, 12, 16)),
    "axes in another order": (swapped, (2, 7, 8, 6, 9)),
    "stages around": (with_stages_around, (1, 10, 7, 12, 20)),
}


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v2"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_another_algorithm_has_the_same_results(
    form: tuple[Callable[..., Tensors], tuple[int, ...]], target: str
) -> None:
    make, sizes = form
    tensors = make(*sizes)
    ops = te.create_schedule(tensors[-1].op).stages
    ops = [s.op for s in ops]
    rng = np.random.default_rng(2)
    given = [rng.standard_normal(tuple(map(int, t.shape))).astype("f4") for t in tensors[:-1]]
    (wanted,) = te_eval(tensors[-1], dict(zip(tensors, given)))
    found = algorithms_of(ops, 1e-3)
    assert [a.parameter for a in found] == list(ERRORS)
    for one in found:
        *inputs, out = apply_algorithm(ops, tensors, one)
        assert inputs == tensors[:-1]
        assert out.shape == tensors[-1].shape
        arrays = [tvm.nd.array(a) for a in (*given, np.full_like(wanted, 7))]
        s = topi.schedules.default_schedule([out], target)
        tvm.build(s, [*inputs, out], target)(*arrays)
        error = np.abs(arrays[-1].numpy() - wanted).max() / np.abs(wanted).max()
        assert error <= one.error, one
        assert error > 0 or sizes[3] == 1, "it was computed as written"


def test_float64_has_the_error_of_its_type() -> None:
    x, g = te.placeholder((1, 9, 9, 8), "float64"), te.placeholder((3, 3, 8, 8), "float64")
    ry, rx, rc = te.reduce_axis((0, 3)), te.reduce_axis((0, 3)), te.reduce_axis((0, 8))
    y = te.compute(
        (1, 7, 7, 8),
        lambda b, i, j, o: te.sum(x[b, i + ry, j + rx, rc] * g[ry, rx, rc, o], [ry, rx, rc]),
    )
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((1, 9, 9, 8)), rng.standard_normal((3, 3, 8, 8))
    (wanted,) = te_eval(y, {x: a, g: b})
    ops = [x.op, g.op, y.op]
    for one in algorithms_of(ops, 1e-3):
        out = apply_algorithm(ops, [x, g, y], one)[-1]
        (got,) = te_eval(out, {x: a, g: b})
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


def _conv(element: Callable[..., Any], shape: tuple[int, ...] = (1, 6, 6, 8)) -> Any:
    x, g = te.placeholder((1, 20, 20, 8), name="x"), te.placeholder((3, 3, 8, 8), name="g")
    ry, rx, rc = te.reduce_axis((0, 3)), te.reduce_axis((0, 3)), te.reduce_axis((0, 8))
    return te.compute(shape, lambda *i: te.sum(element(x, g, ry, rx, rc, *i), axis=[ry, rx, rc])).op


OTHERS = {
    "stride 2": _conv(lambda x, g, p, q, c, b, i, j, o: x[b, i * 2 + p, j + q, c] * g[p, q, c, o]),
    "dilated": _conv(lambda x, g, p, q, c, b, i, j, o: x[b, i + p * 2, j + q, c] * g[p, q, c, o]),
    "one window": _conv(lambda x, g, p, q, c, b, i, j, o: x[b, i + p, i + q, c] * g[p, q, c, o]),
    "turned": _conv(lambda x, g, p, q, c, b, i, j, o: x[b, i - p + 2, j + q, c] * g[p, q, c, o]),
    "depthwise": _conv(lambda x, g, p, q, c, b, i, j, o: x[b, i + p, j + q, o] * g[p, q, c, o]),
    "shifted filters": _conv(
        lambda x, g, p, q, c, b, i, j, o: x[b, i + p, j + q, c] * g[2 - p, q, c, o]
    ),
    "no product": _conv(lambda x, g, p, q, c, b, i, j, o: x[b, i + p, j + q, c] + g[p, q, c, o]),
    "channels not last": _conv(
        lambda x, g, p, q, c, b, i, j, o: x[b, i + p, c, j + q] * g[p, q, c, o]
    ),
    "filters not last": _conv(
        lambda x, g, p, q, c, b, o, i, j: x[b, i + p, j + q, c] * g[p, q, c, o], (1, 8, 6, 6)
    ),
}


@pytest.mark.parametrize("op", OTHERS.values(), ids=OTHERS)
def test_what_is_no_window_of_3_by_3_is_left(op: Any) -> None:
    assert window_of(op) is None


def test_5x5_and_half_precision_are_left() -> None:
    assert window_of(channels_last(1, 9, 9, 8, 8, 0, 5)[-1].op) is None
    x, g = te.placeholder((1, 9, 9, 8), "float16"), te.placeholder((3, 3, 8, 8), "float16")
    ry, rx, rc = te.reduce_axis((0, 3)), te.reduce_axis((0, 3)), te.reduce_axis((0, 8))
    y = te.compute(
        (1, 7, 7, 8),
        lambda b, i, j, o: te.sum(x[b, i + ry, j + rx, rc] * g[ry, rx, rc, o], [ry, rx, rc]),
    )
    assert window_of(y.op) is None


def test_the_error_that_is_allowed_decides() -> None:
    ops = [s.op for s in te.create_schedule(channels_last(1, 56, 56, 64, 64)[-1].op).stages]
    assert algorithms_of(ops, 0.0) == []
    assert [a.parameter for a in algorithms_of(ops, ERRORS[2])] == [2]
    constants = [op.output(0) for op in ops if op.name == "g"]
    small, large = (best_algorithm(ops, error, constants) for error in (ERRORS[2], 1e-3))
    assert small is not None
    assert large is not None
    assert (small.parameter, large.parameter) == (2, 6)
    assert best_algorithm(ops, 1e-9) is None


def test_filters_that_are_transformed_at_each_call_pay_with_many_pixels_only() -> None:
    for size, chosen in ((12, 0), (112, 6)):
        tensors = channels_last(1, size, size, 256, 256)
        ops = [s.op for s in te.create_schedule(tensors[-1].op).stages]
        constant = best_algorithm(ops, 1e-3, [tensors[1]])
        each_call = best_algorithm(ops, 1e-3)
        assert constant is not None
        assert (each_call.parameter if each_call else 0) == chosen


def test_few_products_and_few_channels_are_not_worth_it() -> None:
    for sizes in ((1, 8, 8, 16, 16), (1, 224, 224, 3, 64)):
        ops = [s.op for s in te.create_schedule(channels_last(*sizes)[-1].op).stages]
        assert best_algorithm(ops, 1e-3) is None
